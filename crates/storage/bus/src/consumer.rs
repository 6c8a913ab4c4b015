//! The consumers of a bus: one live consumer per queue, its wake-ups, and its pending lossy
//! messages.
//!
//! Decision: a consumer is woken and then asks; nothing is pushed to it. Pending entries stay in
//! the ledger ([`crate::Backlog`]) and not in memory, however slow a consumer is. Only lossy
//! messages are queued here, up to a bound. This module stores no entries and does not know their
//! content.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_types::{ChannelName, InboundMessage, OutboundMessage};
use tokio::sync::Notify;

use crate::{BusError, Queue, SettleOutcome};

/// Maximum number of lossy messages queued for one consumer.
const MAX_OFFERS: usize = 256;

/// One hand-out of one entry. It distinguishes what an earlier holder reports about the entry from
/// what the present holder reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handout {
    /// The entry's number. Numbers grow in the order of acceptance, over both queues.
    pub entry: u64,
    /// Serial number of the hand-out: unique within a process, never 0.
    pub serial: u64,
    /// The attempt number that the holder was given.
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
    /// Creates consumers of which none is live; `latest` is the number of the newest existing
    /// entry.
    #[must_use]
    pub fn new(latest: u64) -> Self {
        Self {
            latest: AtomicU64::new(latest),
            inbound: Arc::new(Consumer::new(Queue::Inbound)),
            outbound: Mutex::default(),
        }
    }

    /// Returns the consumer of inbound messages.
    pub fn inbound(&self) -> &Arc<Consumer<InboundMessage>> {
        &self.inbound
    }

    /// Returns the consumer of one channel's outbound messages.
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

    /// Notes that entry `entry` was accepted, and wakes its consumer. Must be called before the
    /// publisher gets its answer. `channel` is that of [`crate::Queued::consumer`].
    pub fn accepted(&self, entry: u64, channel: Option<&ChannelName>) {
        self.latest.fetch_max(entry, Ordering::AcqRel);
        self.wake(channel);
    }

    /// Wakes the consumer of `channel` because there may be an entry to hand out; `None` means the
    /// inbound consumer.
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

    /// Passes on a lossy message, ordered after every entry that was accepted before it. Drops it
    /// if the channel has no live consumer or the consumer's queue of lossy messages is full.
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

/// The consuming end of a queue, with a seat for one live consumer.
pub struct Consumer<T> {
    queue: Queue,
    waiting: Mutex<ConsumerState<T>>,
    wake: Notify,
}

struct ConsumerState<T> {
    live: bool,
    closed: bool,
    /// Set when the backlog may have changed since it was last queried.
    stale: bool,
    /// Lossy messages, each with the number of the newest entry accepted before it.
    offers: VecDeque<(u64, T)>,
    /// Deliveries dropped unsettled, to be given back to the backlog.
    returned: Vec<Handout>,
}

/// Next action of a consumer.
pub(crate) enum ConsumerStep<T> {
    /// Pass on this lossy message.
    Offer(T),
    /// Pass on the delivery at hand.
    Ready,
    /// Query the backlog, giving these handouts back first.
    Take(Vec<Handout>),
    /// Wait for a wake-up.
    Wait,
    /// Stop.
    Closed,
}

impl<T> Consumer<T> {
    fn new(queue: Queue) -> Self {
        let waiting = ConsumerState {
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

    /// Takes the only seat. It is free again when the returned value, or the subscription made from
    /// it, is dropped.
    ///
    /// # Errors
    /// Returns [`BusError::Consumed`] while the seat is taken, and [`BusError::Closed`] after the
    /// bus was closed.
    pub fn take_seat(self: &Arc<Self>) -> Result<ConsumerSeat<T>, BusError> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(BusError::Closed);
        }
        if waiting.live {
            return Err(BusError::Consumed { queue: self.queue });
        }
        waiting.live = true;
        waiting.stale = true;
        Ok(ConsumerSeat {
            consumer: Arc::clone(self),
        })
    }

    /// Returns a guard that the settlement of `handout` holds.
    pub fn watch(self: &Arc<Self>, handout: Handout) -> HandoutGuard<T> {
        HandoutGuard {
            consumer: Arc::clone(self),
            handout,
            ended: AtomicBool::new(false),
        }
    }

    fn give_back(&self, handout: Handout) {
        let mut waiting = lock(&self.waiting);
        // If there is no live consumer, the next subscription takes everything back at once.
        if waiting.live {
            waiting.returned.push(handout);
            waiting.stale = true;
            self.wake.notify_one();
        }
    }

    /// Wakes the consumer because its backlog changed.
    pub fn wake(&self) {
        lock(&self.waiting).stale = true;
        self.wake.notify_one();
    }

    fn offer(&self, after: u64, message: T) {
        let mut waiting = lock(&self.waiting);
        if waiting.live && waiting.offers.len() < MAX_OFFERS {
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

/// Gives its handout back when dropped, unless an outcome ended the delivery first.
pub struct HandoutGuard<T> {
    consumer: Arc<Consumer<T>>,
    handout: Handout,
    ended: AtomicBool,
}

impl<T> HandoutGuard<T> {
    /// Returns the handout.
    #[must_use]
    pub fn handout(&self) -> Handout {
        self.handout
    }

    /// Returns the consumer that received the handout.
    #[must_use]
    pub fn consumer(&self) -> &Arc<Consumer<T>> {
        &self.consumer
    }

    /// Notes that the ledger recorded `outcome`.
    pub fn recorded(&self, outcome: &SettleOutcome) {
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

/// The exclusive right to be the live consumer.
#[derive(Debug)]
pub struct ConsumerSeat<T> {
    consumer: Arc<Consumer<T>>,
}

impl<T> ConsumerSeat<T> {
    /// Returns the next action; `fetched` is the entry number of a delivery that was already
    /// fetched.
    pub(crate) fn step(&self, fetched: Option<u64>) -> ConsumerStep<T> {
        let mut waiting = lock(&self.consumer.waiting);
        if waiting.closed {
            return ConsumerStep::Closed;
        }
        match fetched {
            Some(entry) => match waiting.offers.pop_front_if(|(after, _)| *after < entry) {
                Some((_, message)) => ConsumerStep::Offer(message),
                None => ConsumerStep::Ready,
            },
            None if waiting.stale => {
                waiting.stale = false;
                ConsumerStep::Take(std::mem::take(&mut waiting.returned))
            }
            None => waiting
                .offers
                .pop_front()
                .map_or(ConsumerStep::Wait, |(_, message)| {
                    ConsumerStep::Offer(message)
                }),
        }
    }

    /// Keeps handouts for the next query of the backlog, because this one failed.
    pub(crate) fn return_later(&self, returned: Vec<Handout>) {
        lock(&self.consumer.waiting).returned.extend(returned);
    }

    /// Makes the next step query the backlog.
    pub(crate) fn mark_stale(&self) {
        lock(&self.consumer.waiting).stale = true;
    }

    /// Waits for a wake-up. One that came earlier is not missed.
    pub(crate) async fn woken(&self) {
        self.consumer.wake.notified().await;
    }
}

impl<T> Drop for ConsumerSeat<T> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.consumer.waiting);
        waiting.live = false;
        waiting.offers.clear();
        waiting.returned.clear();
    }
}

/// Locks `mutex`. A poisoned lock is used as is: no critical section here can leave its data half
/// changed when it panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
