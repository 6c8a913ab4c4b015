//! Receives messages from the bus and routes each of them.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Instant;

use futures_util::FutureExt as _;
use nanobot_bus::{Bus, BusError, Delivery, Ledger, SettleOutcome};
use nanobot_types::{
    Event, InboundMessage, OutboundKey, OutboundKind, OutboundMessage, SessionKey, TraceId,
};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::commands::{Command, CommandContext, CommandReply, CommandTable, CommandTiming, Parsed};
use super::lane::{Lane, LaneHandle, LaneRefusal, Queued};
use super::{HeartbeatFilter, LoopSettings};
use crate::error::chain;
use crate::{Agent, AgentError, StepLog, SubagentTask};

/// Outbound position of notices and turn-end events: after everything that a turn can publish.
pub(super) const NOTICE_POSITION: u32 = u32::MAX;

/// Maximum number of commands that run outside of lanes at the same time.
const COMMANDS_AT_WORK: usize = 16;

/// Routes messages from a bus to turns of an agent, and replies back.
#[derive(Debug)]
pub struct AgentLoop {
    shared: Arc<LoopState>,
}

/// State shared by the pump and its lanes.
#[derive(Debug)]
pub(super) struct LoopState {
    pub(super) agent: Arc<Agent>,
    pub(super) bus: Arc<dyn Bus>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) commands: CommandTable,
    pub(super) judge: Option<Arc<dyn HeartbeatFilter>>,
    pub(super) settings: LoopSettings,
    /// Notes of the steps under way, as evidence after a crash.
    pub(super) evidence: Option<Arc<StepLog>>,
    lanes: Mutex<HashMap<SessionKey, LaneHandle>>,
    pub(super) tasks: TaskTracker,
    /// Limits the commands that run outside of lanes.
    at_work: Arc<Semaphore>,
    /// Fires when lanes must not begin further messages; what they hold stays in the ledger.
    pub(super) closing: CancellationToken,
    /// Fires when running turns must end, after the grace period.
    pub(super) abort: CancellationToken,
    pub(super) started: Instant,
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

    /// Creates a loop with these commands, and with a judge that decides which heartbeat replies
    /// are sent. Without a judge all of them are sent.
    #[must_use]
    pub fn with_commands(
        agent: Arc<Agent>,
        bus: Arc<dyn Bus>,
        ledger: Arc<dyn Ledger>,
        settings: LoopSettings,
        commands: CommandTable,
        judge: Option<Arc<dyn HeartbeatFilter>>,
    ) -> Self {
        let shared = LoopState {
            agent,
            bus,
            ledger,
            commands,
            judge,
            settings,
            evidence: None,
            lanes: Mutex::default(),
            tasks: TaskTracker::new(),
            at_work: Arc::new(Semaphore::new(COMMANDS_AT_WORK)),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
            started: Instant::now(),
        };
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
            return Self::take_task(shared, task, delivery).await;
        }
        let session = delivery.message.session_key();
        let answer = match shared.commands.read(&delivery.message) {
            Parsed::Command { command, arguments } => match command.when() {
                CommandTiming::Now => {
                    let (command, arguments) = (command.clone(), arguments.to_owned());
                    return Self::act_now(shared, command, arguments, session, delivery).await;
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
            Parsed::Text => return Self::enqueue(shared, session, delivery).await,
        };
        shared.answer(delivery, answer.into()).await;
    }

    /// Starts a command at once, before anything else is routed. If it has to wait for something,
    /// it continues in a task of its own.
    async fn act_now(
        shared: &Arc<Self>,
        command: Arc<dyn Command>,
        arguments: String,
        session: SessionKey,
        delivery: Delivery<InboundMessage>,
    ) {
        let Ok(permit) = shared.at_work.clone().acquire_owned().await else {
            return;
        };
        let own = shared.clone();
        let mut acting = Box::pin(async move {
            let _permit = permit;
            let done = own
                .act(
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
                format!("That does not work now: {}.", chain(error)).into()
            });
            own.answer(delivery, reply).await;
        });
        if std::future::poll_fn(|context| Poll::Ready(acting.as_mut().poll(context)))
            .await
            .is_pending()
        {
            shared.tasks.spawn(acting);
        }
    }

    /// Runs a command. If it panics, the reply says that it failed.
    ///
    /// # Errors
    /// Returns the command's error.
    pub(super) async fn act(
        &self,
        command: &dyn Command,
        arguments: &str,
        session: &SessionKey,
        message: &InboundMessage,
        cancel: &CancellationToken,
    ) -> Result<CommandReply, AgentError> {
        let context = CommandContext {
            message,
            session,
            arguments,
            cancel,
            shared: self,
        };
        let acted = AssertUnwindSafe(command.run(&context)).catch_unwind().await;
        acted.unwrap_or_else(|_| {
            tracing::error!(session = %session, command = command.info().name, "a command panicked");
            Ok("That command failed. The log says why.".into())
        })
    }

    /// Replies to a message that needs no turn; retries later if the reply cannot be stored now.
    async fn answer(&self, delivery: Delivery<InboundMessage>, reply: CommandReply) {
        if self.reply(&delivery, reply).await.is_err()
            && let Err(error) = delivery
                .settle(SettleOutcome::RetryIn(self.settings.redelivery_delay))
                .await
        {
            tracing::error!(%error, "could not answer a command; it is redelivered");
        }
    }

    /// Publishes a reply that needs no turn, then settles the message. The reply's follow-up runs
    /// once both are durable.
    ///
    /// # Errors
    /// Returns a [`BusError`] if the reply was not stored; nothing is settled then.
    pub(super) async fn reply(
        &self,
        delivery: &Delivery<InboundMessage>,
        reply: CommandReply,
    ) -> Result<(), BusError> {
        let key = OutboundKey {
            turn: turn_of(&delivery.message),
            position: 0,
        };
        let answer =
            OutboundMessage::in_reply_to(&delivery.message, key, OutboundKind::Final, reply.text);
        self.bus.publish_outbound(answer).await?;
        match delivery.settle(SettleOutcome::Ack).await {
            Ok(()) => reply.then.into_iter().for_each(|then| then()),
            Err(error) => tracing::error!(%error, "could not settle an answered command"),
        }
        Ok(())
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

    /// Returns `true` if a message used up its attempts. Every recorded step of its turn allows one
    /// more attempt, so that restarts do not use up the attempts of a turn that makes progress.
    pub(super) async fn is_hopeless(&self, message: &InboundMessage, attempt: u32) -> bool {
        let attempts = self.settings.max_attempts;
        if attempt <= attempts {
            return false;
        }
        let steps = match message.journal_id() {
            Some(id) => self.agent.steps_behind(&message.session_key(), &id).await,
            None => 0,
        };
        attempt > attempts.saturating_add(steps)
    }

    /// Stops the turn of a session and its subagents, and discards its waiting messages. Returns
    /// the number of messages and subagents affected.
    pub(super) fn stop(&self, session: &SessionKey) -> usize {
        let subagents = self
            .agent
            .subagents()
            .map_or(0, |subagents| subagents.stop_session(session));
        self.stop_lane(session) + subagents
    }

    /// Stops a session as [`LoopState::stop`] does, and keeps results of its subagents out of its next
    /// conversation.
    fn abandon(&self, session: &SessionKey) {
        if let Some(subagents) = self.agent.subagents() {
            subagents.abandon_session(session);
        }
        self.stop_lane(session);
    }

    fn stop_lane(&self, session: &SessionKey) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(session).map_or(0, LaneHandle::stop)
    }

    /// Notifies waiters that a message is settled.
    pub(super) fn turn_ended(&self, message: &InboundMessage) {
        self.note_settled(message);
        self.tell_end(message, &message.session_key());
    }

    /// Notifies waiters of `session` that one of its messages is settled, and how many subagents
    /// are unfinished.
    pub(super) fn tell_end(&self, message: &InboundMessage, session: &SessionKey) {
        let left = self
            .agent
            .subagents()
            .map_or(0, |subagents| subagents.of_session(session).len());
        let kind = OutboundKind::TurnEnd {
            unfinished: u32::try_from(left).unwrap_or(u32::MAX),
        };
        let key = OutboundKey {
            turn: turn_of(message),
            position: NOTICE_POSITION,
        };
        self.bus.offer(OutboundMessage::in_reply_to(
            message,
            key,
            kind,
            String::new(),
        ));
        self.agent.events().send(Event::MessageSettled {
            session: session.clone(),
        });
    }

    /// Sends a best-effort notice to a chat.
    pub(super) fn notice(&self, message: &InboundMessage, text: &str) {
        let key = OutboundKey {
            turn: turn_of(message),
            position: NOTICE_POSITION,
        };
        self.bus.offer(OutboundMessage::in_reply_to(
            message,
            key,
            OutboundKind::Progress,
            text.to_owned(),
        ));
    }

    /// Returns the number of running and waiting messages over all lanes.
    pub(super) fn active_tasks(&self) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.values().map(LaneHandle::count).sum()
    }

    /// Removes a lane if its queue is empty and no refused message has yet to return.
    pub(super) fn retire(&self, session: &SessionKey, queue: &mpsc::Receiver<Queued>) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let done = queue.is_empty() && !lanes.get(session).is_some_and(LaneHandle::awaits_more);
        if done {
            lanes.remove(session);
        }
        done
    }
}

/// Returns the id of the turn that a message begins. It is the same after a restart if the message
/// has an id.
pub(super) fn turn_of(message: &InboundMessage) -> TraceId {
    message
        .journal_id()
        .map_or_else(|| TraceId::from("unnamed"), |id| TraceId::from(id.as_str()))
}
