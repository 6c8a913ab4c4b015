//! Tasks of subagents on the bus: each is worked on beside the lanes, and its result goes to the
//! session that asked for it, as a message.
//!
//! Decision: the delivery of a task is held until its result is in the ledger. How many that are at
//! once is bounded by the tool that gives tasks away, so none is put off and all can be stopped.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use nanobot_bus::{Accepted, BusError, Delivery, REDELIVERY_DELAY, Settle};
use nanobot_session::TurnOutcome;
use nanobot_types::InboundMessage;
use tokio_util::sync::CancellationToken;

use super::pump::Shared;
use crate::AgentError;
use crate::error::chain;
use crate::subagent::{SubagentEnd, SubagentTask, Subagents, reported_by};

/// How often the pause after a failure doubles.
const LONGEST_BACK_OFF: u32 = 6;

/// A task and what is known about working on it.
struct Held {
    task: SubagentTask,
    delivery: Delivery<InboundMessage>,
    stopped: CancellationToken,
    /// The attempt that is made, or is next.
    attempt: u32,
    /// The ledger has counted that attempt.
    begun: bool,
}

/// What came of one try.
enum Tried {
    /// It is settled, or the ledger hands it out again at the next start.
    Done,
    /// It could not be recorded; that was no attempt.
    Blocked,
    /// It failed; that was one.
    Failed,
}

impl Shared {
    /// Takes the task of a subagent.
    pub(super) async fn take_task(
        shared: &Arc<Self>,
        task: SubagentTask,
        delivery: Delivery<InboundMessage>,
    ) {
        let Some(subagents) = shared.agent.subagents().cloned() else {
            return shared.refuse(&task, &delivery).await;
        };
        let stopped = subagents.enter(&task);
        let attempt = delivery.attempt;
        let mut held = Held {
            task,
            delivery,
            stopped,
            attempt,
            begun: false,
        };
        let own = shared.clone();
        shared
            .tasks
            .spawn(async move { own.work_on(&subagents, &mut held).await });
    }

    /// The result of a subagent is settled for good, if that is what the message was.
    pub(super) fn note_settled(&self, message: &InboundMessage) {
        if let (Some(id), Some(subagents)) = (reported_by(message), self.agent.subagents()) {
            subagents.answered(id);
        }
    }

    /// A task for subagents that this assistant has not, or not any more.
    async fn refuse(&self, task: &SubagentTask, delivery: &Delivery<InboundMessage>) {
        let text = "subagents are not set up any more".to_owned();
        let end = SubagentEnd {
            outcome: TurnOutcome::Failed,
            text: Some(text),
        };
        let outcome = match self.bus.publish_inbound(task.result(&end)).await {
            Ok(_) => Settle::Ack,
            Err(_) => Settle::RetryIn(self.settings.full_pause),
        };
        if let Err(error) = delivery.settle(outcome).await {
            tracing::error!(%error, subagent = task.id, "a task could not be settled");
        }
    }

    /// Tries until it is done; pauses longer after each failure.
    async fn work_on(&self, subagents: &Subagents, held: &mut Held) {
        let mut failures: u32 = 0;
        loop {
            let tried = AssertUnwindSafe(self.try_task(subagents, held))
                .catch_unwind()
                .await;
            let tried = tried.unwrap_or_else(|_panic| {
                tracing::error!(subagent = held.task.id, "working on a task panicked");
                Tried::Failed
            });
            self.step_over(&held.delivery.message);
            let first = match tried {
                Tried::Done => return,
                Tried::Blocked => self.settings.full_pause,
                Tried::Failed => {
                    self.count_failure(&held.delivery).await;
                    held.attempt = held.attempt.saturating_add(1);
                    held.begun = false;
                    REDELIVERY_DELAY
                }
            };
            subagents.rest(&held.task);
            let pause = first * (1 << failures.min(LONGEST_BACK_OFF));
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

    async fn try_task(&self, subagents: &Subagents, held: &mut Held) -> Tried {
        match self.count_crash(&held.delivery).await {
            Ok(crashes) => held.attempt = held.attempt.saturating_add(crashes),
            // A person settled it: that is found out below.
            Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => {}
            Err(error) => return failed(&held.task, &error.into()),
        }
        let end = if self.is_hopeless(&held.delivery.message, held.attempt).await {
            let text = format!(
                "it was tried {} times and failed each time; the log says why",
                self.settings.attempts
            );
            subagents
                .conclude(&held.task, TurnOutcome::Failed, Some(text))
                .await
        } else {
            let message = &held.delivery.message;
            let Some(_admitted) = self.admit(message, &held.stopped).await else {
                return Tried::Done;
            };
            let Some(seat) = subagents.seat(&held.stopped, &self.closing).await else {
                return Tried::Done;
            };
            if !held.begun && seat.is_some() {
                match self.begin(&held.delivery).await {
                    Ok(()) => held.begun = true,
                    // A person settled it meanwhile, so nobody wants it any more.
                    Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => {
                        let gone = subagents
                            .conclude(&held.task, TurnOutcome::Stopped, None)
                            .await;
                        return self.bring(subagents, held, gone).await;
                    }
                    Err(error) => return failed(&held.task, &error.into()),
                }
            }
            match seat {
                Some(_seat) => {
                    subagents
                        .work(
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
        self.bring(subagents, held, end).await
    }

    /// Brings the result to the session that asked for it, then settles the task.
    async fn bring(
        &self,
        subagents: &Subagents,
        held: &Held,
        end: Result<SubagentEnd, AgentError>,
    ) -> Tried {
        let task = &held.task;
        let end = match end {
            Ok(end) => end,
            Err(AgentError::Interrupted) => return Tried::Done,
            Err(error) => return failed(task, &error),
        };
        let is_on_the_way = if subagents.is_awaited(task) {
            subagents.report(task);
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
        match held.delivery.settle(Settle::Ack).await {
            Ok(()) | Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => {}
            Err(error) => {
                tracing::error!(%error, subagent = task.id, "a task could not be settled; it comes again")
            }
        }
        if !is_on_the_way {
            // Nobody waits for a message, or an earlier process brought it.
            subagents.answered(&task.id);
            self.tell_end(&held.delivery.message, &task.parent);
        }
        Tried::Done
    }
}

fn failed(task: &SubagentTask, error: &AgentError) -> Tried {
    tracing::error!(error = %chain(error), subagent = task.id, "a task could not be recorded");
    if error.is_transient() {
        Tried::Blocked
    } else {
        Tried::Failed
    }
}
