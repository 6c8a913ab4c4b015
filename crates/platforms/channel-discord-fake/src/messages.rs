//! Messages as stored, and the bot's messages as tests see them.

use bytes::Bytes;
use serde_json::Value;

use crate::incoming::Person;

/// A file of a message.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub(crate) name: String,
    pub(crate) mime: Option<String>,
    pub(crate) bytes: Bytes,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StoredMessage {
    pub(crate) id: u64,
    pub(crate) channel: u64,
    /// The author, or `None` for the bot.
    pub(crate) author: Option<Person>,
    pub(crate) is_by_bot: bool,
    pub(crate) text: String,
    /// Earlier texts, oldest first.
    pub(crate) history: Vec<String>,
    pub(crate) replies_to: Option<u64>,
    pub(crate) files: Vec<u64>,
    pub(crate) components: Value,
    pub(crate) nonce: Option<Value>,
    pub(crate) pings: Vec<String>,
    pub(crate) reactions: Vec<String>,
    pub(crate) is_deleted: bool,
    /// Fields set by a test.
    pub(crate) extra: Vec<(String, Value)>,
}

/// A file sent by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Bytes,
}

/// A message sent by the bot.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// Id of the channel.
    pub channel_id: u64,
    /// Id of the message.
    pub message_id: u64,
    /// Current text.
    pub text: String,
    /// Earlier texts, oldest first.
    pub history: Vec<String>,
    /// Id of the message replied to.
    pub reply_to: Option<u64>,
    /// Attached files.
    pub files: Vec<SentFile>,
    /// Labels of its buttons, by row.
    pub buttons: Vec<Vec<String>>,
    /// Mentions that notify: user ids, `everyone`, roles.
    pub pings: Vec<String>,
    /// `true` once the message is deleted.
    pub is_deleted: bool,
}
