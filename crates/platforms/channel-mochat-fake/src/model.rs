//! Data of the fake: sessions, panels, events and messages.

use serde_json::{Value, json};

/// Type of a panel with text. Others are folders and plugins.
pub const TEXT_PANEL: i64 = 0;

/// A session or a panel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chat {
    /// Type of a panel; `None` for a session.
    pub(crate) panel: Option<i64>,
    /// Id of the conversation: of a panel its own.
    pub(crate) converse: String,
    pub(crate) participants: Vec<String>,
    pub(crate) has_robot: bool,
    pub(crate) events: Vec<Event>,
    /// Highest cursor that a client has shown.
    pub(crate) cursor: u64,
    /// Events to deliver once more.
    pub(crate) repeats: Vec<u64>,
}

impl Chat {
    pub(crate) fn is_session(&self) -> bool {
        self.panel.is_none()
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }
}

/// An event of a session or a panel.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) seq: u64,
    pub(crate) kind: String,
    /// Milliseconds since 1970.
    pub(crate) created: i64,
    pub(crate) payload: Value,
    /// Number of times it was sent to a client: as an event, in an acknowledgement, or in an
    /// answer. Notifications do not count.
    pub(crate) deliveries: usize,
}

impl Event {
    pub(crate) fn written(&self, chat: &str) -> Value {
        json!({
            "seq": self.seq, "sessionId": chat, "type": self.kind, "timestamp": time(self.created),
            "payload": self.payload,
        })
    }

    pub(crate) fn message_id(&self) -> &str {
        let id = self.payload.get("messageId").and_then(Value::as_str);
        id.unwrap_or_default()
    }
}

/// Returns a time as Mochat writes it.
pub(crate) fn time(milliseconds: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(milliseconds).unwrap_or_default();
    time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// A message sent by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMessage {
    /// Its id.
    pub id: String,
    /// Id of the session or panel.
    pub chat_id: String,
    /// Its text.
    pub text: String,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// The group that the call named.
    pub group_id: Option<String>,
}

/// An action of a person and the event that reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The session or panel.
    pub chat_id: String,
    /// The message; empty if the event belongs to none.
    pub message_id: String,
    /// Number of the event in its session or panel, beginning with 1.
    pub seq: u64,
}

/// The ways in which events reach the clients that are connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Feed {
    /// By the events of subscriptions only.
    Events,
    /// By notifications only; those of a session lack its metadata.
    Notifications,
    /// By both.
    #[default]
    Both,
}
