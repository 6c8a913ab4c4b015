//! Routes replies to the connections that wait for them.
//!
//! Decision: terminals are one channel of the bus, and a session is a chat of it. A session that
//! belongs to another channel keeps its key, but replies to messages from a terminal go to the
//! terminal, not to that chat. A reply that arrives while no terminal is connected is offered to
//! [`UnseenReplies`], and is otherwise in the session only.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nanobot_bus::{Delivery, SettleOutcome, Subscription};
use nanobot_types::{
    ChatId, ChatKind, Event, InboundMessage, MessageId, OutboundMessage, OutboundSlot, SessionKey,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{ControlResponse, TerminalEvent, UnseenReplies};

/// Name of the terminals' channel.
pub use nanobot_types::TERMINAL_CHANNEL;

/// Creates a message from a terminal to the named session: `channel:chat`, or a chat of the
/// terminal's own channel.
#[must_use]
pub fn terminal_message(session: &str, text: &str, id: Option<MessageId>) -> InboundMessage {
    let own_chat = match session.split_once(':') {
        Some((TERMINAL_CHANNEL, chat)) => Some(chat),
        Some(_) => None,
        None => Some(session),
    };
    let message = InboundMessage::text(TERMINAL_CHANNEL, "user", own_chat.unwrap_or(session), text);
    let session_key_override = own_chat.is_none().then(|| SessionKey::from(session));
    // One person uses a terminal, but the participants of another channel's session are not known.
    let chat = own_chat.is_some().then_some(ChatKind::Direct);
    InboundMessage {
        id,
        session_key_override,
        chat,
        ..message
    }
}

/// The connections that wait for replies.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    watchers: Mutex<HashMap<u64, Watcher>>,
    ids: AtomicU64,
}

#[derive(Debug)]
struct Watcher {
    chat: ChatId,
    session: SessionKey,
    /// `true` if it shows the messages of other terminals.
    takes_messages: bool,
    answers: mpsc::Sender<ControlResponse>,
}

impl Terminals {
    /// Returns an id for a new connection.
    pub(crate) fn number(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Subscribes a connection to the replies in a session, replacing its earlier subscription.
    pub(crate) fn watch(
        &self,
        connection: u64,
        session: &str,
        takes_messages: bool,
        answers: mpsc::Sender<ControlResponse>,
    ) {
        let message = terminal_message(session, "", None);
        let watcher = Watcher {
            session: message.session_key(),
            chat: message.chat_id,
            takes_messages,
            answers,
        };
        self.lock().insert(connection, watcher);
    }

    /// Removes a connection. Returns `true` if no other connection watches the same chat.
    pub(crate) fn leave(&self, connection: u64) -> bool {
        let mut watchers = self.lock();
        let Some(removed) = watchers.remove(&connection) else {
            return false;
        };
        !watchers
            .values()
            .any(|watcher| watcher.chat == removed.chat)
    }

    /// Forwards replies and events until `end` is cancelled or the bus closes.
    pub(crate) async fn run(
        &self,
        mut replies: Subscription<OutboundMessage>,
        mut events: broadcast::Receiver<Event>,
        unseen: &dyn UnseenReplies,
        end: CancellationToken,
    ) {
        let mut has_events = true;
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                delivery = replies.next() => match delivery {
                    Some(delivery) => self.forward(delivery, unseen).await,
                    None => return,
                },
                event = events.recv(), if has_events => match event {
                    Ok(Event::TurnFinished { session, .. }) => {
                        self.broadcast(|_, watcher| watcher.session == session, &ControlResponse::TurnFinished);
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => has_events = false,
                },
            }
        }
    }

    /// Shows a message that a connection sends to the other terminals of its session.
    pub(crate) fn show_message(&self, connection: u64, message: &InboundMessage) {
        let answer = ControlResponse::Event {
            turn: Some(message.turn_id()),
            position: OutboundSlot::Reply.position(),
            event: TerminalEvent::said(&message.content, message.media.len()),
        };
        let is_other = |other: u64, watcher: &Watcher| {
            other != connection && watcher.takes_messages && watcher.chat == message.chat_id
        };
        self.broadcast(is_other, &answer);
    }

    async fn forward(&self, delivery: Delivery<OutboundMessage>, unseen: &dyn UnseenReplies) {
        let message = &delivery.message;
        let answer = ControlResponse::Event {
            turn: Some(message.key.turn.clone()),
            position: message.key.position,
            event: message.clone().into(),
        };
        let outcome = match self.broadcast(|_, watcher| watcher.chat == message.chat_id, &answer) {
            0 if unseen.keep(message).await => SettleOutcome::Ack,
            0 => SettleOutcome::Discard(
                "this terminal is closed; the session contains the conversation".to_owned(),
            ),
            _ => SettleOutcome::Ack,
        };
        if let Err(error) = delivery.settle(outcome).await {
            tracing::error!(%error, "a reply to a terminal could not be settled");
        }
    }

    /// Sends `answer` to all matching watchers and returns their number. A watcher whose queue is
    /// full is removed, because it must not block the others.
    fn broadcast(
        &self,
        matches: impl Fn(u64, &Watcher) -> bool,
        answer: &ControlResponse,
    ) -> usize {
        let mut reached: usize = 0;
        self.lock().retain(|connection, watcher| {
            if !matches(*connection, watcher) {
                return true;
            }
            let reads = watcher.answers.try_send(answer.clone()).is_ok();
            reached += usize::from(reads);
            reads
        });
        reached
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Watcher>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_keeps_the_session_key_of_another_channel() {
        for (session, chat, key) in [
            ("cli:direct", "direct", "cli:direct"),
            ("notes", "notes", "cli:notes"),
            ("telegram:7", "telegram:7", "telegram:7"),
        ] {
            let message = terminal_message(session, "hi", None);
            assert_eq!(
                (message.channel.as_str(), message.chat_id.as_str()),
                (TERMINAL_CHANNEL, chat)
            );
            assert_eq!(message.session_key(), SessionKey::from(key));
        }
    }
}
