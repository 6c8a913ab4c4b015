//! Messages of a lane as input of a turn: the one that begins it, and those that arrive while it
//! runs.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use nanobot_session::MessageEntry;
use nanobot_types::{ChatMessage, InboundMessage, SessionKey, UserMessage};
use tokio::sync::mpsc;

use super::handle::{LaneState, Queued};
use super::notices::announce_length;
use crate::agent_loop::commands::{CommandTable, Parsed};
use crate::agent_loop::shared::LoopState;
use crate::engine::{Steering, TurnFacts, copy_untrusted_mark, mark_kept};

/// Maximum number of messages steered into a turn before one model call; the rest stay in the
/// queue.
const STEERED_PER_CALL: usize = 8;
/// Maximum number of messages steered into one turn. A person who keeps writing gets a reply in
/// between, and the log of a turn stays short enough to be read at once.
const STEERED_PER_TURN: usize = 32;

/// Returns the facts of the turn that a message begins.
pub(super) fn facts_of(message: &InboundMessage, session: &SessionKey) -> TurnFacts {
    TurnFacts {
        session: session.clone(),
        channel: message.channel.clone(),
        chat_id: message.chat_id.clone(),
        message_id: message.id.clone(),
        sender: Some(message.sender_id.clone()),
        chat: message.chat,
        delivery: message.delivery.clone(),
        metadata: message.metadata.clone(),
        origin: message.origin.clone(),
    }
}

/// Returns the log entry of a message. Sends a notice if the message is too long.
pub(super) async fn entry_of(shared: &LoopState, message: &InboundMessage) -> MessageEntry {
    let agent = &shared.agent;
    let InboundMessage {
        content,
        origin,
        timestamp,
        channel,
        chat_id,
        ..
    } = message;
    let runtime = agent
        .attached_text(content, origin, timestamp, channel, chat_id)
        .await;
    let fitting = agent.fitting_text(content.clone(), origin).await;
    let user = UserMessage {
        content: fitting.text.into(),
        media: message.media.clone(),
    };
    let mut entry = MessageEntry {
        inbound: message.journal_id(),
        runtime: Some(runtime),
        at: message.timestamp,
        ..MessageEntry::new(ChatMessage::User(user))
    };
    if let Some(characters) = fitting.kept {
        mark_kept(characters, &mut entry.extra);
    }
    copy_untrusted_mark(&message.metadata, &mut entry.extra);
    if let Some(notice) = fitting.notice {
        announce_length(shared, message, notice).await;
    }
    entry
}

/// Steers a bounded number of messages that arrive while a turn runs into that turn. A command of
/// the lane, and every message after it, waits for the end of the turn.
pub(super) struct LaneSteering<'a> {
    pub(super) shared: &'a LoopState,
    pub(super) commands: &'a CommandTable,
    pub(super) queue: &'a mut mpsc::Receiver<Queued>,
    pub(super) state: &'a LaneState,
    pub(super) taken: &'a mut Vec<Queued>,
    pub(super) next: &'a mut VecDeque<Queued>,
}

#[async_trait]
impl Steering for LaneSteering<'_> {
    async fn take(&mut self) -> Vec<MessageEntry> {
        let mut entries = Vec::new();
        let room = STEERED_PER_CALL.min(STEERED_PER_TURN.saturating_sub(self.taken.len()));
        while entries.len() < room
            && let Some(queued) = self.next.pop_front().or_else(|| self.queue.try_recv().ok())
        {
            let is_text = matches!(self.commands.read(&queued.delivery.message), Parsed::Text);
            if !is_text || self.state.was_stopped(queued.number) {
                self.next.push_front(queued);
                break;
            }
            entries.push(entry_of(self.shared, &queued.delivery.message).await);
            self.taken.push(queued);
            self.state.busy.fetch_add(1, Ordering::SeqCst);
        }
        entries
    }
}
