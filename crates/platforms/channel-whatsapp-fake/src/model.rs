//! Data of the fake: messages and files.

use bytes::Bytes;
use serde_json::Value;

/// A message that can be quoted, read or reacted to.
#[derive(Clone, Debug)]
pub(crate) struct KnownMessage {
    pub(crate) chat: String,
    pub(crate) participant: String,
    pub(crate) is_from_bot: bool,
    pub(crate) content: String,
}

/// A file of a received message.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedFile {
    /// The message.
    pub(crate) seq: u64,
    pub(crate) bytes: Bytes,
    /// End of the last piece that was sent; `None` before the bridge downloaded the file.
    pub(crate) fetched: Option<usize>,
}

/// A file sent by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// `image`, `video`, `audio`, `voice`, `document` or `sticker`.
    pub kind: String,
    /// Its media type.
    pub mime: String,
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Bytes,
}

/// A message sent by the bot.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// Its id, chosen by the client; empty for a client of version 1.
    pub id: String,
    /// The chat: a group, or the JID of a person's phone number if it is known.
    pub chat_id: String,
    /// The chat as the client named it.
    pub to: String,
    /// The text, or the caption.
    pub text: String,
    /// The `quote` as it was sent; `Null` without one.
    pub quote: Value,
    /// Its files, at most one.
    pub files: Vec<SentFile>,
}

/// A message of a person on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The group, or the person's JID as the message has it; empty if there is none.
    pub chat_id: String,
    /// Id of the message; empty if it has none.
    pub message_id: String,
}
