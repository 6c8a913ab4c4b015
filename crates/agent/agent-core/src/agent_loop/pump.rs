//! Receives messages from the bus and routes each of them.

use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Instant;

use nanobot_bus::{Bus, Delivery, Ledger, SettleOutcome};
use nanobot_types::{InboundMessage, SessionKey, chain};
use tokio_util::sync::CancellationToken;

use super::commands::{Command, CommandReply, CommandTable, CommandTiming, Parsed};
use super::lane::Lane;
use super::lane::handle::LaneRefusal;
use super::lane::notices::BusNotifier;
use super::shared::LoopState;
use super::{HeartbeatFilter, LoopSettings};
use crate::{Agent, AgentError, StepLog, SubagentTask};

/// Routes messages from a bus to turns of an agent, and replies back.
#[derive(Debug)]
pub struct AgentLoop {
    shared: Arc<LoopState>,
}

impl AgentLoop {
    /// Creates a loop between an agent and a bus, with the built-in commands. `ledger` must be the
    /// ledger of `bus`.
    #[must_use]
    pub fn new(
        agent: Arc<Agent>,
        bus: Arc<dyn Bus>,
        ledger: Arc<dyn Ledger>,
        settings: LoopSettings,
    ) -> Self {
        Self::with_commands(agent, bus, ledger, settings, CommandTable::built_in(), None)
    }

    /// Creates a loop with these commands, and with a filter that decides which heartbeat replies
    /// are sent. Without a filter all of them are sent.
    #[must_use]
    pub fn with_commands(
        agent: Arc<Agent>,
        bus: Arc<dyn Bus>,
        ledger: Arc<dyn Ledger>,
        settings: LoopSettings,
        commands: CommandTable,
        heartbeat_filter: Option<Arc<dyn HeartbeatFilter>>,
    ) -> Self {
        let shared = LoopState::new(agent, bus, ledger, settings, commands, heartbeat_filter);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Adds step notes: after a crash an attempt is counted against the turn whose step was under
    /// way, not against other turns that were running. Useful only with a ledger that outlives the
    /// process.
    #[must_use]
    pub fn with_evidence(mut self, evidence: StepLog) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.evidence = Some(Arc::new(evidence));
        }
        self
    }

    /// Runs until `cancel` fires. Intake then stops, turns and summaries may continue for the grace
    /// period, and what still runs is stopped with its recorded steps kept. Every task is awaited.
    ///
    /// # Errors
    /// Returns [`AgentError::Bus`] if the bus gives no subscription.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), AgentError> {
        let mut inbound = self.shared.bus.inbound().await?;
        let shared = self.shared.clone();
        self.shared.tasks.spawn(async move {
            let _ended = shared
                .closing
                .run_until_cancelled(shared.agent.resume_summaries())
                .await;
        });
        loop {
            let delivery = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                next = inbound.next() => match next {
                    Some(delivery) => delivery,
                    None => break,
                },
            };
            LoopState::route(&self.shared, delivery).await;
        }
        self.shared.closing.cancel();
        self.shared.tasks.close();
        let began = Instant::now();
        let grace = self.shared.settings.grace;
        let drained = tokio::time::timeout(grace, self.shared.tasks.wait()).await;
        if drained.is_err() {
            tracing::warn!("stopping turns: the grace period is over");
        }
        self.shared.abort.cancel();
        self.shared.tasks.wait().await;
        if let Some(evidence) = &self.shared.evidence {
            evidence.close();
        }
        self.shared
            .agent
            .shut_down(grace.saturating_sub(began.elapsed()))
            .await;
        Ok(())
    }
}

impl LoopState {
    async fn route(shared: &Arc<Self>, delivery: Delivery<InboundMessage>) {
        if let Some(task) = SubagentTask::of(&delivery.message) {
            return Self::accept_task(shared, task, delivery).await;
        }
        let session = delivery.message.session_key();
        let answer = match shared.commands.read(&delivery.message) {
            Parsed::Command { command, arguments } => match command.timing() {
                CommandTiming::Now => {
                    let (command, arguments) = (command.clone(), arguments.to_owned());
                    return Self::run_command_now(shared, command, arguments, session, delivery)
                        .await;
                }
                CommandTiming::InLane => return Self::enqueue(shared, session, delivery).await,
                CommandTiming::InLaneAfterStop => {
                    // It runs after the current turn, so stop that first.
                    shared.abandon(&session);
                    return Self::enqueue(shared, session, delivery).await;
                }
            },
            Parsed::Misused(info) => format!(
                "/{} takes no arguments. /help lists the commands.",
                info.name
            ),
            Parsed::Unknown(word) => shared.commands.unknown(word),
            Parsed::Text => {
                if let Some(delivery) = shared.take_answer(delivery).await {
                    Self::enqueue(shared, session, delivery).await;
                }
                return;
            }
        };
        shared.answer(delivery, CommandReply::refusal(answer)).await;
    }

    /// Starts a command at once, before anything else is routed. If it has to wait for something,
    /// it continues in a task of its own.
    async fn run_command_now(
        shared: &Arc<Self>,
        command: Arc<dyn Command>,
        arguments: String,
        session: SessionKey,
        delivery: Delivery<InboundMessage>,
    ) {
        let Ok(permit) = shared.command_permits.clone().acquire_owned().await else {
            return;
        };
        let own = shared.clone();
        let mut acting = Box::pin(async move {
            let _permit = permit;
            let done = own
                .run_command(
                    &*command,
                    &arguments,
                    &session,
                    &delivery.message,
                    &own.abort,
                )
                .await;
            let reply = done.unwrap_or_else(|error| {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, session = %session, command = command.info().name, "a command failed");
                CommandReply::refusal(format!("That does not work now: {}.", chain(error)))
            });
            let notifier = BusNotifier {
                shared: own.clone(),
                message: delivery.message.clone(),
            };
            own.answer(delivery, reply).await;
            // `/summarize` starts background work.
            own.agent.turn_published(&session, Arc::new(notifier));
        });
        if std::future::poll_fn(|context| Poll::Ready(acting.as_mut().poll(context)))
            .await
            .is_pending()
        {
            shared.tasks.spawn(acting);
        }
    }

    /// Replies to a message that needs no turn; retries later if the reply cannot be stored now.
    pub(super) async fn answer(&self, delivery: Delivery<InboundMessage>, reply: CommandReply) {
        if self.reply(&delivery, reply).await.is_err()
            && let Err(error) = delivery
                .settle(SettleOutcome::RetryIn(self.settings.redelivery_delay))
                .await
        {
            tracing::error!(%error, "could not answer a command; it is redelivered");
        }
    }

    /// Puts a message into its lane. If the lane is full, the message stays in the ledger.
    async fn enqueue(shared: &Arc<Self>, session: SessionKey, delivery: Delivery<InboundMessage>) {
        let refused = {
            let mut lanes = shared.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            let lane = lanes.entry(session.clone()).or_insert_with(|| {
                let (handle, lane) = Lane::open(shared.clone(), session.clone());
                shared.tasks.spawn(lane.run());
                handle
            });
            lane.offer(delivery)
        };
        let Some(LaneRefusal {
            delivery,
            is_first,
            lanes_before,
        }) = refused
        else {
            return;
        };
        if is_first {
            shared.notice(
                &delivery.message,
                "I am still at work here. Your further messages wait their turn.",
            );
        }
        let pause = shared
            .settings
            .redelivery_delay
            .saturating_mul(lanes_before.saturating_add(1));
        if let Err(error) = delivery.settle(SettleOutcome::PutOff(pause)).await {
            tracing::error!(%error, session = %session, "could not put off a waiting message");
        }
    }
}
