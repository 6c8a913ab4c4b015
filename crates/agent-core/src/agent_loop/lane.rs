//! The lane of one session: its messages in order, its running turn, its steering.
//!
//! Decision: what cannot be handled now stays in the lane, and with it everything behind it, until
//! its pause is over; so nothing that came later overtakes it, whenever the fault clears.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use nanobot_bus::{BusError, Delivery, REDELIVERY_DELAY, Settle};
use nanobot_session::{MessageEntry, TurnOutcome};
use nanobot_types::{
    ChatMessage, HEARTBEAT_SESSION, InboundMessage, MessageId, Origin, OutboundKey, OutboundKind, OutboundMessage,
    SessionKey, UserMessage,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use super::commands::{Command, CommandTable, Parsed, When};
use super::line::WaitingLine;
use super::pump::{NOTICE_POSITION, Shared, turn_of};
use crate::engine::{Steering, TurnFacts};
use crate::error::chain;
use crate::subagent::{is_note, reported_by};
use crate::{Agent, AgentError, Observer, Signal, Teller, TurnReport, TurnRequest};

/// How often the pause after a failure doubles.
const LONGEST_BACK_OFF: u32 = 6;
/// How many messages are steered into a turn before one model call; what is behind them stays in its place.
const STEERED_PER_CALL: usize = 8;
/// How many messages are steered into one turn. Who goes on writing gets an answer in between, and the
/// log of a turn stays of a length that can be read at once.
const STEERED_PER_TURN: usize = 32;

/// A message in a lane.
#[derive(Debug)]
pub(super) struct Queued {
    /// Its place in the order of all that ever entered the lane.
    number: u64,
    delivery: Delivery<InboundMessage>,
    /// The attempt that is made of it, or is next.
    attempt: u32,
    /// The ledger has counted that attempt.
    begun: bool,
}

/// What came of handling a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handled {
    /// It is settled, or the ledger hands it out again at the next start.
    Done,
    /// It could not be recorded; that was no attempt.
    Blocked,
    /// It failed; that was one.
    Failed,
}

/// What the pump holds of a lane.
#[derive(Debug)]
pub(super) struct LaneHandle {
    queue: mpsc::Sender<Queued>,
    state: Arc<LaneState>,
    /// The number of the newest message.
    newest: u64,
    /// Messages that found no room and come again: nobody overtakes them.
    line: WaitingLine,
}

/// A message that found no room.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) delivery: Delivery<InboundMessage>,
    /// It is the first since the lane had room.
    pub(super) is_first: bool,
    /// How many times the lane has to be emptied before there can be room for it.
    pub(super) lanes_before: u32,
}

#[derive(Debug, Default)]
struct LaneState {
    /// Ends the turn that runs; a new token with every message.
    running: std::sync::Mutex<CancellationToken>,
    /// Messages that are handled now: 0 or 1 and those steered into its turn.
    busy: AtomicUsize,
    /// Messages up to this number came before the last stop: they are not begun.
    stopped_upto: AtomicU64,
    /// The person was told that messages wait; once in the life of a lane, which is over when none do.
    told: AtomicBool,
}

impl LaneHandle {
    /// Puts a message in, or gives it back refused: the lane is full, or others that were refused before it
    /// have not come again.
    pub(super) fn offer(&mut self, delivery: Delivery<InboundMessage>) -> Option<Refusal> {
        let id = delivery.message.journal_id();
        if id.as_ref().is_some_and(|id| !self.line.comes(id)) {
            return Some(self.refuse(delivery, id));
        }
        self.newest += 1;
        let attempt = delivery.attempt;
        match self.queue.try_send(Queued { number: self.newest, delivery, attempt, begun: false }) {
            Ok(()) => {
                id.iter().for_each(|id| self.line.leave(id));
                None
            }
            Err(TrySendError::Full(queued) | TrySendError::Closed(queued)) => Some(self.refuse(queued.delivery, id)),
        }
    }

    fn refuse(&mut self, delivery: Delivery<InboundMessage>, id: Option<MessageId>) -> Refusal {
        let before = id.map_or(0, |id| self.line.wait(&id));
        let lanes_before = before / u64::try_from(self.queue.max_capacity()).unwrap_or(u64::MAX);
        Refusal {
            delivery,
            is_first: !self.state.told.swap(true, Ordering::Relaxed),
            lanes_before: u32::try_from(lanes_before).unwrap_or(u32::MAX),
        }
    }

    /// Whether messages that found no room have yet to come again.
    pub(super) fn awaits_more(&self) -> bool {
        !self.line.is_empty()
    }

    /// Ends the running turn and discards what waits; how many messages that is.
    pub(super) fn stop(&self) -> usize {
        self.state.stopped_upto.store(self.newest, Ordering::SeqCst);
        self.state.token().cancel();
        self.count()
    }

    /// Messages that are at work or wait.
    pub(super) fn count(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity() + self.state.busy.load(Ordering::SeqCst)
    }
}

impl LaneState {
    fn token(&self) -> CancellationToken {
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn begin(&self, parent: &CancellationToken) -> CancellationToken {
        let token = parent.child_token();
        *self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = token.clone();
        self.busy.store(1, Ordering::SeqCst);
        token
    }

    /// Whether the lane was stopped after this message came.
    fn was_stopped(&self, number: u64) -> bool {
        number <= self.stopped_upto.load(Ordering::SeqCst)
    }
}

/// The task of one session.
pub(super) struct Lane {
    shared: Arc<Shared>,
    session: SessionKey,
    queue: mpsc::Receiver<Queued>,
    state: Arc<LaneState>,
    /// Taken from the queue, but not handled yet.
    next: VecDeque<Queued>,
    /// Steered into the turn that runs.
    steered: Vec<Queued>,
    /// How often handling failed since it last worked.
    failures: u32,
}

impl Lane {
    /// A lane and its handle.
    pub(super) fn open(shared: Arc<Shared>, session: SessionKey) -> (LaneHandle, Self) {
        let (sender, queue) = mpsc::channel(shared.settings.lane_bound.max(1));
        let state = Arc::new(LaneState::default());
        let handle = LaneHandle { queue: sender, state: state.clone(), newest: 0, line: WaitingLine::default() };
        let lane = Self { shared, session, queue, state, next: VecDeque::new(), steered: Vec::new(), failures: 0 };
        (handle, lane)
    }

    /// Handles messages until there are none.
    pub(super) async fn run(mut self) {
        while let Some(mut queued) = self.take().await {
            let token = self.state.begin(&self.shared.abort);
            let handled = AssertUnwindSafe(self.handle(&mut queued, token.clone())).catch_unwind().await;
            let handled = handled.unwrap_or_else(|_panic| {
                tracing::error!(session = %self.session, "handling a message panicked");
                Handled::Failed
            });
            match handled {
                Handled::Done => {
                    self.failures = 0;
                    self.shared.note_settled(&queued.delivery.message);
                    self.steered.drain(..).for_each(|steered| self.shared.note_settled(&steered.delivery.message));
                }
                Handled::Blocked => self.hold(queued, &token).await,
                Handled::Failed => {
                    queued.attempt = queued.attempt.saturating_add(1);
                    queued.begun = false;
                    self.hold(queued, &token).await;
                }
            }
            self.state.busy.store(0, Ordering::SeqCst);
        }
    }

    /// Keeps a message that could not be handled for another try, in front of all others. Waits
    /// longer each time, because a turn that fails late has asked the model already.
    async fn hold(&mut self, queued: Queued, stopped: &CancellationToken) {
        let first = if queued.begun { self.shared.settings.full_pause } else { REDELIVERY_DELAY };
        let pause = first * (1 << self.failures.min(LONGEST_BACK_OFF));
        self.failures = self.failures.saturating_add(1);
        for steered in self.steered.drain(..).rev() {
            self.next.push_front(steered);
        }
        let rested = async {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        };
        let closes = self.shared.closing.run_until_cancelled(rested).await.is_none();
        if closes && queued.begun {
            // Nobody knows how long the fault lasts: restarts meanwhile use up no attempts.
            settle(&[&queued], &Settle::PutOff(Duration::ZERO)).await;
        }
        self.next.push_front(queued);
    }

    async fn take(&mut self) -> Option<Queued> {
        if self.shared.closing.is_cancelled() {
            return None;
        }
        if let Some(queued) = self.next.pop_front() {
            return Some(queued);
        }
        if self.shared.retire(&self.session, &self.queue) {
            return None;
        }
        let closing = self.shared.closing.clone();
        closing.run_until_cancelled(self.queue.recv()).await.flatten()
    }

    async fn handle(&mut self, queued: &mut Queued, cancel: CancellationToken) -> Handled {
        let command = match self.shared.commands.read(&queued.delivery.message) {
            Parsed::Command { command, arguments } => Some((command.clone(), arguments.to_owned())),
            Parsed::Misused(_) | Parsed::Unknown(_) | Parsed::Text => None,
        };
        // Who begins anew after stopping does not mean that to be stopped.
        let follows_stop = command.as_ref().is_some_and(|(command, _)| command.when() == When::InLaneAfterStop);
        let was_stopped = self.state.was_stopped(queued.number) && !follows_stop;
        let brings_result = reported_by(&queued.delivery.message).is_some();
        if was_stopped && !brings_result {
            let handled = settle(&[queued], &Settle::Discard("stopped before it began".to_owned())).await;
            self.shared.turn_ended(&queued.delivery.message);
            return handled;
        }
        if self.shared.is_hopeless(&queued.delivery.message, queued.attempt).await {
            return self.give_up(queued).await;
        }
        if !queued.begun {
            match queued.delivery.settle(Settle::Begin).await {
                Ok(()) => queued.begun = true,
                // A person settled it meanwhile.
                Err(BusError::Conflict { .. } | BusError::Unknown { .. }) => return Handled::Done,
                Err(error) => return self.failed(queued, &error.into()).await,
            }
        }
        match command {
            // A result is not lost because a person wants to hear nothing more now.
            None if is_note(&queued.delivery.message) || was_stopped => self.note(queued).await,
            Some((command, arguments)) => self.obey(&*command, &arguments, queued, &cancel).await,
            None => {
                self.shared.agent.find_place(&mut queued.delivery.message).await;
                self.turn(queued, cancel).await
            }
        }
    }

    async fn turn(&mut self, queued: &Queued, cancel: CancellationToken) -> Handled {
        let shared = self.shared.clone();
        let message = &queued.delivery.message;
        let mut steering = LaneSteering {
            agent: &shared.agent,
            commands: &shared.commands,
            queue: &mut self.queue,
            state: &self.state,
            taken: &mut self.steered,
            next: &mut self.next,
        };
        let request = TurnRequest {
            facts: facts_of(message, &self.session),
            entry: entry_of(&shared.agent, message).await,
            trace: turn_of(message),
            observer: Arc::new(BusObserver { shared: shared.clone(), message: message.clone() }),
            cancel,
            interrupt: shared.abort.clone(),
            steering: &mut steering,
        };
        match shared.agent.run_turn(request).await {
            Ok(report) => {
                let handled = self.publish(queued, report).await;
                self.published(message);
                handled
            }
            // The ledger hands the message out again, and the turn goes on from its journal.
            Err(AgentError::Interrupted) => Handled::Done,
            Err(error) => self.failed(queued, &error).await,
        }
    }

    /// Records a message without asking a model: the next turn will know of it.
    async fn note(&self, queued: &Queued) -> Handled {
        let message = &queued.delivery.message;
        let (facts, entry) = (facts_of(message, &self.session), entry_of(&self.shared.agent, message).await);
        let noted = self.shared.agent.conclude(&facts, entry, turn_of(message), TurnOutcome::Stopped, None).await;
        match noted {
            Ok(_) => {
                let handled = settle(&[queued], &Settle::Ack).await;
                self.shared.turn_ended(message);
                handled
            }
            Err(error) => self.failed(queued, &error).await,
        }
    }

    /// Runs a command of the lane, whose journal may fail like a turn's.
    async fn obey(
        &self,
        command: &dyn Command,
        arguments: &str,
        queued: &Queued,
        cancel: &CancellationToken,
    ) -> Handled {
        let delivery = &queued.delivery;
        match self.shared.act(command, arguments, &self.session, &delivery.message, cancel).await {
            Ok(reply) => match self.shared.reply(delivery, reply).await {
                Ok(()) => {
                    self.shared.turn_ended(&delivery.message);
                    Handled::Done
                }
                Err(error) => self.failed(queued, &error.into()).await,
            },
            // The ledger hands the command out again.
            Err(AgentError::Interrupted) => Handled::Done,
            Err(error) => self.failed(queued, &error).await,
        }
    }

    /// Has what outgrew the model's window summarised, beside whatever comes next.
    fn published(&self, message: &InboundMessage) {
        let teller = BusTeller { shared: self.shared.clone(), message: message.clone() };
        self.shared.agent.turn_published(&self.session, Arc::new(teller));
    }

    /// Publishes the visible end of a turn, then settles the messages it answered.
    async fn publish(&self, queued: &Queued, report: TurnReport) -> Handled {
        let message = &queued.delivery.message;
        let said = report.visible.filter(|_| !is_silent(message));
        let told = match said {
            Some(text) if is_heartbeat(&self.session) => match self.judged(message, text, report.ended).await {
                Some(told) => told,
                // The program goes down: the ledger hands the message out again.
                None => return Handled::Done,
            },
            said => said,
        };
        if let Some(text) = told {
            let key = OutboundKey { turn: report.trace, position: 0 };
            let kind = match report.ended {
                TurnOutcome::Failed | TurnOutcome::Limited => OutboundKind::Notice,
                TurnOutcome::Replied | TurnOutcome::Suppressed | TurnOutcome::Stopped => OutboundKind::Final,
            };
            let mut reply = OutboundMessage::in_reply_to(message, key, kind, text);
            reply.completes = report.stream;
            if let Err(error) = self.shared.bus.publish_outbound(reply).await {
                tracing::error!(%error, session = %self.session, "a reply could not be stored; it is recorded and comes again");
                return Handled::Blocked;
            }
        }
        let answered: Vec<&Queued> = std::iter::once(queued).chain(&self.steered).collect();
        let handled = settle(&answered, &Settle::Ack).await;
        answered.iter().for_each(|queued| self.shared.turn_ended(&queued.delivery.message));
        handled
    }

    /// What is told of the work of a heartbeat; `None` when that cannot be decided any more. That
    /// something went wrong is for the log: nobody waits for the answer, and the next beat tries again.
    async fn judged(&self, message: &InboundMessage, answer: String, ended: TurnOutcome) -> Option<Option<String>> {
        if matches!(ended, TurnOutcome::Failed | TurnOutcome::Limited) {
            tracing::warn!(answer, "the work of a heartbeat came to nothing");
            return Some(None);
        }
        let Some(judge) = &self.shared.judge else { return Some(Some(answer)) };
        let told = self.shared.abort.run_until_cancelled(judge.worth_telling(&message.content, &answer)).await?;
        Some(told)
    }

    /// The journal failed: say so once, try again later. A disk that is full or broken may stay so
    /// for long; that is no attempt of the message.
    async fn failed(&self, queued: &Queued, error: &AgentError) -> Handled {
        let why = chain(error);
        tracing::error!(error = %why, session = %self.session, "a turn could not be recorded");
        let message = &queued.delivery.message;
        let text = format!("I cannot record our conversation right now ({why}). I keep your message and try again.");
        let key = OutboundKey { turn: turn_of(message), position: NOTICE_POSITION };
        // The ledger takes a key once, so the person reads this once however often it is tried.
        let notice = OutboundMessage::in_reply_to(message, key, OutboundKind::Notice, text.clone());
        if self.shared.bus.publish_outbound(notice).await.is_err() && self.failures == 0 {
            self.shared.notice(message, &text);
        }
        if error.is_transient() { Handled::Blocked } else { Handled::Failed }
    }

    async fn give_up(&self, queued: &Queued) -> Handled {
        let text = format!(
            "I tried {} times to handle this message and failed each time, so I put it aside. The log says why.",
            self.shared.settings.attempts
        );
        let message = &queued.delivery.message;
        let key = OutboundKey { turn: turn_of(message), position: 0 };
        let reply = OutboundMessage::in_reply_to(message, key, OutboundKind::Notice, text);
        if let Err(error) = self.shared.bus.publish_outbound(reply).await {
            tracing::error!(%error, session = %self.session, "a notice could not be stored");
        }
        let handled = settle(&[queued], &Settle::Fail("handling it failed repeatedly".to_owned())).await;
        self.shared.turn_ended(message);
        handled
    }
}

/// Records one outcome of some messages. What cannot be recorded comes again, and is known by its
/// journal then.
async fn settle(messages: &[&Queued], outcome: &Settle) -> Handled {
    // Together, so that a ledger that syncs does so once for all.
    let settled = join_all(messages.iter().map(|queued| queued.delivery.settle(outcome.clone()))).await;
    for error in settled.into_iter().filter_map(Result::err) {
        tracing::error!(%error, "a message could not be settled; it comes again");
    }
    Handled::Done
}

/// Whether nobody is to be told what comes of a message: a job whose answer is not sent, a
/// heartbeat where nobody is to be told.
fn is_silent(message: &InboundMessage) -> bool {
    match message.origin {
        Origin::Cron { .. } => message.metadata.get("deliver").is_some_and(|deliver| deliver == false),
        _ => is_heartbeat(&message.session_key()) && message.channel.as_str() == "cli",
    }
}

fn is_heartbeat(session: &SessionKey) -> bool {
    session.as_str() == HEARTBEAT_SESSION
}

fn facts_of(message: &InboundMessage, session: &SessionKey) -> TurnFacts {
    TurnFacts {
        session: session.clone(),
        channel: message.channel.clone(),
        chat_id: message.chat_id.clone(),
        message_id: message.id.clone(),
        sender: Some(message.sender_id.clone()),
        chat: message.chat,
        delivery: message.delivery.clone(),
        metadata: message.metadata.clone(),
        origin: message.origin.clone(),
    }
}

async fn entry_of(agent: &Agent, message: &InboundMessage) -> MessageEntry {
    let InboundMessage { content, origin, timestamp, channel, chat_id, .. } = message;
    let runtime = agent.beside(content, origin, timestamp, channel, chat_id).await;
    let user = UserMessage { content: message.content.clone().into(), media: message.media.clone() };
    MessageEntry {
        inbound: message.journal_id(),
        runtime: Some(runtime),
        at: message.timestamp,
        ..MessageEntry::new(ChatMessage::User(user))
    }
}

/// Steers messages that come in while a turn runs into that turn, a bounded number of them. A command of the
/// lane, and everything behind it, waits for the turn's end.
struct LaneSteering<'a> {
    agent: &'a Agent,
    commands: &'a CommandTable,
    queue: &'a mut mpsc::Receiver<Queued>,
    state: &'a LaneState,
    taken: &'a mut Vec<Queued>,
    next: &'a mut VecDeque<Queued>,
}

#[async_trait]
impl Steering for LaneSteering<'_> {
    async fn take(&mut self) -> Vec<MessageEntry> {
        let mut entries = Vec::new();
        let room = STEERED_PER_CALL.min(STEERED_PER_TURN.saturating_sub(self.taken.len()));
        while entries.len() < room
            && let Some(queued) = self.next.pop_front().or_else(|| self.queue.try_recv().ok())
        {
            let is_text = matches!(self.commands.read(&queued.delivery.message), Parsed::Text);
            if !is_text || self.state.was_stopped(queued.number) {
                self.next.push_front(queued);
                break;
            }
            entries.push(entry_of(self.agent, &queued.delivery.message).await);
            self.taken.push(queued);
            self.state.busy.fetch_add(1, Ordering::SeqCst);
        }
        entries
    }
}

/// Tells the chat of a message what is not well with its memory.
struct BusTeller {
    shared: Arc<Shared>,
    message: InboundMessage,
}

#[async_trait]
impl Teller for BusTeller {
    async fn tell(&self, notice: String) {
        let key = OutboundKey { turn: turn_of(&self.message), position: NOTICE_POSITION - 1 };
        let notice = OutboundMessage::in_reply_to(&self.message, key, OutboundKind::Notice, notice);
        if let Err(error) = self.shared.bus.publish_outbound(notice).await {
            tracing::error!(%error, "a notice could not be stored");
        }
    }
}

/// Offers what a turn tells to the chat it belongs to.
struct BusObserver {
    shared: Arc<Shared>,
    message: InboundMessage,
}

impl Observer for BusObserver {
    fn signal(&self, signal: Signal) {
        if is_silent(&self.message) || is_heartbeat(&self.message.session_key()) {
            return;
        }
        let (kind, text) = match signal {
            Signal::Delta { stream, text } => (OutboundKind::Delta { stream }, text),
            Signal::StreamEnd { stream, resuming } => (OutboundKind::StreamEnd { stream, resuming }, String::new()),
            Signal::Thought(text) | Signal::Notice(text) => (OutboundKind::Progress, text),
            Signal::ToolHint(text) => (OutboundKind::ToolHint, text),
        };
        let key = OutboundKey { turn: turn_of(&self.message), position: 0 };
        self.shared.bus.offer(OutboundMessage::in_reply_to(&self.message, key, kind, text));
    }
}
