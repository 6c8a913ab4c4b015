//! Signals and notices of a turn on the bus, and the turns that send none.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_types::{
    HEARTBEAT_SESSION, InboundMessage, NoticeKind, Origin, OutboundKey, OutboundKind,
    OutboundMessage, OutboundSlot, SessionKey,
};

use crate::agent_loop::shared::LoopState;
use crate::{Observer, Signal, Notifier};

/// Returns `true` if nothing about a message is sent to a person: a job with `deliver: false`, or a
/// heartbeat without a target chat.
pub(super) fn is_silent(message: &InboundMessage) -> bool {
    match message.origin {
        Origin::Cron { .. } => message
            .metadata
            .get("deliver")
            .is_some_and(|deliver| deliver == false),
        _ => is_heartbeat(&message.session_key()) && message.channel.as_str() == "cli",
    }
}

/// Returns `true` for the session of the heartbeat.
pub(super) fn is_heartbeat(session: &SessionKey) -> bool {
    session.as_str() == HEARTBEAT_SESSION
}

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

/// Offers the signals of a turn to its chat.
pub(super) struct BusObserver {
    pub(super) shared: Arc<LoopState>,
    pub(super) message: InboundMessage,
}

impl Observer for BusObserver {
    fn signal(&self, signal: Signal) {
        if is_silent(&self.message) || is_heartbeat(&self.message.session_key()) {
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
            Signal::ToolHint(text) => (OutboundKind::ToolHint, text),
        };
        let key = OutboundKey::new(self.message.turn_id(), OutboundSlot::Reply);
        let mut offered = OutboundMessage::in_reply_to(&self.message, key, kind, text);
        offered.completes = repeated;
        self.shared.bus.offer(offered);
    }
}
