//! Counts attempts to handle a message: from evidence after a crash if steps are noted, or else
//! whenever a turn begins.

use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{BusError, Delivery, SettleOutcome};
use nanobot_types::InboundMessage;
use tokio::sync::SemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::shared::LoopState;
use crate::StepLog;
use crate::evidence::{TurnStep, TurnSteps};

/// Permission to handle a message.
#[expect(dead_code, reason = "held until the message is handled")]
pub(super) struct AdmittedMessage<'a>(Option<SemaphorePermit<'a>>);

impl LoopState {
    /// Returns the step notes of the turn that a message begins.
    pub(super) fn steps_of(&self, message: &InboundMessage) -> TurnSteps {
        TurnSteps::of(self.evidence.as_ref(), &message.turn_id())
    }

    fn evidence(&self) -> Option<&Arc<StepLog>> {
        self.evidence
            .as_ref()
            .filter(|evidence| evidence.is_written())
    }

    /// Lets the ledger count an attempt if the previous process died while handling this message.
    /// Returns the number of attempts added, 0 or 1.
    ///
    /// # Errors
    /// Returns a [`BusError`] if the ledger failed.
    pub(super) async fn count_crash(
        &self,
        delivery: &Delivery<InboundMessage>,
    ) -> Result<u32, BusError> {
        let turn = delivery.message.turn_id();
        let Some(evidence) = self
            .evidence
            .as_ref()
            .filter(|evidence| evidence.is_uncounted(&turn))
        else {
            return Ok(0);
        };
        delivery.settle(SettleOutcome::Begin).await?;
        evidence.mark_counted(&turn);
        Ok(1)
    }

    /// Waits while another suspect of the last crash runs, if this message is a suspect. Returns
    /// `None` if the program shuts down first. Stopping the message ends the wait.
    pub(super) async fn admit(
        &self,
        message: &InboundMessage,
        stopped: &CancellationToken,
    ) -> Option<AdmittedMessage<'_>> {
        let Some(evidence) = &self.evidence else {
            return Some(AdmittedMessage(None));
        };
        let turn = message.turn_id();
        tokio::select! {
            biased;
            () = self.closing.cancelled() => None,
            () = stopped.cancelled() => Some(AdmittedMessage(None)),
            alone = evidence.admit(&turn) => Some(AdmittedMessage(alone)),
        }
    }

    /// Begins to handle a message. Without step notes this counts an attempt, because nothing else
    /// would count it after a crash.
    ///
    /// # Errors
    /// Returns a [`BusError`] if the ledger failed; [`BusError::Conflict`] means that a person
    /// settled the message meanwhile.
    pub(super) async fn begin(&self, delivery: &Delivery<InboundMessage>) -> Result<(), BusError> {
        if self.evidence().is_none() {
            return delivery.settle(SettleOutcome::Begin).await;
        }
        delivery
            .settle(SettleOutcome::Extend(Duration::ZERO))
            .await?;
        self.steps_of(&delivery.message).step(TurnStep::Opening);
        Ok(())
    }

    /// Counts an attempt that failed in this process, unless it was counted when it began.
    pub(super) async fn count_failure(&self, delivery: &Delivery<InboundMessage>) {
        if self.evidence().is_some()
            && let Err(error) = delivery.settle(SettleOutcome::Begin).await
        {
            tracing::error!(%error, "could not count a failed attempt");
        }
    }

    /// Notes that an attempt to handle a message is over.
    pub(super) fn attempt_over(&self, message: &InboundMessage) {
        if let Some(evidence) = &self.evidence {
            evidence.ended(&message.turn_id());
        }
    }
}
