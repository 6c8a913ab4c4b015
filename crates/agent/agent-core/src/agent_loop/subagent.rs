//! Subagent tasks on the bus: each runs outside the lanes, and its result is sent to its parent
//! session as a message.
//!
//! Decision: the delivery of a task is held until its result is in the ledger. The `spawn` tool
//! limits the number of concurrent tasks, so no task is put off and all of them can be stopped.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use nanobot_bus::{Accepted, BusError, Delivery, REDELIVERY_DELAY, SettleOutcome};
use nanobot_session::TurnOutcome;
use nanobot_types::{InboundMessage, chain};
use tokio_util::sync::CancellationToken;

use super::shared::LoopState;
use crate::AgentError;
use crate::subagent::{SubagentEnd, SubagentTask, Subagents, reported_by};

/// Maximum number of times that the backoff doubles.
const MAX_BACKOFF_DOUBLINGS: u32 = 6;

/// A task and the state of its attempts.
struct HeldTask {
    task: SubagentTask,
    delivery: Delivery<InboundMessage>,
    stopped: CancellationToken,
    /// Number of the current or next attempt.
    attempt: u32,
    /// `true` once that attempt has begun in the ledger.
    begun: bool,
}

/// The result of an attempt.
enum AttemptResult {
    /// The task is settled, or the ledger redelivers it at the next start.
    Done,
    /// The task could not be recorded; that does not count as an attempt.
    Blocked,
    /// The attempt failed and counts.
    Failed,
}

impl LoopState {
    /// Accepts the task of a subagent.
    pub(super) async fn accept_task(
        shared: &Arc<Self>,
        task: SubagentTask,
        delivery: Delivery<InboundMessage>,
    ) {
        let Some(subagents) = shared.agent.subagents().cloned() else {
            return shared.refuse(&task, &delivery).await;
        };
        let stopped = subagents.accept(&task);
        let attempt = delivery.attempt;
        let mut held = HeldTask {
            task,
            delivery,
            stopped,
            attempt,
            begun: false,
        };
        let own = shared.clone();
        shared
            .tasks
            .spawn(async move { own.retry_until_done(&subagents, &mut held).await });
    }

    /// Notes that a message is settled, in case it is the result of a subagent.
    pub(super) fn note_settled(&self, message: &InboundMessage) {
        if let (Some(id), Some(subagents)) = (reported_by(message), self.agent.subagents()) {
            subagents.answered(id);
        }
    }

    /// Fails a task because this assistant has no subagents, or no longer has any.
    async fn refuse(&self, task: &SubagentTask, delivery: &Delivery<InboundMessage>) {
        let text = "subagents are not set up any more".to_owned();
        let end = SubagentEnd {
            outcome: TurnOutcome::Failed,
            text: Some(text),
        };
        let outcome = match self.bus.publish_inbound(task.result(&end)).await {
            Ok(_) => SettleOutcome::Ack,
            Err(_) => SettleOutcome::RetryIn(self.settings.redelivery_delay),
        };
        if let Err(error) = delivery.settle(outcome).await {
            tracing::error!(%error, subagent = task.id, "could not settle a task");
        }
    }

    /// Retries until the task is done, with exponential backoff.
    async fn retry_until_done(&self, subagents: &Subagents, held: &mut HeldTask) {
        let mut failures: u32 = 0;
        loop {
            let tried = AssertUnwindSafe(self.attempt_task(subagents, held))
                .catch_unwind()
                .await;
            let tried = tried.unwrap_or_else(|_panic| {
                tracing::error!(subagent = held.task.id, "working on a task panicked");
                AttemptResult::Failed
            });
            self.attempt_over(&held.delivery.message);
            let first = match tried {
                AttemptResult::Done => return,
                AttemptResult::Blocked => self.settings.redelivery_delay,
                AttemptResult::Failed => {
                    self.count_failure(&held.delivery).await;
                    held.attempt = held.attempt.saturating_add(1);
                    held.begun = false;
                    REDELIVERY_DELAY
                }
            };
            subagents.set_waiting(&held.task);
            let pause = first * (1 << failures.min(MAX_BACKOFF_DOUBLINGS));
            failures = failures.saturating_add(1);
            let rested = async {
                tokio::select! {
                    () = held.stopped.cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            };
            if self.closing.run_until_cancelled(rested).await.is_none() {
                return;
            }
        }
    }

    async fn attempt_task(&self, subagents: &Subagents, held: &mut HeldTask) -> AttemptResult {
        match self.count_crash(&held.delivery).await {
            Ok(crashes) => held.attempt = held.attempt.saturating_add(crashes),
            // A person settled the task; this is handled below, when it begins.
            Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => {}
            Err(error) => return failed(&held.task, &error.into()),
        }
        let end = if self
            .exceeded_attempts(&held.delivery.message, held.attempt)
            .await
        {
            let text = format!(
                "it was tried {} times and failed each time; the log says why",
                self.settings.max_attempts
            );
            subagents
                .conclude(&held.task, TurnOutcome::Failed, Some(text))
                .await
        } else {
            let message = &held.delivery.message;
            let Some(_admitted) = self.admit(message, &held.stopped).await else {
                return AttemptResult::Done;
            };
            let Some(seat) = subagents.acquire_slot(&held.stopped, &self.closing).await else {
                return AttemptResult::Done;
            };
            if !held.begun && seat.is_some() {
                match self.begin(&held.delivery).await {
                    Ok(()) => held.begun = true,
                    // A person settled the task meanwhile, so its result is no longer wanted.
                    Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => {
                        let gone = subagents
                            .conclude(&held.task, TurnOutcome::Stopped, None)
                            .await;
                        return self.deliver_result(subagents, held, gone).await;
                    }
                    Err(error) => return failed(&held.task, &error.into()),
                }
            }
            match seat {
                Some(_seat) => {
                    subagents
                        .run_task(
                            &held.task,
                            &self.abort,
                            self.steps_of(&held.delivery.message),
                        )
                        .await
                }
                None => {
                    subagents
                        .conclude(&held.task, TurnOutcome::Stopped, None)
                        .await
                }
            }
        };
        self.deliver_result(subagents, held, end).await
    }

    /// Delivers the result to the parent session, then settles the task.
    async fn deliver_result(
        &self,
        subagents: &Subagents,
        held: &HeldTask,
        end: Result<SubagentEnd, AgentError>,
    ) -> AttemptResult {
        let task = &held.task;
        let end = match end {
            Ok(end) => end,
            Err(AgentError::Interrupted) => return AttemptResult::Done,
            Err(error) => return failed(task, &error),
        };
        let is_on_the_way = if subagents.is_awaited(task) {
            subagents.set_reporting(task);
            match self
                .bus
                .publish_inbound(subagents.result(task, end).await)
                .await
            {
                Ok(accepted) => accepted == Accepted::New,
                Err(error) => return failed(task, &error.into()),
            }
        } else {
            false
        };
        match held.delivery.settle(SettleOutcome::Ack).await {
            Ok(()) | Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => {}
            Err(error) => {
                tracing::error!(%error, subagent = task.id, "could not settle a task; it is redelivered");
            }
        }
        if !is_on_the_way {
            // The session expects no message, or an earlier process delivered it.
            subagents.answered(&task.id);
            self.publish_turn_end(&held.delivery.message, &task.parent);
        }
        AttemptResult::Done
    }
}

fn failed(task: &SubagentTask, error: &AgentError) -> AttemptResult {
    tracing::error!(error = %chain(error), subagent = task.id, "could not record a task");
    if error.is_transient() {
        AttemptResult::Blocked
    } else {
        AttemptResult::Failed
    }
}
