//! Messages, and what the bot's look like to a test.

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
    /// Who wrote it; the bot when nobody did.
    pub(super) author: Option<Person>,
    pub(super) is_by_bot: bool,
    pub(super) text: String,
    /// What it said before.
    pub(super) history: Vec<String>,
    pub(super) replies_to: Option<u64>,
    pub(super) files: Vec<u64>,
    pub(super) components: Value,
    pub(super) nonce: Option<Value>,
    pub(super) pings: Vec<String>,
    pub(super) reactions: Vec<String>,
    pub(super) is_deleted: bool,
    /// Fields that a test set.
    pub(super) extra: Vec<(String, Value)>,
}

/// A file that the bot sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Bytes,
}

/// A message that the bot sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// The channel.
    pub channel_id: u64,
    /// The message.
    pub message_id: u64,
    /// What it says now.
    pub text: String,
    /// What it said before, oldest first.
    pub history: Vec<String>,
    /// The message it quotes.
    pub reply_to: Option<u64>,
    /// Its files.
    pub files: Vec<SentFile>,
    /// The labels of its buttons, by row.
    pub buttons: Vec<Vec<String>>,
    /// Whom it wakes: user ids, `everyone`, roles.
    pub pings: Vec<String>,
    /// Whether it is gone.
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
