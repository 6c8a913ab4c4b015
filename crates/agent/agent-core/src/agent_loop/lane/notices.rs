//! Signals and notices of a turn on the bus.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_types::{
    DeliveryWish, InboundMessage, NoticeKind, OutboundKey, OutboundKind, OutboundMessage,
    OutboundSlot, SessionKind, TERMINAL_CHANNEL,
};

use crate::agent_loop::shared::LoopState;
use crate::{BacklogQuestion, Notifier, Observer, QuestionOutcome, Signal};

/// Sends notices about memory problems to the chat of a message.
pub(in crate::agent_loop) struct BusNotifier {
    pub(in crate::agent_loop) shared: Arc<LoopState>,
    pub(in crate::agent_loop) message: InboundMessage,
}

impl BusNotifier {
    fn key(&self, kind: NoticeKind) -> OutboundKey {
        OutboundKey::new(self.message.turn_id(), OutboundSlot::Notice(kind))
    }

    /// Publishes a notice. Returns `true` if it is stored, now or already under the same key.
    async fn publish(&self, key: OutboundKey, notice: String) -> bool {
        let notice = OutboundMessage::in_reply_to(&self.message, key, OutboundKind::Notice, notice);
        let published = self.shared.bus.publish_outbound(notice).await;
        if let Err(error) = &published {
            tracing::error!(%error, "could not store a notice");
        }
        published.is_ok()
    }
}

#[async_trait]
impl Notifier for BusNotifier {
    async fn notify(&self, kind: NoticeKind, notice: String) {
        self.publish(self.key(kind), notice).await;
    }

    async fn ask(&self, question: BacklogQuestion) -> QuestionOutcome {
        // What a terminal misses while it is not connected is lost, so each turn may ask.
        let is_terminal = self.message.channel.as_str() == TERMINAL_CHANNEL;
        let (key, stored) = match is_terminal {
            true => (self.key(NoticeKind::Backlog), QuestionOutcome::Offered),
            false => (question.key, QuestionOutcome::Durable),
        };
        match self.publish(key, question.text).await {
            true => stored,
            false => QuestionOutcome::Dropped,
        }
    }
}

/// Sends the notice about a message that is too long to its sender: once, however often the message
/// is handled. A terminal shows it as progress, because a notice there is a failed answer.
pub(super) async fn announce_length(shared: &LoopState, message: &InboundMessage, notice: String) {
    let slot = OutboundSlot::Notice(NoticeKind::Kept);
    let key = OutboundKey::new(message.turn_id(), slot);
    if message.channel.as_str() == TERMINAL_CHANNEL {
        let kind = OutboundKind::Progress;
        let progress = OutboundMessage::in_reply_to(message, key, kind, notice);
        shared.bus.offer(progress);
        return;
    }
    let notice = OutboundMessage::in_reply_to(message, key, OutboundKind::Notice, notice);
    if let Err(error) = shared.bus.publish_outbound(notice).await {
        tracing::error!(%error, "could not store a notice");
    }
}

/// Offers the signals of a turn to its chat.
pub(super) struct BusObserver {
    pub(super) shared: Arc<LoopState>,
    pub(super) message: InboundMessage,
}

impl Observer for BusObserver {
    fn signal(&self, signal: Signal) {
        if DeliveryWish::of(&self.message) == DeliveryWish::Silent
            || self.message.session_key().kind() == SessionKind::Heartbeat
        {
            return;
        }
        let mut repeated = None;
        let (kind, text) = match signal {
            Signal::Delta { stream, text } => (OutboundKind::Delta { stream }, text),
            Signal::StreamEnd { stream, resuming } => {
                (OutboundKind::StreamEnd { stream, resuming }, String::new())
            }
            Signal::Withdrawn { stream } => (OutboundKind::Withdrawn { stream }, String::new()),
            Signal::Thought { text, stream } => {
                repeated = stream;
                (OutboundKind::Progress, text)
            }
            Signal::Notice(text) => (OutboundKind::Progress, text),
            Signal::Activity(step) => (OutboundKind::Activity { step }, String::new()),
            Signal::ToolHint(text) => (OutboundKind::ToolHint, text),
        };
        let key = OutboundKey::new(self.message.turn_id(), OutboundSlot::Reply);
        let mut offered = OutboundMessage::in_reply_to(&self.message, key, kind, text);
        offered.completes = repeated;
        self.shared.bus.offer(offered);
    }
}
