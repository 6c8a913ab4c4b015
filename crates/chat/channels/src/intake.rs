//! Accepts inbound messages of one channel: checks access again, publishes to the ledger, then
//! shows that the assistant is at work.

use std::sync::Arc;

use nanobot_bus::{Accepted, Bus, BusError};
use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, ChannelName, InboundMessage, Intake, async_trait,
};
use tokio_util::sync::CancellationToken;

use crate::working::WorkKeeper;

/// Path of one channel's messages into the ledger.
pub(crate) struct LedgerIntake {
    pub(crate) channel: ChannelName,
    pub(crate) access: Arc<dyn Access>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) working: WorkKeeper,
    /// Fires when no more messages are accepted.
    pub(crate) closed: CancellationToken,
}

#[async_trait]
impl Intake for LedgerIntake {
    async fn deliver(&self, mut message: InboundMessage, arrival: &Arrival) -> Admission {
        if self.closed.is_cancelled() {
            return Admission::ShuttingDown;
        }
        match self
            .access
            .check(&message.sender_id, &message.chat_id, arrival)
            .await
        {
            AccessDecision::Allowed => {}
            AccessDecision::Denied | AccessDecision::Ask(_) => return Admission::NotAllowed,
        }
        // A channel can deliver messages only under its own name.
        message.channel = self.channel.clone();
        message.chat = Some(arrival.kind);
        match self.bus.publish_inbound(message.clone()).await {
            Ok(Accepted::New) => {
                self.working.begin(&message);
                Admission::Accepted
            }
            Ok(Accepted::Duplicate) => Admission::Duplicate,
            Err(BusError::Closed) => Admission::ShuttingDown,
            Err(error) => {
                tracing::warn!(channel = %self.channel, %error, "cannot store a message now; the platform keeps it");
                Admission::TryLater
            }
        }
    }
}
