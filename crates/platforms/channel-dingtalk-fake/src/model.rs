//! Data of the fake: chats, messages, files and cards.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::Value;

use crate::incoming::Person;

#[derive(Clone, Debug)]
pub(crate) struct Chat {
    pub(crate) title: String,
    pub(crate) is_group: bool,
    pub(crate) has_robot: bool,
}

/// A message from a person.
#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    pub(crate) person: Person,
    pub(crate) kind: String,
    /// The content; for a text, the member `text` of the message.
    pub(crate) content: Value,
    /// Milliseconds of the fake's clock.
    pub(crate) created: i64,
}

/// A file: uploaded by the robot, or sent by a person.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) name: String,
    /// Type of the upload, or of the message.
    pub(crate) kind: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
}

/// A temporary address: of a file, or of the replies to a message.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The code of the file, or the chat.
    pub(crate) target: String,
    /// Milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

/// An AI card.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    /// Variable of the template that can be streamed.
    pub(crate) key: String,
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) guids: BTreeSet<String>,
    pub(crate) is_finished: bool,
    /// `true` if it was finished as a failure.
    pub(crate) is_failed: bool,
    /// Earlier visible texts.
    pub(crate) history: Vec<String>,
}

impl Card {
    pub(crate) fn text(&self) -> String {
        self.values.get(&self.key).cloned().unwrap_or_default()
    }
}

/// A message of the robot as it was sent to one chat.
#[derive(Clone, Debug)]
pub(crate) struct StoredSend {
    pub(crate) key: String,
    pub(crate) chat: String,
    pub(crate) kind: String,
    pub(crate) content: Value,
    /// The card that it shows.
    pub(crate) card: Option<String>,
    /// Milliseconds of the fake's clock.
    pub(crate) created: i64,
}

/// A file sent by the robot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name; for a picture the name of its upload, which people do not see.
    pub name: String,
    /// Type of the upload: `image`, `voice`, `video` or `file`; `link` for a picture by its address.
    pub kind: String,
    /// Its content; empty for a `link`.
    pub bytes: Bytes,
}

/// A message sent by the robot, in its current state.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// The `processQueryKey`; for a card its `outTrackId`.
    pub key: String,
    /// Id of the conversation (`cid…`): of the group, or [`Person::direct`].
    pub chat_id: String,
    /// The `msgKey`; `card` for a card; `session.text` and the like for a reply to the
    /// `sessionWebhook`.
    pub kind: String,
    /// The `msgParam`, parsed; for a card its current values.
    pub content: Value,
    /// Visible text; Markdown is unchanged.
    pub text: String,
    /// Earlier visible texts of a card, oldest first.
    pub history: Vec<String>,
    /// The `outTrackId`, if the message is a card.
    pub card: Option<String>,
    /// `true` while a card is neither finished nor failed.
    pub is_streaming: bool,
    /// `true` if a card was finished as a failure.
    pub is_failed: bool,
    /// The files of the message.
    pub files: Vec<SentFile>,
}

/// An action of a person and the pushes that report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The conversation; empty if the push belongs to none.
    pub chat_id: String,
    /// The `msgId`; empty if the push belongs to no message.
    pub message_id: String,
    /// Numbers of its pushes; none if the message does not reach the robot.
    pub(crate) pushes: Vec<usize>,
}
