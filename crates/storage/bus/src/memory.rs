//! In-process bus for embedders and tests: it keeps every promise of the contract except that
//! nothing outlives the process.
//!
//! Decision: entries are kept by value under a short lock; the rules of order, wake-up and
//! settlement are the shared ones. Open entries are bounded (publishing then returns
//! [`BusError::Full`]). The last few thousand settled entries are remembered together with their
//! names, so a redelivered message is recognised as a duplicate for about as long. Time follows
//! tokio's clock.

mod claims;
mod table;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_types::{ChannelName, InboundMessage, OutboundMessage};

use crate::consumer::lock;
use crate::{
    Accepted, Backlog, BacklogBatch, Bus, BusError, Claims, Consumer, Consumers, Delivery, Handout,
    HandoutGuard, Lease, Ledger, LedgerEntry, LedgerFilter, Queue, Queued, SettleOutcome,
    Settlement, Subscription,
};
use claims::ClaimTable;
use table::QueueTable;

/// Default maximum number of open entries per queue.
const BOUND: usize = 1024;

/// A bus that lives and ends with its process. Clones share their state.
#[derive(Clone)]
pub struct MemoryBus {
    shared: Arc<MemoryBusState>,
}

struct MemoryBusState {
    inbound: Mutex<QueueTable<InboundMessage>>,
    outbound: Mutex<QueueTable<OutboundMessage>>,
    claims: Mutex<ClaimTable>,
    consumers: Consumers,
    entries: AtomicU64,
    serials: AtomicU64,
}

impl MemoryBus {
    /// Creates an empty bus that takes 1024 unsettled messages per queue.
    #[must_use]
    pub fn new() -> Self {
        Self::bounded(BOUND)
    }

    /// Creates an empty bus that takes `bound` unsettled messages per queue.
    #[must_use]
    pub fn bounded(bound: usize) -> Self {
        let shared = MemoryBusState {
            inbound: Mutex::new(QueueTable::new(bound)),
            outbound: Mutex::new(QueueTable::new(bound)),
            claims: Mutex::default(),
            consumers: Consumers::new(0),
            entries: AtomicU64::new(0),
            serials: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Ends every subscription. Unsettled messages stay in the ledger.
    pub fn close(&self) {
        self.shared.consumers.close();
    }

    fn publish<T: HasTable>(&self, mut message: T) -> Result<Accepted, BusError> {
        message.complete();
        let channel = message.consumer().cloned();
        let accepted =
            lock(T::table(&self.shared)).accept(message, || next(&self.shared.entries))?;
        let Some(entry) = accepted else {
            return Ok(Accepted::Duplicate);
        };
        self.shared.consumers.accepted(entry, channel.as_ref());
        Ok(Accepted::New)
    }

    fn subscribe<T: HasTable>(
        &self,
        consumer: Arc<Consumer<T>>,
        channel: Option<ChannelName>,
    ) -> Result<Subscription<T>, BusError> {
        let seat = consumer.take_seat()?;
        lock(T::table(&self.shared)).take_back_all(channel.as_ref());
        Ok(seat.subscribe(MemoryBacklog {
            shared: Arc::clone(&self.shared),
            consumer,
            channel,
        }))
    }
}

impl Default for MemoryBus {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBus").finish_non_exhaustive()
    }
}

/// Selects the table that keeps a type of message.
trait HasTable: Queued {
    fn table(shared: &MemoryBusState) -> &Mutex<QueueTable<Self>>;
}

impl HasTable for InboundMessage {
    fn table(shared: &MemoryBusState) -> &Mutex<QueueTable<Self>> {
        &shared.inbound
    }
}

impl HasTable for OutboundMessage {
    fn table(shared: &MemoryBusState) -> &Mutex<QueueTable<Self>> {
        &shared.outbound
    }
}

/// One consumer's view of a table.
struct MemoryBacklog<T> {
    shared: Arc<MemoryBusState>,
    consumer: Arc<Consumer<T>>,
    channel: Option<ChannelName>,
}

#[async_trait]
impl<T: HasTable> Backlog<T> for MemoryBacklog<T> {
    async fn take(&self, returned: &[Handout]) -> Result<BacklogBatch<T>, BusError> {
        let channel = self.channel.as_ref();
        let mut table = lock(T::table(&self.shared));
        for handout in returned {
            table.take_back(*handout);
        }
        let taken = table.hand_out(channel, || next(&self.shared.serials));
        let deliver = |(handout, message, progress): (Handout, T, _)| {
            let held = MemorySettlement {
                shared: Arc::clone(&self.shared),
                guard: self.consumer.watch(handout),
            };
            (
                handout.entry,
                Delivery::durable(message, progress, Box::new(held)),
            )
        };
        let deliveries = taken.map(deliver).into_iter().collect();
        Ok(BacklogBatch {
            deliveries,
            next_due: table.next_due(channel),
        })
    }
}

/// A delivery that is out, with the guard that returns it.
struct MemorySettlement<T> {
    shared: Arc<MemoryBusState>,
    guard: HandoutGuard<T>,
}

#[async_trait]
impl<T: HasTable> Settlement for MemorySettlement<T> {
    async fn settle(&self, outcome: SettleOutcome) -> Result<(), BusError> {
        lock(T::table(&self.shared)).settle(self.guard.handout(), &outcome)?;
        self.guard.recorded(&outcome);
        if outcome.comes_again_in().is_some() {
            self.guard.consumer().wake();
        }
        Ok(())
    }
}

#[async_trait]
impl Bus for MemoryBus {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<Accepted, BusError> {
        self.publish(message)
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<Accepted, BusError> {
        self.publish(message)
    }

    async fn inbound(&self) -> Result<Subscription<InboundMessage>, BusError> {
        self.subscribe(Arc::clone(self.shared.consumers.inbound()), None)
    }

    async fn outbound(
        &self,
        channel: &ChannelName,
    ) -> Result<Subscription<OutboundMessage>, BusError> {
        self.subscribe(
            self.shared.consumers.outbound(channel),
            Some(channel.clone()),
        )
    }

    fn offer(&self, message: OutboundMessage) {
        self.shared.consumers.offer(message);
    }
}

#[async_trait]
impl Ledger for MemoryBus {
    async fn list(
        &self,
        queue: Queue,
        filter: LedgerFilter,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, BusError> {
        Ok(match queue {
            Queue::Inbound => lock(&self.shared.inbound).list(filter, limit),
            Queue::Outbound => lock(&self.shared.outbound).list(filter, limit),
        })
    }

    async fn show(&self, id: &str) -> Result<LedgerEntry, BusError> {
        let number = number(id)?;
        let inbound = lock(&self.shared.inbound).show(number);
        inbound
            .or_else(|| lock(&self.shared.outbound).show(number))
            .ok_or_else(|| BusError::Unknown { id: id.to_owned() })
    }

    async fn retry(&self, id: &str) -> Result<(), BusError> {
        let number = number(id)?;
        let inbound = lock(&self.shared.inbound).retry(number);
        let channel = match inbound {
            Err(BusError::Unknown { .. }) => lock(&self.shared.outbound).retry(number)?,
            known => known?,
        };
        self.shared.consumers.wake(channel.as_ref());
        Ok(())
    }

    async fn discard(&self, id: &str) -> Result<(), BusError> {
        let number = number(id)?;
        let inbound = lock(&self.shared.inbound).discard(number);
        match inbound {
            Err(BusError::Unknown { .. }) => lock(&self.shared.outbound).discard(number),
            known => known,
        }
    }
}

#[async_trait]
impl Claims for MemoryBus {
    async fn claim_once(&self, slot: &str) -> Result<bool, BusError> {
        Ok(lock(&self.shared.claims).claim_once(slot))
    }

    async fn lease(
        &self,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, BusError> {
        Ok(lock(&self.shared.claims).lease(name, owner, ttl))
    }

    async fn release(&self, name: &str, owner: &str) -> Result<(), BusError> {
        lock(&self.shared.claims).release(name, owner);
        Ok(())
    }
}

/// Parses the entry number from a ledger id.
fn number(id: &str) -> Result<u64, BusError> {
    id.parse()
        .map_err(|_not_a_number| BusError::Unknown { id: id.to_owned() })
}

/// Returns the next number of a sequence that starts at 1.
fn next(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed).saturating_add(1)
}
