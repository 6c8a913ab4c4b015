//! The lane of one session: its messages in order, its running turn, its steering.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use nanobot_bus::{Delivery, Settle};
use nanobot_session::{MessageEntry, TurnOutcome};
use nanobot_types::{
    ChatMessage, InboundMessage, MessageId, OutboundKey, OutboundKind, OutboundMessage, SessionKey, UserMessage,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use super::commands::{self, Command, Parsed};
use super::pump::{NOTICE_POSITION, Shared, turn_of};
use crate::engine::{Steering, TurnFacts};
use crate::{Agent, AgentError, Observer, Signal, TurnReport, TurnRequest};

/// A message in a lane and its place in the order of all that ever entered it.
#[derive(Debug)]
pub(super) struct Queued {
    number: u64,
    delivery: Delivery<InboundMessage>,
}

/// What the pump holds of a lane.
#[derive(Debug)]
pub(super) struct LaneHandle {
    queue: mpsc::Sender<Queued>,
    state: Arc<LaneState>,
    /// The number of the newest message.
    newest: u64,
    /// Messages that found no room and come again, in order: nobody overtakes them.
    put_off: VecDeque<MessageId>,
}

#[derive(Debug, Default)]
struct LaneState {
    /// Ends the turn that runs; a new token with every message.
    running: std::sync::Mutex<CancellationToken>,
    /// Messages that are handled now: 0 or 1 and those steered into its turn.
    busy: AtomicUsize,
    /// Messages up to this number came before the last stop: they are not begun.
    stopped_upto: AtomicU64,
    /// The person was told that messages wait.
    told: AtomicBool,
}

impl LaneHandle {
    /// Puts a message in; gives it back when the lane is full, or when others that were given
    /// back before it have not come again.
    pub(super) fn offer(&mut self, delivery: Delivery<InboundMessage>) -> Option<Delivery<InboundMessage>> {
        let id = delivery.message.journal_id();
        let is_next = self.put_off.front().is_none_or(|first| Some(first) == id.as_ref());
        if !is_next {
            self.put_off(id);
            return Some(delivery);
        }
        self.newest += 1;
        match self.queue.try_send(Queued { number: self.newest, delivery }) {
            Ok(()) => {
                self.put_off.pop_front();
                None
            }
            Err(TrySendError::Full(queued) | TrySendError::Closed(queued)) => {
                self.put_off(id);
                Some(queued.delivery)
            }
        }
    }

    fn put_off(&mut self, id: Option<MessageId>) {
        self.put_off.extend(id.filter(|id| !self.put_off.contains(id)));
    }

    /// Whether messages that found no room have yet to come again.
    pub(super) fn awaits_more(&self) -> bool {
        !self.put_off.is_empty()
    }

    /// Whether a refusal is the first since the lane had room.
    pub(super) fn first_refusal(&self) -> bool {
        !self.state.told.swap(true, Ordering::Relaxed)
    }

    /// Ends the running turn and discards what waits; how many messages that is.
    pub(super) fn stop(&self) -> usize {
        self.state.stopped_upto.store(self.newest, Ordering::SeqCst);
        self.state.token().cancel();
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
    /// Taken from the queue while a turn ran, but not for that turn.
    next: VecDeque<Queued>,
}

impl Lane {
    /// A lane and its handle.
    pub(super) fn open(shared: Arc<Shared>, session: SessionKey) -> (LaneHandle, Self) {
        let (sender, queue) = mpsc::channel(shared.settings.lane_bound.max(1));
        let state = Arc::new(LaneState::default());
        let handle = LaneHandle { queue: sender, state: state.clone(), newest: 0, put_off: VecDeque::new() };
        (handle, Self { shared, session, queue, state, next: VecDeque::new() })
    }

    /// Handles messages until there are none.
    pub(super) async fn run(mut self) {
        while let Some(queued) = self.take().await {
            let token = self.state.begin(&self.shared.abort);
            let handled = AssertUnwindSafe(self.handle(queued, token)).catch_unwind().await;
            self.state.busy.store(0, Ordering::SeqCst);
            if handled.is_err() {
                // The delivery was dropped unsettled, so the ledger hands it out again and counts.
                tracing::error!(session = %self.session, "handling a message panicked");
            }
            if self.queue.is_empty() {
                self.state.told.store(false, Ordering::Relaxed);
            }
        }
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

    async fn handle(&mut self, queued: Queued, cancel: CancellationToken) {
        let Queued { number, delivery } = queued;
        let parsed = commands::parse(&delivery.message.content);
        if matches!(parsed, Parsed::Command(Command::New)) {
            return self.begin_anew(delivery).await;
        }
        if self.state.was_stopped(number) {
            return settle(&[delivery], Settle::Discard("stopped before it began".to_owned())).await;
        }
        if self.is_hopeless(&delivery).await {
            return self.give_up(delivery).await;
        }
        if matches!(parsed, Parsed::Command(Command::Branch)) {
            return self.branch(delivery).await;
        }
        let shared = self.shared.clone();
        let observer = Arc::new(BusObserver { shared: shared.clone(), message: delivery.message.clone() });
        let facts = facts_of(&delivery.message, &self.session);
        let entry = entry_of(&shared.agent, &delivery.message);
        let mut steering = LaneSteering {
            agent: &shared.agent,
            queue: &mut self.queue,
            state: &self.state,
            taken: Vec::new(),
            next: &mut self.next,
        };
        let request = TurnRequest {
            facts,
            entry,
            trace: turn_of(&delivery.message),
            observer,
            cancel,
            interrupt: shared.abort.clone(),
            steering: &mut steering,
        };
        let report = shared.agent.run_turn(request).await;
        let mut answered = std::mem::take(&mut steering.taken);
        match report {
            Ok(report) => {
                shared.forget_failures(&self.session);
                answered.insert(0, delivery);
                self.publish(&answered, report).await;
            }
            // The ledger hands the message out again, and the turn goes on from its journal.
            Err(AgentError::Interrupted) => drop(delivery),
            Err(error) => {
                // What was steered into the turn is journaled or comes again by itself.
                drop(answered);
                self.put_off(delivery, &error).await;
            }
        }
    }

    async fn begin_anew(&self, delivery: Delivery<InboundMessage>) {
        match self.shared.agent.reset(&self.session).await {
            Ok(()) => self.shared.answer(delivery, "New session started.".to_owned()).await,
            Err(error) => self.put_off(delivery, &error).await,
        }
    }

    async fn branch(&self, delivery: Delivery<InboundMessage>) {
        match self.shared.agent.branch(&self.session).await {
            Ok(None) => self.shared.answer(delivery, "There is nothing to copy yet.".to_owned()).await,
            Ok(Some(copy)) => {
                let answer = format!(
                    "This conversation goes on here. A copy of it is {copy}: go on with that at a terminal by\n`nanobot agent -s '{copy}'`"
                );
                self.shared.answer(delivery, answer).await;
            }
            Err(error) => self.put_off(delivery, &error).await,
        }
    }

    /// Publishes the visible end of a turn, then settles the messages it answered.
    async fn publish(&self, answered: &[Delivery<InboundMessage>], report: TurnReport) {
        if let (Some(text), Some(first)) = (report.visible, answered.first()) {
            let key = OutboundKey { turn: report.trace, position: 0 };
            let kind = match report.ended {
                TurnOutcome::Failed | TurnOutcome::Limited => OutboundKind::Notice,
                TurnOutcome::Replied | TurnOutcome::Suppressed | TurnOutcome::Stopped => OutboundKind::Final,
            };
            let mut reply = OutboundMessage::in_reply_to(&first.message, key, kind, text);
            reply.completes = report.stream;
            if let Err(error) = self.shared.bus.publish_outbound(reply).await {
                tracing::error!(%error, session = %self.session, "a reply could not be stored; it is recorded and comes again");
                return settle(answered, Settle::RetryIn(self.shared.settings.full_pause)).await;
            }
        }
        settle(answered, Settle::Ack).await;
    }

    /// The journal failed: say so once, try again later. A disk that is full or broken may stay so
    /// for long; that is no attempt of the message.
    async fn put_off(&self, delivery: Delivery<InboundMessage>, error: &AgentError) {
        let why = chain(error);
        tracing::error!(error = %why, session = %self.session, "a turn could not be recorded");
        let text = format!("I cannot record our conversation right now ({why}). I keep your message and try again.");
        let key = OutboundKey { turn: turn_of(&delivery.message), position: NOTICE_POSITION };
        // The ledger takes a key once, so the person reads this once however often it is tried.
        let notice = OutboundMessage::in_reply_to(&delivery.message, key, OutboundKind::Notice, text.clone());
        if self.shared.bus.publish_outbound(notice).await.is_err() && delivery.attempt == 1 {
            self.shared.notice(&delivery.message, &text);
        }
        let pause = self.shared.pause_after_failure(&self.session);
        let again = if error.is_transient() { Settle::PutOff(pause) } else { Settle::RetryIn(pause) };
        settle(&[delivery], again).await;
    }

    /// Whether it was tried too often. Every step that its turn has recorded is worth one more
    /// attempt, so that restarts do not use up those of a turn that gets on.
    async fn is_hopeless(&self, delivery: &Delivery<InboundMessage>) -> bool {
        let attempts = self.shared.settings.attempts;
        if delivery.attempt <= attempts {
            return false;
        }
        let steps = match delivery.message.journal_id() {
            Some(id) => self.shared.agent.steps_behind(&self.session, &id).await,
            None => 0,
        };
        delivery.attempt > attempts.saturating_add(steps)
    }

    async fn give_up(&self, delivery: Delivery<InboundMessage>) {
        let text = format!(
            "I tried {} times to handle this message and failed each time, so I put it aside. The log says why.",
            self.shared.settings.attempts
        );
        let key = OutboundKey { turn: turn_of(&delivery.message), position: 0 };
        let reply = OutboundMessage::in_reply_to(&delivery.message, key, OutboundKind::Notice, text);
        if let Err(error) = self.shared.bus.publish_outbound(reply).await {
            tracing::error!(%error, session = %self.session, "a notice could not be stored");
        }
        settle(&[delivery], Settle::Fail("handling it failed repeatedly".to_owned())).await;
    }
}

async fn settle(deliveries: &[Delivery<InboundMessage>], outcome: Settle) {
    for delivery in deliveries {
        if let Err(error) = delivery.settle(outcome.clone()).await {
            tracing::error!(%error, "a message could not be settled; it comes again");
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

fn facts_of(message: &InboundMessage, session: &SessionKey) -> TurnFacts {
    TurnFacts {
        session: session.clone(),
        channel: message.channel.clone(),
        chat_id: message.chat_id.clone(),
        message_id: message.id.clone(),
        delivery: message.delivery.clone(),
        metadata: message.metadata.clone(),
        origin: message.origin.clone(),
    }
}

fn entry_of(agent: &Agent, message: &InboundMessage) -> MessageEntry {
    let user = UserMessage { content: message.content.clone().into(), media: message.media.clone() };
    MessageEntry {
        inbound: message.journal_id(),
        runtime: Some(agent.runtime_block(&message.timestamp, &message.channel, &message.chat_id)),
        at: message.timestamp,
        ..MessageEntry::new(ChatMessage::User(user))
    }
}

/// Steers messages that come in while a turn runs into that turn. A command of the lane, and
/// everything behind it, waits for the turn's end.
struct LaneSteering<'a> {
    agent: &'a Agent,
    queue: &'a mut mpsc::Receiver<Queued>,
    state: &'a LaneState,
    taken: Vec<Delivery<InboundMessage>>,
    next: &'a mut VecDeque<Queued>,
}

#[async_trait]
impl Steering for LaneSteering<'_> {
    async fn take(&mut self) -> Vec<MessageEntry> {
        let mut entries = Vec::new();
        while self.next.is_empty() {
            let Ok(queued) = self.queue.try_recv() else { break };
            let is_text = commands::parse(&queued.delivery.message.content) == Parsed::Text;
            if !is_text || self.state.was_stopped(queued.number) {
                self.next.push_back(queued);
                break;
            }
            entries.push(entry_of(self.agent, &queued.delivery.message));
            self.taken.push(queued.delivery);
            self.state.busy.fetch_add(1, Ordering::SeqCst);
        }
        entries
    }
}

/// Offers what a turn tells to the chat it belongs to.
struct BusObserver {
    shared: Arc<Shared>,
    message: InboundMessage,
}

impl Observer for BusObserver {
    fn signal(&self, signal: Signal) {
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
