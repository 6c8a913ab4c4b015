//! Data of the fake: chats, messages and files.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;

/// Kind of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChatKind {
    /// A private chat (C2C); its id is the person's `user_openid`.
    User,
    /// A group; its id is the `group_openid`.
    Group,
    /// A channel of a guild; its id is the `channel_id`.
    Channel,
    /// Direct messages of a guild; its id is the `guild_id` of these messages.
    Dms,
}

impl ChatKind {
    /// Returns `true` for the older kinds, of guilds.
    pub(crate) fn is_guild(self) -> bool {
        matches!(self, Self::Channel | Self::Dms)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Chat {
    pub(crate) kind: ChatKind,
    pub(crate) has_bot: bool,
    pub(crate) is_muted: bool,
    /// `true` if people refuse messages that are no replies.
    pub(crate) rejects_active: bool,
    /// Times of messages that were no replies, in milliseconds of the fake's clock.
    pub(crate) active: Vec<i64>,
}

impl Chat {
    pub(crate) fn new(kind: ChatKind) -> Self {
        Self {
            kind,
            has_bot: true,
            is_muted: false,
            rejects_active: false,
            active: Vec::new(),
        }
    }
}

/// A message from a person, which can be replied to.
#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    pub(crate) chat: String,
    /// Milliseconds of the fake's clock.
    pub(crate) arrived: i64,
    /// The `msg_seq` of the replies so far.
    pub(crate) replies: BTreeSet<i64>,
}

/// A file sent by a person.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
    /// End of its validity, in milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

/// An upload of the bot.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) kind: ChatKind,
    pub(crate) file: SentFile,
    /// End of its validity, in milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

/// A file sent by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name; for a picture, a video or a voice message without one its kind.
    pub name: String,
    /// `image`, `video`, `voice` or `file`.
    pub kind: String,
    /// The address that QQ would fetch the file from; empty for an uploaded content.
    pub url: String,
    /// Its content; empty if it has an address.
    pub bytes: Bytes,
}

/// A message sent by the bot.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// Its id.
    pub id: String,
    /// Id of the chat: see [`ChatKind`].
    pub chat_id: String,
    /// Kind of the chat.
    pub chat_kind: ChatKind,
    /// The `msg_type`: 0 text, 2 Markdown, 7 a file; for guilds the type that it would be.
    pub msg_type: i64,
    /// Visible text; Markdown is unchanged.
    pub text: String,
    /// The message that it replies to; `None` for an active message.
    pub msg_id: Option<String>,
    /// The `msg_seq` of a reply; 1 if it has none.
    pub msg_seq: i64,
    /// The parameters of the call.
    pub content: Value,
    /// The files of the message.
    pub files: Vec<SentFile>,
}

/// An action of a person and the pushes that report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The chat; empty if the push belongs to none.
    pub chat_id: String,
    /// The id of the message; empty if the push belongs to none.
    pub message_id: String,
    /// Numbers of its pushes; none if the message does not reach the bot.
    pub(crate) pushes: Vec<usize>,
}
