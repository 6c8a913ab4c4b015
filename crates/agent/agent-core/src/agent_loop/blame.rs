//! Counts attempts of messages: by evidence where steps are noted, else when a turn begins.

use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{BusError, Delivery, Settle};
use nanobot_types::InboundMessage;
use tokio::sync::SemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::pump::{Shared, turn_of};
use crate::StepLog;
use crate::evidence::{Step, TurnSteps};

/// Leave for a message to be handled.
#[expect(dead_code, reason = "held until the message is handled")]
pub(super) struct Admitted<'a>(Option<SemaphorePermit<'a>>);

impl Shared {
    /// The notes of the turn that a message begins.
    pub(super) fn steps_of(&self, message: &InboundMessage) -> TurnSteps {
        TurnSteps::of(self.evidence.as_ref(), &turn_of(message))
    }

    fn evidence(&self) -> Option<&Arc<StepLog>> {
        self.evidence
            .as_ref()
            .filter(|evidence| evidence.is_written())
    }

    /// Has the ledger count the attempt in which the process before died of this message, if it
    /// did; how many attempts that makes.
    ///
    /// # Errors
    /// The ledger's.
    pub(super) async fn count_crash(
        &self,
        delivery: &Delivery<InboundMessage>,
    ) -> Result<u32, BusError> {
        let turn = turn_of(&delivery.message);
        let Some(evidence) = self
            .evidence
            .as_ref()
            .filter(|evidence| evidence.owes(&turn))
        else {
            return Ok(0);
        };
        delivery.settle(Settle::Begin).await?;
        evidence.paid(&turn);
        Ok(1)
    }

    /// Waits while another suspect of the last crash runs, if this message is one. `None` when the
    /// program goes down first; a person who stops it ends the wait.
    pub(super) async fn admit(
        &self,
        message: &InboundMessage,
        stopped: &CancellationToken,
    ) -> Option<Admitted<'_>> {
        let Some(evidence) = &self.evidence else {
            return Some(Admitted(None));
        };
        let turn = turn_of(message);
        tokio::select! {
            biased;
            () = self.closing.cancelled() => None,
            () = stopped.cancelled() => Some(Admitted(None)),
            alone = evidence.admit(&turn) => Some(Admitted(alone)),
        }
    }

    /// Begins to handle a message. Without notes of steps this counts an attempt, because nothing
    /// else would after a crash.
    ///
    /// # Errors
    /// The ledger's; [`BusError::Conflict`] when a person settled it meanwhile.
    pub(super) async fn begin(&self, delivery: &Delivery<InboundMessage>) -> Result<(), BusError> {
        if self.evidence().is_none() {
            return delivery.settle(Settle::Begin).await;
        }
        delivery.settle(Settle::Extend(Duration::ZERO)).await?;
        self.steps_of(&delivery.message).take(Step::Opening);
        Ok(())
    }

    /// Counts an attempt that failed in this process, unless it was counted when it began.
    pub(super) async fn count_failure(&self, delivery: &Delivery<InboundMessage>) {
        if self.evidence().is_some()
            && let Err(error) = delivery.settle(Settle::Begin).await
        {
            tracing::error!(%error, "a failed attempt could not be counted");
        }
    }

    /// Notes that a try of a message is over.
    pub(super) fn step_over(&self, message: &InboundMessage) {
        if let Some(evidence) = &self.evidence {
            evidence.over(&turn_of(message));
        }
    }
}
