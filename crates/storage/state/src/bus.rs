//! The durable bus on the state database.
//!
//! Decision: an entry is a row and nothing else. Which entries are in flight is a column too, so
//! memory holds only a few entries per consumer, however long the queue is. Accepting and settling
//! a message survive a power cut. Handing out and beginning a turn are only counted, so they
//! survive the end of the process and cost no sync. Entries that were in flight when the process
//! ended are redelivered when the next one subscribes.

mod claims;
#[cfg(test)]
mod faults;
mod ledger;
mod rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_bus::{
    Accepted, Backlog, BacklogBatch, Bus, BusError, Consumer, Consumers, Delivery, Handout,
    HandoutGuard, MOST_HANDED_OUT, Queue, Queued, REDELIVERY_DELAY, SettleOutcome, Settlement,
    Subscription,
};
use nanobot_types::{ChannelName, InboundMessage, OutboundMessage};

use crate::clock::millis;
use crate::database::Durability;
use crate::{StateDb, StateError};
use rows::QueueKey;

/// Longest remaining wait of a delayed message after a restart, so that a clock that was set back
/// does not hold it for days.
const MAX_WAIT_ACROSS_RESTART: Duration = Duration::from_secs(60 * 60);

/// Maximum number of settled entries pruned in one transaction, so that other work does not have to
/// wait for long.
const PRUNE_BATCH: usize = 500;

/// Persistent queues, ledger and claims. Clones share them. A database supports one bus at a time.
#[derive(Clone, Debug)]
pub struct SqliteBus {
    db: StateDb,
    consumers: Arc<Consumers>,
    serials: Arc<AtomicU64>,
}

impl SqliteBus {
    /// Opens the bus in `db`, with every entry that is not settled yet. Only one bus may use a
    /// database at a time.
    ///
    /// # Errors
    /// Returns [`StateError::Database`] if the ledger cannot be read, and [`StateError::Closed`] if
    /// `db` is closed.
    pub async fn open(db: StateDb) -> Result<Self, StateError> {
        let now = db.clock().now();
        let latest_due = now.saturating_add(millis(MAX_WAIT_ACROSS_RESTART));
        let latest = db
            .write(Durability::Process, move |connection| {
                rows::resume(connection, latest_due)
            })
            .await
            .map_err(|refusal| refusal.state(db.path(), "read the ledger"))?;
        Ok(Self {
            db,
            consumers: Arc::new(Consumers::new(latest)),
            serials: Arc::default(),
        })
    }

    /// Ends all subscriptions, completes the operations in progress, and closes the database.
    pub async fn close(&self) {
        self.consumers.close();
        self.db.close().await;
    }

    /// Deletes entries that were settled longer ago than `age`, and returns their number. A deleted
    /// entry no longer takes part in deduplication: the same message would be new again.
    ///
    /// # Errors
    /// Returns [`BusError::Store`] or [`BusError::Closed`]. Some entries may be deleted then; the
    /// others are kept.
    pub async fn prune(&self, age: Duration) -> Result<usize, BusError> {
        let before = self.db.clock().now().saturating_sub(millis(age));
        let mut forgotten: usize = 0;
        loop {
            let batch = self
                .db
                .write(Durability::Process, move |connection| {
                    rows::prune(connection, before, PRUNE_BATCH)
                })
                .await
                .map_err(|refusal| refusal.bus("forget settled entries"))?;
            forgotten = forgotten.saturating_add(batch);
            if batch < PRUNE_BATCH {
                return Ok(forgotten);
            }
        }
    }

    async fn publish<T: Queued>(&self, mut message: T) -> Result<Accepted, BusError> {
        const ACTION: &str = "accept a message";
        message.complete();
        let body = serde_json::to_string(&message).map_err(|source| BusError::Store {
            action: ACTION,
            source: Box::new(source),
        })?;
        let channel = message.consumer().cloned();
        let place = QueueKey::of::<T>(channel.as_ref());
        let consumers = Arc::clone(&self.consumers);
        let entry = self
            .db
            .write_then(
                Durability::Power,
                move |connection| rows::accept(connection, &place, &message.name(), &body),
                move |entry| {
                    if let Some(entry) = entry {
                        consumers.accepted(*entry, channel.as_ref());
                    }
                },
            )
            .await
            .map_err(|refusal| refusal.bus(ACTION))?;
        Ok(if entry.is_some() {
            Accepted::New
        } else {
            Accepted::Duplicate
        })
    }

    async fn subscribe<T: Queued>(
        &self,
        consumer: Arc<Consumer<T>>,
        channel: Option<&ChannelName>,
    ) -> Result<Subscription<T>, BusError> {
        let seat = consumer.take_seat()?;
        let place = QueueKey::of::<T>(channel);
        let lane = SqliteBacklog {
            bus: self.clone(),
            consumer,
            place: place.clone(),
        };
        self.db
            .write(Durability::Process, move |connection| {
                rows::take_back_all(connection, &place)
            })
            .await
            .map_err(|refusal| refusal.bus("begin to consume"))?;
        Ok(seat.subscribe(lane))
    }
}

#[async_trait]
impl Bus for SqliteBus {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<Accepted, BusError> {
        self.publish(message).await
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<Accepted, BusError> {
        self.publish(message).await
    }

    async fn inbound(&self) -> Result<Subscription<InboundMessage>, BusError> {
        self.subscribe(Arc::clone(self.consumers.inbound()), None)
            .await
    }

    async fn outbound(
        &self,
        channel: &ChannelName,
    ) -> Result<Subscription<OutboundMessage>, BusError> {
        self.subscribe(self.consumers.outbound(channel), Some(channel))
            .await
    }

    fn offer(&self, message: OutboundMessage) {
        self.consumers.offer(message);
    }
}

/// One consumer's view of the table.
struct SqliteBacklog<T> {
    bus: SqliteBus,
    consumer: Arc<Consumer<T>>,
    place: QueueKey,
}

#[async_trait]
impl<T: Queued> Backlog<T> for SqliteBacklog<T> {
    async fn take(&self, returned: &[Handout]) -> Result<BacklogBatch<T>, BusError> {
        let clock = self.bus.db.clock();
        let (now, again) = (clock.now(), clock.after(REDELIVERY_DELAY));
        let (place, returned, serials) = (
            self.place.clone(),
            returned.to_vec(),
            Arc::clone(&self.bus.serials),
        );
        let (taken, next_due) = self
            .bus
            .db
            .write(Durability::Process, move |connection| {
                for handout in returned {
                    rows::take_back(connection, handout, again)?;
                }
                let serial = || serials.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                let taken = rows::hand_out::<T>(connection, &place, now, MOST_HANDED_OUT, serial)?;
                Ok((taken, rows::next_due(connection, &place)?))
            })
            .await
            .map_err(|refusal| refusal.bus("hand out messages"))?;
        let deliver = |(handout, message, progress): rows::TakenRow<T>| {
            let held = SqliteSettlement {
                bus: self.bus.clone(),
                guard: self.consumer.watch(handout),
            };
            (
                handout.entry,
                Delivery::durable(message, progress, Box::new(held)),
            )
        };
        let deliveries = taken.into_iter().map(deliver).collect();
        Ok(BacklogBatch {
            deliveries,
            next_due: next_due.map(|due| clock.instant(due)),
        })
    }
}

/// A delivery in flight.
struct SqliteSettlement<T> {
    bus: SqliteBus,
    guard: HandoutGuard<T>,
}

#[async_trait]
impl<T: Queued> Settlement for SqliteSettlement<T> {
    async fn settle(&self, outcome: SettleOutcome) -> Result<(), BusError> {
        let clock = self.bus.db.clock();
        let now = clock.now();
        let due = outcome.comes_again_in().map(|delay| clock.after(delay));
        let handout = self.guard.handout();
        let consumer = Arc::clone(self.guard.consumer());
        let said = outcome.clone();
        self.bus
            .db
            .write_then(
                durability(T::QUEUE, &outcome),
                move |connection| rows::settle(connection, T::QUEUE, handout, &said, due, now),
                move |settled| {
                    if settled.is_ok() && due.is_some() {
                        consumer.wake();
                    }
                },
            )
            .await
            .map_err(|refusal| refusal.bus("record an outcome"))??;
        self.guard.recorded(&outcome);
        Ok(())
    }
}

/// Returns the durability that an outcome needs. The attempts and delays of an inbound message are
/// only counted, because its turn is in the journal. An outbound message that may have reached a
/// platform must not be forgotten.
fn durability(queue: Queue, outcome: &SettleOutcome) -> Durability {
    match queue {
        Queue::Inbound if !outcome.is_terminal() => Durability::Process,
        Queue::Inbound | Queue::Outbound => Durability::Power,
    }
}
