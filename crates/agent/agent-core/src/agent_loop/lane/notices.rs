//! Signals and notices of a turn on the bus.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_types::{
    DeliveryWish, InboundMessage, NoticeKind, OutboundKey, OutboundKind, OutboundMessage,
    OutboundSlot, SessionKind, TERMINAL_CHANNEL,
};

use crate::agent_loop::shared::LoopState;
use crate::{Notifier, Observer, Signal};

/// Sends notices about memory problems to the chat of a message.
pub(super) struct BusNotifier {
    pub(super) shared: Arc<LoopState>,
    pub(super) message: InboundMessage,
}

#[async_trait]
impl Notifier for BusNotifier {
    async fn notify(&self, notice: String) {
        let key = OutboundKey::new(
            self.message.turn_id(),
            OutboundSlot::Notice(NoticeKind::Memory),
        );
        let notice = OutboundMessage::in_reply_to(&self.message, key, OutboundKind::Notice, notice);
        if let Err(error) = self.shared.bus.publish_outbound(notice).await {
            tracing::error!(%error, "could not store a notice");
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
