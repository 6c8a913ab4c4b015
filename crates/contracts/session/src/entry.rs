//! What a session log is made of.

use std::fmt;
use std::sync::Arc;

use nanobot_types::{ChatMessage, Map, MessageId, Timestamp, TraceId};
use serde::{Deserialize, Serialize};

/// A position in a session: the number of messages before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The position behind the next message.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message and what is stored beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageEntry {
    /// The message.
    pub message: Arc<ChatMessage>,
    /// The journal id of the inbound message that it came in, for a person's message.
    pub inbound: Option<MessageId>,
    /// The runtime block that was sent behind a person's message; replay sends the same bytes.
    pub runtime: Option<String>,
    /// When it was said.
    pub at: Timestamp,
    /// Keys of other programs and versions, kept as they were read.
    pub extra: Map,
}

impl MessageEntry {
    /// A message said now with nothing beside it.
    pub fn new(message: impl Into<Arc<ChatMessage>>) -> Self {
        Self {
            message: message.into(),
            inbound: None,
            runtime: None,
            at: chrono::Local::now().fixed_offset(),
            extra: Map::new(),
        }
    }

    /// The message as it is sent: a person's with its runtime block behind it.
    #[must_use]
    pub fn sent(&self) -> Arc<ChatMessage> {
        match (&*self.message, &self.runtime) {
            (ChatMessage::User(user), Some(runtime)) => {
                let mut user = user.clone();
                user.content.append_paragraph(runtime);
                Arc::new(ChatMessage::User(user))
            }
            _ => self.message.clone(),
        }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// With a reply.
    Replied,
    /// The `message` tool had already answered this chat.
    Suppressed,
    /// A person stopped it.
    Stopped,
    /// It used up its iterations, or went round in circles.
    Limited,
    /// No model could answer.
    Failed,
}

/// The end of a turn, with what the person saw of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The turn.
    pub turn: TraceId,
    /// Journal ids of the inbound messages it answered.
    pub inbound: Vec<MessageId>,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// The visible text, so that a restart can publish it again under the same key.
    pub visible: Option<String>,
}

/// One step of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Something was said.
    Message(MessageEntry),
    /// A turn ended.
    TurnEnded(TurnEnd),
    /// Messages before this position are summarised elsewhere and no longer sent.
    Consolidated {
        /// The new cursor.
        upto: Seq,
    },
    /// A new conversation begins: the cursor moves to the end.
    Reset,
    /// Messages from this position up to here are undone: they stay in the log and are no longer
    /// sent. What was said before the cursor is not sent either way.
    Rewound {
        /// The first that is undone.
        to: Seq,
    },
    /// Merged into the session's metadata; a null value removes a key.
    Metadata(Map),
}

impl Entry {
    /// A message said now with nothing beside it.
    pub fn message(message: ChatMessage) -> Self {
        Self::Message(MessageEntry::new(message))
    }
}

/// An entry and the number of messages before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Messages before it.
    pub seq: Seq,
    /// The entry.
    pub entry: Entry,
}
