//! Data of the fake: conversations, messages, files, events and connections.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use nanobot_testkit::json::set;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::account::BOT_USER;

#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) has_bot: bool,
    pub(crate) messages: BTreeMap<String, StoredMessage>,
}

/// A file sent by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Bytes,
}

/// A message sent by the bot, in its current state.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// The conversation.
    pub channel: String,
    /// Its id.
    pub ts: String,
    /// The thread.
    pub thread: Option<String>,
    /// The text.
    pub text: String,
    /// The blocks; `Null` if there are none.
    pub blocks: Value,
    /// The metadata; `Null` if there is none.
    pub metadata: Value,
    /// Earlier texts, oldest first.
    pub history: Vec<String>,
    /// `true` once the message is deleted.
    pub is_deleted: bool,
    /// The file, if the message is a file.
    pub file: Option<SentFile>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StoredMessage {
    pub(crate) user: String,
    pub(crate) text: String,
    pub(crate) thread: Option<String>,
    pub(crate) subtype: Option<String>,
    /// Files sent by a person.
    pub(crate) files: Vec<Value>,
    pub(crate) blocks: Value,
    pub(crate) metadata: Value,
    pub(crate) history: Vec<String>,
    pub(crate) is_deleted: bool,
    pub(crate) file: Option<SentFile>,
    pub(crate) reactions: Vec<String>,
}

impl StoredMessage {
    /// Returns the message as history and replies show it.
    pub(crate) fn json(&self, ts: &str, with_metadata: bool) -> Value {
        let mut json = json!({"type": "message", "user": self.user, "text": self.text, "ts": ts});
        if self.user == BOT_USER {
            set(&mut json, "bot_id", "B0BOT");
        }
        if let Some(thread) = &self.thread {
            set(&mut json, "thread_ts", thread.as_str());
        }
        if let Some(subtype) = &self.subtype {
            set(&mut json, "subtype", subtype.as_str());
        }
        if !self.files.is_empty() {
            set(&mut json, "files", self.files.clone());
        }
        if !self.blocks.is_null() {
            set(&mut json, "blocks", self.blocks.clone());
        }
        if with_metadata && !self.metadata.is_null() {
            set(&mut json, "metadata", self.metadata.clone());
        }
        json
    }
}

/// A file that a person sent.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
}

/// A file that the bot sends.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) name: String,
    pub(crate) length: usize,
    pub(crate) bytes: Option<Bytes>,
}

/// An action of a person and the events that report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The conversation.
    pub channel: String,
    /// Id of the message or of the other object.
    pub ts: String,
    /// Numbers of its events.
    pub(crate) events: Vec<usize>,
}

/// An event for the app.
#[derive(Debug)]
pub(crate) struct AppEvent {
    pub(crate) kind: &'static str,
    pub(crate) payload: Value,
    pub(crate) is_acknowledged: bool,
    /// Number of times that it was put into an envelope.
    pub(crate) deliveries: usize,
    pub(crate) retries: u32,
    pub(crate) reason: &'static str,
    pub(crate) is_waiting: bool,
}

/// An envelope in flight.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) event: usize,
    pub(crate) connection: usize,
    pub(crate) at: Instant,
    pub(crate) is_over: bool,
}

/// An open connection.
#[derive(Debug, Default)]
pub(crate) struct SocketConnection {
    pub(crate) outbox: VecDeque<Out>,
    /// Set once the connection gets no more envelopes.
    pub(crate) is_leaving: bool,
}

/// A task for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Text(String),
    Ping,
    Close,
    Drop,
}
