//! What the pump holds of a lane: its queue, and whether it was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use nanobot_bus::Delivery;
use nanobot_types::{InboundMessage, MessageId};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use crate::agent_loop::line::WaitingLine;

/// A message in a lane.
#[derive(Debug)]
pub(crate) struct Queued {
    /// Its place in the order of all that ever entered the lane.
    pub(super) number: u64,
    pub(super) delivery: Delivery<InboundMessage>,
    /// The attempt that is made of it, or is next.
    pub(super) attempt: u32,
    /// The ledger has counted that attempt.
    pub(super) begun: bool,
}

/// What the pump holds of a lane.
#[derive(Debug)]
pub(crate) struct LaneHandle {
    queue: mpsc::Sender<Queued>,
    state: Arc<LaneState>,
    /// The number of the newest message.
    newest: u64,
    /// Messages that found no room and come again: nobody overtakes them.
    line: WaitingLine,
}

/// A message that found no room.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) delivery: Delivery<InboundMessage>,
    /// It is the first since the lane had room.
    pub(crate) is_first: bool,
    /// How many times the lane has to be emptied before there can be room for it.
    pub(crate) lanes_before: u32,
}

/// What a lane and its handle share.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    /// Ends the turn that runs; a new token with every message.
    running: std::sync::Mutex<CancellationToken>,
    /// Messages that are handled now: 0 or 1 and those steered into its turn.
    pub(super) busy: AtomicUsize,
    /// Messages up to this number came before the last stop: they are not begun.
    stopped_upto: AtomicU64,
    /// The person was told that messages wait; once in the life of a lane, which is over when none do.
    told: AtomicBool,
}

impl LaneHandle {
    /// The handle of a lane that takes from the other end of `queue`.
    pub(super) fn new(queue: mpsc::Sender<Queued>, state: Arc<LaneState>) -> Self {
        Self {
            queue,
            state,
            newest: 0,
            line: WaitingLine::default(),
        }
    }

    /// Puts a message in, or gives it back refused: the lane is full, or others that were refused before it
    /// have not come again.
    pub(crate) fn offer(&mut self, delivery: Delivery<InboundMessage>) -> Option<Refusal> {
        let id = delivery.message.journal_id();
        if id.as_ref().is_some_and(|id| !self.line.comes(id)) {
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
                id.iter().for_each(|id| self.line.leave(id));
                None
            }
            Err(TrySendError::Full(queued) | TrySendError::Closed(queued)) => {
                Some(self.refuse(queued.delivery, id))
            }
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
    pub(crate) fn awaits_more(&self) -> bool {
        !self.line.is_empty()
    }

    /// Ends the running turn and discards what waits; how many messages that is.
    pub(crate) fn stop(&self) -> usize {
        self.state.stopped_upto.store(self.newest, Ordering::SeqCst);
        self.state.token().cancel();
        self.count()
    }

    /// Messages that are at work or wait.
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

    /// Whether the lane was stopped after this message came.
    pub(super) fn was_stopped(&self, number: u64) -> bool {
        number <= self.stopped_upto.load(Ordering::SeqCst)
    }
}
