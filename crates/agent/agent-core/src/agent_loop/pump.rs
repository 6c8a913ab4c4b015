//! Takes messages from the bus and puts each where it belongs.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Instant;

use futures_util::FutureExt as _;
use nanobot_bus::{Bus, BusError, Delivery, Ledger, Settle};
use nanobot_types::{
    Event, InboundMessage, OutboundKey, OutboundKind, OutboundMessage, SessionKey, TraceId,
};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::commands::{Command, CommandContext, CommandReply, CommandTable, Parsed, When};
use super::lane::{Lane, LaneHandle, Queued, Refusal};
use super::{Judge, LoopSettings};
use crate::error::chain;
use crate::{Agent, AgentError, StepLog, SubagentTask};

/// The place of an answer to a command, and of a notice, among the messages of its turn: behind
/// everything a turn can publish.
pub(super) const NOTICE_POSITION: u32 = u32::MAX;

/// Commands that are at work outside of lanes at the same time.
const COMMANDS_AT_WORK: usize = 16;

/// Routes messages of a bus to turns of an agent, and replies back.
#[derive(Debug)]
pub struct AgentLoop {
    shared: Arc<Shared>,
}

/// What the pump and its lanes share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) agent: Arc<Agent>,
    pub(super) bus: Arc<dyn Bus>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) commands: CommandTable,
    pub(super) judge: Option<Arc<dyn Judge>>,
    pub(super) settings: LoopSettings,
    /// Which step of which turn is under way, for the start after a crash.
    pub(super) evidence: Option<Arc<StepLog>>,
    lanes: Mutex<HashMap<SessionKey, LaneHandle>>,
    pub(super) tasks: TaskTracker,
    /// Bounds commands that act beside lanes.
    at_work: Arc<Semaphore>,
    /// Fires when lanes must begin no further message; what they hold stays in the ledger.
    pub(super) closing: CancellationToken,
    /// Fires when turns must end, a grace after intake stopped.
    pub(super) abort: CancellationToken,
    pub(super) started: Instant,
}

impl AgentLoop {
    /// A loop between an agent and a bus that understands the built-in commands; `ledger` is that
    /// bus's.
    #[must_use]
    pub fn new(
        agent: Arc<Agent>,
        bus: Arc<dyn Bus>,
        ledger: Arc<dyn Ledger>,
        settings: LoopSettings,
    ) -> Self {
        Self::with_commands(agent, bus, ledger, settings, CommandTable::built_in(), None)
    }

    /// The same with commands of one's own, and with somebody who decides what is told of heartbeats;
    /// without, every answer is.
    #[must_use]
    pub fn with_commands(
        agent: Arc<Agent>,
        bus: Arc<dyn Bus>,
        ledger: Arc<dyn Ledger>,
        settings: LoopSettings,
        commands: CommandTable,
        judge: Option<Arc<dyn Judge>>,
    ) -> Self {
        let shared = Shared {
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

    /// The same with notes of the steps under way: an attempt then counts against the turn whose
    /// step the process died of, not against those that ran beside it. For a ledger that outlives
    /// the process.
    #[must_use]
    pub fn with_evidence(mut self, evidence: StepLog) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.evidence = Some(Arc::new(evidence));
        }
        self
    }

    /// Runs until `cancel` fires: then nothing new is taken, turns and summaries may go on for the grace, what
    /// still runs is stopped with its recorded steps kept, and every task is awaited.
    ///
    /// # Errors
    /// [`AgentError::Bus`] when the bus gives no subscription.
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
            Shared::route(&self.shared, delivery).await;
        }
        self.shared.closing.cancel();
        self.shared.tasks.close();
        let began = Instant::now();
        let grace = self.shared.settings.grace;
        let drained = tokio::time::timeout(grace, self.shared.tasks.wait()).await;
        if drained.is_err() {
            tracing::warn!("turns are stopped because the grace is over");
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

impl Shared {
    async fn route(shared: &Arc<Self>, delivery: Delivery<InboundMessage>) {
        if let Some(task) = SubagentTask::of(&delivery.message) {
            return Self::take_task(shared, task, delivery).await;
        }
        let session = delivery.message.session_key();
        let answer = match shared.commands.read(&delivery.message) {
            Parsed::Command { command, arguments } => match command.when() {
                When::Now => {
                    let (command, arguments) = (command.clone(), arguments.to_owned());
                    return Self::act_now(shared, command, arguments, session, delivery).await;
                }
                When::InLane => return Self::enqueue(shared, session, delivery).await,
                When::InLaneAfterStop => {
                    // It acts behind whatever still runs, so end that first.
                    shared.abandon(&session);
                    return Self::enqueue(shared, session, delivery).await;
                }
            },
            Parsed::Misused(info) => format!(
                "/{} takes nothing behind it. /help lists the commands.",
                info.name
            ),
            Parsed::Unknown(word) => shared.commands.unknown(word),
            Parsed::Text => return Self::enqueue(shared, session, delivery).await,
        };
        shared.answer(delivery, answer.into()).await;
    }

    /// Begins a command at once, before anything else is routed; what it has to wait for, it waits
    /// for beside the pump.
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

    /// Runs a command. One that panics says so.
    ///
    /// # Errors
    /// The command's.
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

    /// Answers a message that needs no turn; what cannot be stored now is tried again.
    async fn answer(&self, delivery: Delivery<InboundMessage>, reply: CommandReply) {
        if self.reply(&delivery, reply).await.is_err()
            && let Err(error) = delivery
                .settle(Settle::RetryIn(self.settings.full_pause))
                .await
        {
            tracing::error!(%error, "a command that could not be answered comes again");
        }
    }

    /// Publishes an answer that needs no turn, then settles; what follows the answer follows when
    /// both are done for good.
    ///
    /// # Errors
    /// When the answer is not stored; nothing is settled then.
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
        match delivery.settle(Settle::Ack).await {
            Ok(()) => reply.then.into_iter().for_each(|then| then()),
            Err(error) => tracing::error!(%error, "an answered command could not be settled"),
        }
        Ok(())
    }

    /// Puts a message into its lane; a lane that is full leaves it in the ledger.
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
        let Some(Refusal {
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
            .full_pause
            .saturating_mul(lanes_before.saturating_add(1));
        if let Err(error) = delivery.settle(Settle::PutOff(pause)).await {
            tracing::error!(%error, session = %session, "a message that waits could not be put off");
        }
    }

    /// Whether a message was tried too often. Every step that its turn has recorded is worth one
    /// more attempt, so that restarts do not use up those of a turn that gets on.
    pub(super) async fn is_hopeless(&self, message: &InboundMessage, attempt: u32) -> bool {
        let attempts = self.settings.attempts;
        if attempt <= attempts {
            return false;
        }
        let steps = match message.journal_id() {
            Some(id) => self.agent.steps_behind(&message.session_key(), &id).await,
            None => 0,
        };
        attempt > attempts.saturating_add(steps)
    }

    /// Stops the turn of a session and its subagents, and discards what waits behind it; how many
    /// messages and subagents that is.
    pub(super) fn stop(&self, session: &SessionKey) -> usize {
        let subagents = self
            .agent
            .subagents()
            .map_or(0, |subagents| subagents.stop_session(session));
        self.stop_lane(session) + subagents
    }

    /// The same, and nothing of it reaches what follows in that session.
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

    /// Tells who waits for it that a message is dealt with.
    pub(super) fn turn_ended(&self, message: &InboundMessage) {
        self.note_settled(message);
        self.tell_end(message, &message.session_key());
    }

    /// Tells who waits for `session` that something of it is dealt with, and what is left.
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

    /// Tells a chat something that may be lost.
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

    /// Messages that are at work or wait, over all lanes.
    pub(super) fn active_tasks(&self) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.values().map(LaneHandle::count).sum()
    }

    /// Removes a lane that has nothing left and awaits nothing.
    pub(super) fn retire(&self, session: &SessionKey, queue: &mpsc::Receiver<Queued>) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let done = queue.is_empty() && !lanes.get(session).is_some_and(LaneHandle::awaits_more);
        if done {
            lanes.remove(session);
        }
        done
    }
}

/// The name of the turn a message begins: the same after a restart when the message has an id.
pub(super) fn turn_of(message: &InboundMessage) -> TraceId {
    message
        .journal_id()
        .map_or_else(|| TraceId::from("unnamed"), |id| TraceId::from(id.as_str()))
}
