//! Data of the fake: chats, messages, callbacks and files.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct Chat {
    pub(crate) is_group: bool,
    pub(crate) has_bot: bool,
    /// `true` once someone wrote to the bot here.
    pub(crate) is_open: bool,
}

/// A message from a person.
#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    pub(crate) kind: String,
    /// The content; the address of each file is replaced by its number.
    pub(crate) content: Value,
}

/// The kind of a callback, which decides on its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallbackKind {
    Message,
    EnterChat,
    /// A button of the card of this task.
    Card(String),
    Other,
}

/// A callback that the bot can answer.
#[derive(Clone, Debug)]
pub(crate) struct Callback {
    pub(crate) kind: CallbackKind,
    pub(crate) chat: String,
    /// Milliseconds of the fake's clock.
    pub(crate) at: i64,
    /// `true` once it was answered with the only answer of its kind.
    pub(crate) is_answered: bool,
    /// Streams by their id.
    pub(crate) streams: BTreeMap<String, Stream>,
}

/// A streamed message.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Position of its message.
    pub(crate) sent: usize,
    /// Time of the first frame, in milliseconds of the fake's clock.
    pub(crate) begun: i64,
    /// The finishing frame.
    pub(crate) finish: Option<Value>,
}

/// An encrypted file of a message.
#[derive(Clone, Debug)]
pub(crate) struct EncryptedFile {
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
}

/// A temporary address of a file.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) file: String,
    /// Milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

/// An upload in progress.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) chunks: usize,
    pub(crate) md5: Option<String>,
    pub(crate) parts: BTreeMap<usize, Bytes>,
    /// Milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

/// A finished upload.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    pub(crate) file: SentFile,
    /// Milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

/// A file sent by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name.
    pub name: String,
    /// Type of the upload: `image`, `voice`, `video` or `file`.
    pub kind: String,
    /// Its content.
    pub bytes: Bytes,
}

/// A message sent by the bot, in its current state.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// The fake's id of the message, for quotes and pressed buttons.
    pub key: String,
    /// Command that sent it.
    pub command: String,
    /// The `req_id` of the first frame of the message.
    pub req_id: String,
    /// The group, or the id of the person in a private chat.
    pub chat_id: String,
    /// The `msgtype`.
    pub kind: String,
    /// The member of the body that is named like the `msgtype`, as it was sent last.
    pub content: Value,
    /// Visible text; Markdown is unchanged.
    pub text: String,
    /// Earlier visible texts, oldest first.
    pub history: Vec<String>,
    /// The id of the stream, if the message is one.
    pub stream: Option<String>,
    /// `true` while a stream is not finished.
    pub is_streaming: bool,
    /// The files of the message.
    pub files: Vec<SentFile>,
}

/// An action of a person and the push that reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The group, or the id of the person in a private chat; empty if the push belongs to none.
    pub chat_id: String,
    /// The `msgid`; empty if the push has none.
    pub message_id: String,
    /// The `req_id` of the callback; empty if the action does not reach the bot.
    pub req_id: String,
    /// Number of its push.
    pub(crate) push: Option<usize>,
}
