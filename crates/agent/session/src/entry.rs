//! Entries of a session log.

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
    /// Returns the position after the next message.
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

/// A message and the data stored with it.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageEntry {
    /// The message.
    pub message: Arc<ChatMessage>,
    /// For a user message, the journal id of the inbound message that it came from.
    pub inbound: Option<MessageId>,
    /// The runtime block that was sent after a user message; replay sends the same bytes.
    pub runtime: Option<String>,
    /// Time of the message.
    pub at: Timestamp,
    /// Keys of other programs and versions, kept as read.
    pub extra: Map,
}

impl MessageEntry {
    /// Creates an entry for a message with the current time and no further data.
    pub fn new(message: impl Into<Arc<ChatMessage>>) -> Self {
        Self {
            message: message.into(),
            inbound: None,
            runtime: None,
            at: chrono::Local::now().fixed_offset(),
            extra: Map::new(),
        }
    }

    /// Returns the message as it is sent: a user message is followed by its runtime block.
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

/// Outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The turn ended with a reply.
    Replied,
    /// The `message` tool had already answered in this chat.
    Suppressed,
    /// A person stopped the turn.
    Stopped,
    /// The turn used up its iterations, or a loop was detected.
    Limited,
    /// No model was able to answer.
    Failed,
}

/// The end of a turn, with the text that the user saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The turn.
    pub turn: TraceId,
    /// Journal ids of the inbound messages that it answered.
    pub inbound: Vec<MessageId>,
    /// Outcome of the turn.
    pub outcome: TurnOutcome,
    /// The visible text, so that it can be published again under the same key after a restart.
    pub visible: Option<String>,
}

/// One entry of a session log.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A message.
    Message(MessageEntry),
    /// The end of a turn.
    TurnEnded(TurnEnd),
    /// Moves the cursor: messages before this position are summarised elsewhere and are no longer
    /// sent.
    Consolidated {
        /// The new cursor.
        upto: Seq,
    },
    /// Starts a new conversation: the cursor moves to the end.
    Reset,
    /// Undoes the messages from this position up to here: they stay in the log but are no longer
    /// sent. Messages before the cursor are not sent in any case.
    Rewound {
        /// The first message to undo.
        to: Seq,
    },
    /// Restores the messages of the latest rewind that is not restored yet. It has no effect if a
    /// message follows that rewind.
    Restored,
    /// Changes to the session's metadata, which are merged into it; a null value removes a key.
    Metadata(Map),
}

impl Entry {
    /// Creates an entry for a message with the current time and no further data.
    pub fn message(message: ChatMessage) -> Self {
        Self::Message(MessageEntry::new(message))
    }
}

/// An entry and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Number of messages before it.
    pub seq: Seq,
    /// The entry.
    pub entry: Entry,
}
