//! Reactions to messages that are worked on. Not in encrypted rooms, where a reaction would be
//! readable.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::OutboundMessage;
use nanobot_channel_kit::ReactionEmoji;
use serde_json::json;

use crate::MatrixConfig;
use crate::error::{CallError, Refusal};
use crate::outgoing::{Outgoing, transaction};

/// Time after which reactions are removed, because the end of a turn may not be reported.
const LIMIT: Duration = Duration::from_mins(30);
/// Most reactions whose events are remembered.
const REMEMBERED: usize = 256;

/// A message: its room and its event.
pub(crate) type ReactedMessage = (String, String);

/// Calls that change reactions.
#[derive(Debug)]
pub(crate) struct MatrixReactor {
    outgoing: Outgoing,
    /// The events of reactions that were set, the oldest first.
    set: Mutex<VecDeque<(ReactedMessage, String)>>,
}

/// Returns the emoji of a channel.
pub(crate) fn emoji(config: &MatrixConfig) -> ReactionEmoji {
    ReactionEmoji {
        received: config.react_emoji.clone(),
        limit: Some(LIMIT),
        ..ReactionEmoji::default()
    }
}

impl MatrixReactor {
    pub(crate) fn new(outgoing: Outgoing) -> Self {
        Self {
            outgoing,
            set: Mutex::default(),
        }
    }

    fn set(&self) -> MutexGuard<'_, VecDeque<(ReactedMessage, String)>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl nanobot_channel_kit::Reactor for MatrixReactor {
    type Message = ReactedMessage;
    type Refusal = Refusal;

    async fn add(&self, message: &ReactedMessage, emoji: &str) -> Result<(), CallError> {
        let (room, event) = message;
        if self.outgoing.encryption_of(room).await?.is_some() {
            return Ok(());
        }
        let content = json!({
            "m.relates_to": {"rel_type": "m.annotation", "event_id": event, "key": emoji},
        });
        let transaction = transaction(&format!("react {room} {event} {emoji}"));
        let sent = self
            .outgoing
            .send(room, "m.reaction", &content, &transaction);
        let reaction = sent.await?;
        let mut set = self.set();
        if set.len() >= REMEMBERED {
            set.pop_front();
        }
        set.push_back((message.clone(), reaction));
        Ok(())
    }

    async fn remove(&self, message: &ReactedMessage, _emoji: &str) -> Result<(), CallError> {
        let reaction = {
            let mut set = self.set();
            let at = set.iter().position(|(known, _)| known == message);
            at.and_then(|at| set.remove(at))
        };
        match reaction {
            Some((_, event)) => self.outgoing.redact(&message.0, &event).await,
            None => Ok(()),
        }
    }

    fn answered_message(&self, _end: &OutboundMessage) -> Option<ReactedMessage> {
        None
    }
}
