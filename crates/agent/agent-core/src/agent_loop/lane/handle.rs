//! The pump's handle of a lane: its queue, and whether it was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use nanobot_bus::Delivery;
use nanobot_types::{InboundMessage, MessageId};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use crate::agent_loop::waiting_line::WaitingLine;

/// A message in a lane.
#[derive(Debug)]
pub(crate) struct Queued {
    /// Sequence number of the message in its lane.
    pub(super) number: u64,
    pub(super) delivery: Delivery<InboundMessage>,
    /// Number of the current or next attempt.
    pub(super) attempt: u32,
    /// `true` once that attempt has begun in the ledger.
    pub(super) begun: bool,
}

/// The pump's handle of a lane.
#[derive(Debug)]
pub(crate) struct LaneHandle {
    queue: mpsc::Sender<Queued>,
    state: Arc<LaneState>,
    /// Sequence number of the newest message.
    newest: u64,
    /// Messages that found no room and will be redelivered; no later message overtakes them.
    line: WaitingLine,
}

/// A message that found no room.
#[derive(Debug)]
pub(crate) struct LaneRefusal {
    pub(crate) delivery: Delivery<InboundMessage>,
    /// `true` for the first refusal in the life of the lane.
    pub(crate) is_first: bool,
    /// Number of full lanes of messages before it.
    pub(crate) lanes_before: u32,
}

/// State shared by a lane and its handle.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    /// Cancels the running turn; replaced for every message.
    running: std::sync::Mutex<CancellationToken>,
    /// Number of messages being handled: 0, or 1 plus those steered into its turn.
    pub(super) busy: AtomicUsize,
    /// Messages up to this number arrived before the last stop and must not begin.
    stopped_upto: AtomicU64,
    /// Set once the person was notified that messages wait. A lane ends when none wait, so this
    /// happens once per lane.
    notified: AtomicBool,
}

impl LaneHandle {
    /// Creates the handle of a lane that reads from the other end of `queue`.
    pub(super) fn new(queue: mpsc::Sender<Queued>, state: Arc<LaneState>) -> Self {
        Self {
            queue,
            state,
            newest: 0,
            line: WaitingLine::default(),
        }
    }

    /// Puts a message into the lane. Returns it as a refusal if the lane is full, or if messages
    /// that were refused earlier have not been redelivered yet.
    pub(crate) fn offer(&mut self, delivery: Delivery<InboundMessage>) -> Option<LaneRefusal> {
        let id = delivery.message.journal_id();
        if id.as_ref().is_some_and(|id| !self.line.arrive(id)) {
            return Some(self.refuse(delivery, id));
        }
        self.newest += 1;
        let attempt = delivery.attempt;
        match self.queue.try_send(Queued {
            number: self.newest,
            delivery,
            attempt,
            begun: false,
        }) {
            Ok(()) => {
                id.iter().for_each(|id| self.line.remove(id));
                None
            }
            Err(TrySendError::Full(queued) | TrySendError::Closed(queued)) => {
                Some(self.refuse(queued.delivery, id))
            }
        }
    }

    fn refuse(&mut self, delivery: Delivery<InboundMessage>, id: Option<MessageId>) -> LaneRefusal {
        let before = id.map_or(0, |id| self.line.wait(&id));
        let lanes_before = before / u64::try_from(self.queue.max_capacity()).unwrap_or(u64::MAX);
        LaneRefusal {
            delivery,
            is_first: !self.state.notified.swap(true, Ordering::Relaxed),
            lanes_before: u32::try_from(lanes_before).unwrap_or(u32::MAX),
        }
    }

    /// Returns `true` while refused messages have yet to be redelivered.
    pub(crate) fn awaits_more(&self) -> bool {
        !self.line.is_empty()
    }

    /// Ends the running turn and discards the waiting messages. Returns the number of messages
    /// affected.
    pub(crate) fn stop(&self) -> usize {
        self.state.stopped_upto.store(self.newest, Ordering::SeqCst);
        self.state.token().cancel();
        self.count()
    }

    /// Returns the number of running and waiting messages.
    pub(crate) fn count(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity() + self.state.busy.load(Ordering::SeqCst)
    }
}

impl LaneState {
    fn token(&self) -> CancellationToken {
        self.running
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    pub(super) fn begin(&self, parent: &CancellationToken) -> CancellationToken {
        let token = parent.child_token();
        *self
            .running
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = token.clone();
        self.busy.store(1, Ordering::SeqCst);
        token
    }

    /// Returns `true` if the lane was stopped after this message arrived.
    pub(super) fn was_stopped(&self, number: u64) -> bool {
        number <= self.stopped_upto.load(Ordering::SeqCst)
    }
}
