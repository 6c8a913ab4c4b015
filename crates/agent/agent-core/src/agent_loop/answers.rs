//! Messages that answer a question about a call.

use std::sync::Arc;

use nanobot_approvals::Reply;
use nanobot_bus::{Delivery, SettleOutcome};
use nanobot_types::InboundMessage;

use super::commands::CommandReply;
use super::shared::LoopState;

/// Reply to the button of a question that is settled.
const STALE: &str = "That question is no longer open.";

impl LoopState {
    /// Settles a message that answers a question about a call. Returns a message that answers none,
    /// or that does more than answer.
    pub(super) async fn take_answer(
        self: &Arc<Self>,
        delivery: Delivery<InboundMessage>,
    ) -> Option<Delivery<InboundMessage>> {
        let Some(approvals) = self.agent.approvals() else {
            return Some(delivery);
        };
        match approvals.answer(&delivery.message).await {
            Ok(None | Some(Reply::Instead)) => Some(delivery),
            Ok(Some(Reply::Stale)) => {
                self.answer(delivery, CommandReply::refusal(STALE)).await;
                None
            }
            Ok(Some(Reply::Answers(_))) => {
                // The answer is durable, and the turn that asked continues.
                if let Err(error) = delivery.settle(SettleOutcome::Ack).await {
                    tracing::error!(%error, "could not settle an answer; it is redelivered");
                }
                self.turn_ended(&delivery.message);
                None
            }
            Err(error) => {
                tracing::error!(%error, "an answer could not be recorded");
                let text = format!("I could not record that answer: {error}.");
                self.answer(delivery, CommandReply::refusal(text)).await;
                None
            }
        }
    }
}
