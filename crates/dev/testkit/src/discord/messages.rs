//! Messages as stored, and the bot's messages as tests see them.

use bytes::Bytes;
use serde_json::Value;

use super::incoming::Person;
use super::state::State;

/// A file of a message.
#[derive(Clone, Debug)]
pub(super) struct StoredFile {
    pub(super) name: String,
    pub(super) mime: Option<String>,
    pub(super) bytes: Bytes,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) channel: u64,
    /// The author, or `None` for the bot.
    pub(super) author: Option<Person>,
    pub(super) is_by_bot: bool,
    pub(super) text: String,
    /// Earlier texts, oldest first.
    pub(super) history: Vec<String>,
    pub(super) replies_to: Option<u64>,
    pub(super) files: Vec<u64>,
    pub(super) components: Value,
    pub(super) nonce: Option<Value>,
    pub(super) pings: Vec<String>,
    pub(super) reactions: Vec<String>,
    pub(super) is_deleted: bool,
    /// Fields set by a test.
    pub(super) extra: Vec<(String, Value)>,
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

impl State {
    pub(super) fn show(&self, message: &Message) -> SentMessage {
        let files = message.files.iter().filter_map(|id| self.files.get(id));
        let rows = message.components.as_array().into_iter().flatten();
        let labels = |row: &Value| -> Vec<String> {
            let buttons = row
                .get("components")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            buttons
                .filter_map(|button| Some(button.get("label")?.as_str()?.to_owned()))
                .collect()
        };
        SentMessage {
            channel_id: message.channel,
            message_id: message.id,
            text: message.text.clone(),
            history: message.history.clone(),
            reply_to: message.replies_to,
            files: files
                .map(|file| SentFile {
                    name: file.name.clone(),
                    bytes: file.bytes.clone(),
                })
                .collect(),
            buttons: rows.map(labels).collect(),
            pings: message.pings.clone(),
            is_deleted: message.is_deleted,
        }
    }
}
