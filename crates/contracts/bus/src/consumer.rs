//! Who consumes what: one live consumer per queue, how it is woken, and what waits for it in memory.
//!
//! Decision: a consumer is woken, then asks; nothing is pushed to it. So what waits stays in the
//! ledger ([`crate::Backlog`]), and memory holds none of it, whoever is slow. Only lossy messages
//! wait here, up to a bound. It stores nothing and knows no entry's content.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_types::{ChannelName, InboundMessage, OutboundMessage};
use tokio::sync::Notify;

use crate::{BusError, Queue, Settle};

/// How many lossy messages may wait for one consumer.
const OFFERS: usize = 256;

/// One handing-out of one entry: what an earlier holder says about it is told apart from what the
/// present one says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handout {
    /// The entry: numbers grow in the order of acceptance over both queues.
    pub entry: u64,
    /// The handing-out: never the same twice in a process, never 0.
    pub serial: u64,
    /// The attempt that its holder was told it would be.
    pub attempt: u32,
}

/// The consumers of a bus.
#[derive(Debug)]
pub struct Consumers {
    latest: AtomicU64,
    inbound: Arc<Consumer<InboundMessage>>,
    outbound: Mutex<OutboundConsumers>,
}

#[derive(Debug, Default)]
struct OutboundConsumers {
    closed: bool,
    by_channel: HashMap<ChannelName, Arc<Consumer<OutboundMessage>>>,
}

impl Consumers {
    /// Nobody consumes yet; `latest` is the number of the newest entry that is there already.
    #[must_use]
    pub fn new(latest: u64) -> Self {
        Self {
            latest: AtomicU64::new(latest),
            inbound: Arc::new(Consumer::new(Queue::Inbound)),
            outbound: Mutex::default(),
        }
    }

    /// The consumer of inbound messages.
    pub fn inbound(&self) -> &Arc<Consumer<InboundMessage>> {
        &self.inbound
    }

    /// The consumer of one channel's outbound messages.
    pub fn outbound(&self, channel: &ChannelName) -> Arc<Consumer<OutboundMessage>> {
        let mut outbound = lock(&self.outbound);
        if let Some(known) = outbound.by_channel.get(channel) {
            return Arc::clone(known);
        }
        let consumer = Arc::new(Consumer::new(Queue::Outbound));
        if outbound.closed {
            consumer.close();
        }
        outbound
            .by_channel
            .insert(channel.clone(), Arc::clone(&consumer));
        consumer
    }

    /// Tells that entry `entry` was accepted, before its publisher learns of it; `channel` as in
    /// [`crate::Queued::consumer`].
    pub fn accepted(&self, entry: u64, channel: Option<&ChannelName>) {
        self.latest.fetch_max(entry, Ordering::AcqRel);
        self.wake(channel);
    }

    /// Tells that there may be something to hand out.
    pub fn wake(&self, channel: Option<&ChannelName>) {
        match channel {
            None => self.inbound.wake(),
            Some(channel) => {
                let consumer = lock(&self.outbound).by_channel.get(channel).cloned();
                if let Some(consumer) = consumer {
                    consumer.wake();
                }
            }
        }
    }

    /// Passes on a lossy message, behind every entry that was accepted before it. Drops it when
    /// nobody consumes the channel or too many wait.
    pub fn offer(&self, message: OutboundMessage) {
        let consumer = lock(&self.outbound)
            .by_channel
            .get(&message.channel)
            .cloned();
        if let Some(consumer) = consumer {
            consumer.offer(self.latest.load(Ordering::Acquire), message);
        }
    }

    /// Ends every subscription and refuses new ones.
    pub fn close(&self) {
        self.inbound.close();
        let mut outbound = lock(&self.outbound);
        outbound.closed = true;
        outbound
            .by_channel
            .values()
            .for_each(|consumer| consumer.close());
    }
}

/// A queue's end: one seat for one live consumer.
pub struct Consumer<T> {
    queue: Queue,
    waiting: Mutex<Waiting<T>>,
    wake: Notify,
}

struct Waiting<T> {
    live: bool,
    closed: bool,
    /// The backlog may hold something that was not there at the last look.
    stale: bool,
    /// Lossy messages, each with the newest entry that was accepted before it.
    offers: VecDeque<(u64, T)>,
    /// Deliveries dropped unsettled, for the backlog to take back.
    returned: Vec<Handout>,
}

/// What a consumer should do next.
pub(crate) enum Step<T> {
    /// Pass on this lossy message.
    Offer(T),
    /// Pass on the delivery at hand.
    Ready,
    /// Ask the backlog, giving these back first.
    Take(Vec<Handout>),
    /// Wait.
    Wait,
    /// Stop.
    Closed,
}

impl<T> Consumer<T> {
    fn new(queue: Queue) -> Self {
        let waiting = Waiting {
            live: false,
            closed: false,
            stale: true,
            offers: VecDeque::new(),
            returned: Vec::new(),
        };
        Self {
            queue,
            waiting: Mutex::new(waiting),
            wake: Notify::new(),
        }
    }

    /// Takes the one seat, until it or the subscription made from it is dropped.
    ///
    /// # Errors
    /// [`BusError::Consumed`] while somebody has it, [`BusError::Closed`].
    pub fn take_seat(self: &Arc<Self>) -> Result<Seat<T>, BusError> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(BusError::Closed);
        }
        if waiting.live {
            return Err(BusError::Consumed { queue: self.queue });
        }
        waiting.live = true;
        waiting.stale = true;
        Ok(Seat {
            consumer: Arc::clone(self),
        })
    }

    /// Watches over a handout, for its settlement to hold.
    pub fn watch(self: &Arc<Self>, handout: Handout) -> HandoutGuard<T> {
        HandoutGuard {
            consumer: Arc::clone(self),
            handout,
            ended: AtomicBool::new(false),
        }
    }

    fn give_back(&self, handout: Handout) {
        let mut waiting = lock(&self.waiting);
        // Without a live consumer, the next subscription takes everything back at once.
        if waiting.live {
            waiting.returned.push(handout);
            waiting.stale = true;
            self.wake.notify_one();
        }
    }

    /// Tells the consumer that its backlog changed.
    pub fn wake(&self) {
        lock(&self.waiting).stale = true;
        self.wake.notify_one();
    }

    fn offer(&self, after: u64, message: T) {
        let mut waiting = lock(&self.waiting);
        if waiting.live && waiting.offers.len() < OFFERS {
            waiting.offers.push_back((after, message));
            self.wake.notify_one();
        }
    }

    fn close(&self) {
        lock(&self.waiting).closed = true;
        self.wake.notify_one();
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// Gives its handout back when it is dropped, unless an outcome ended the delivery before.
pub struct HandoutGuard<T> {
    consumer: Arc<Consumer<T>>,
    handout: Handout,
    ended: AtomicBool,
}

impl<T> HandoutGuard<T> {
    /// The handout.
    #[must_use]
    pub fn handout(&self) -> Handout {
        self.handout
    }

    /// The consumer that it was handed to.
    #[must_use]
    pub fn consumer(&self) -> &Arc<Consumer<T>> {
        &self.consumer
    }

    /// Tells that the ledger recorded `outcome`.
    pub fn recorded(&self, outcome: &Settle) {
        if outcome.ends_delivery() {
            self.ended.store(true, Ordering::Release);
        }
    }
}

impl<T> Drop for HandoutGuard<T> {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Acquire) {
            self.consumer.give_back(self.handout);
        }
    }
}

impl<T> fmt::Debug for HandoutGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoutGuard")
            .field("handout", &self.handout)
            .finish_non_exhaustive()
    }
}

/// The right to be the one live consumer.
#[derive(Debug)]
pub struct Seat<T> {
    consumer: Arc<Consumer<T>>,
}

impl<T> Seat<T> {
    /// Decides what comes next; `at_hand` is the entry of a delivery that was fetched already.
    pub(crate) fn step(&self, at_hand: Option<u64>) -> Step<T> {
        let mut waiting = lock(&self.consumer.waiting);
        if waiting.closed {
            return Step::Closed;
        }
        match at_hand {
            Some(entry) => match waiting.offers.pop_front_if(|(after, _)| *after < entry) {
                Some((_, message)) => Step::Offer(message),
                None => Step::Ready,
            },
            None if waiting.stale => {
                waiting.stale = false;
                Step::Take(std::mem::take(&mut waiting.returned))
            }
            None => waiting
                .offers
                .pop_front()
                .map_or(Step::Wait, |(_, message)| Step::Offer(message)),
        }
    }

    /// Keeps handouts for the next look, because this one failed.
    pub(crate) fn keep(&self, returned: Vec<Handout>) {
        lock(&self.consumer.waiting).returned.extend(returned);
    }

    /// Makes the next step look at the backlog.
    pub(crate) fn look_again(&self) {
        lock(&self.consumer.waiting).stale = true;
    }

    /// Waits for a wake-up; one that came before is not missed.
    pub(crate) async fn woken(&self) {
        self.consumer.wake.notified().await;
    }
}

impl<T> Drop for Seat<T> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.consumer.waiting);
        waiting.live = false;
        waiting.offers.clear();
        waiting.returned.clear();
    }
}

/// Nothing here is left half done by a panic, so a poisoned lock is as good as any.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
