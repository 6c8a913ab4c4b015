//! Data of the fake: chats, messages, reactions, resources and card entities.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;

use crate::incoming::Person;

/// Kind of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChatKind {
    Direct,
    Group,
    Topics,
}

impl ChatKind {
    /// Returns the name of the kind in events.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "p2p",
            Self::Group => "group",
            Self::Topics => "topic_group",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Chat {
    pub(crate) kind: ChatKind,
    pub(crate) has_bot: bool,
    pub(crate) is_dissolved: bool,
}

/// The sender of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The bot of the fake.
    Bot,
    Person(Person),
    /// Another app's bot.
    OtherBot(Person),
}

#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    pub(crate) id: String,
    pub(crate) chat: String,
    pub(crate) sender: Sender,
    pub(crate) kind: String,
    /// The content as it was sent: JSON as a text.
    pub(crate) content: String,
    /// The content, parsed; `Null` if it is no JSON.
    pub(crate) body: Value,
    pub(crate) root: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) thread: Option<String>,
    /// The merged and forwarded message that this one is a part of.
    pub(crate) upper: Option<String>,
    pub(crate) mentions: Value,
    /// Milliseconds of the fake's clock.
    pub(crate) created: i64,
    pub(crate) updated: i64,
    pub(crate) edits: usize,
    pub(crate) is_deleted: bool,
    pub(crate) uuid: Option<String>,
    pub(crate) card: Option<String>,
    /// Earlier visible texts.
    pub(crate) history: Vec<String>,
    pub(crate) reactions: Vec<Reaction>,
}

#[derive(Clone, Debug)]
pub(crate) struct Reaction {
    pub(crate) id: String,
    pub(crate) emoji: String,
    pub(crate) operator: Sender,
    pub(crate) at: i64,
}

/// A file or image, uploaded by the bot or sent by a person.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) name: String,
    /// `image`, or the `file_type` of the upload.
    pub(crate) kind: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
    /// The message that carries it; `None` for an upload.
    pub(crate) message: Option<String>,
}

/// A card entity.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) content: Value,
    pub(crate) sequence: i64,
    pub(crate) uuids: BTreeSet<String>,
    pub(crate) created: i64,
    /// Time at which streaming was switched on; `None` if it is off.
    pub(crate) streaming_since: Option<i64>,
    pub(crate) is_sent: bool,
    /// Earlier visible texts.
    pub(crate) history: Vec<String>,
}

/// A file sent by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name; for an image `image`, because Feishu drops the names of images.
    pub name: String,
    /// `image`, or the `file_type` of the upload.
    pub kind: String,
    /// Its content.
    pub bytes: Bytes,
}

/// A message sent by the bot, in its current state.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// Id of the message (`om_…`).
    pub message_id: String,
    /// Id of the chat (`oc_…`).
    pub chat_id: String,
    /// Type of the message (`text`, `post`, `interactive`, …).
    pub kind: String,
    /// The content, parsed. For a card entity: the current card.
    pub content: Value,
    /// Id of the card entity, if the message shows one.
    pub card_id: Option<String>,
    /// `true` while the card entity is in streaming mode.
    pub is_streaming: bool,
    /// First message of the reply chain.
    pub root_id: Option<String>,
    /// The message that this one replies to.
    pub parent_id: Option<String>,
    /// The thread.
    pub thread_id: Option<String>,
    /// The `uuid` of the call.
    pub uuid: Option<String>,
    /// Visible text; the markup of cards and posts is unchanged.
    pub text: String,
    /// Earlier visible texts, oldest first.
    pub history: Vec<String>,
    /// `true` once the message is withdrawn.
    pub is_deleted: bool,
    /// The files of the message: its file or image, and the images of a post or card.
    pub files: Vec<SentFile>,
}

impl StoredMessage {
    /// Replaces the content.
    pub(crate) fn set_content(&mut self, content: String) {
        self.body = serde_json::from_str(&content).unwrap_or_default();
        self.content = content;
    }
}

/// An action of a person and the events that report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The chat; empty if the event belongs to none.
    pub chat_id: String,
    /// Id of the message; empty if the event belongs to none.
    pub message_id: String,
    /// Numbers of its events.
    pub(crate) events: Vec<usize>,
}
