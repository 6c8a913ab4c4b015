//! The durable bus on the state database.
//!
//! Decision: an entry is a row and nothing else; which entries are with a consumer is a column
//! too, so memory holds a few per consumer however long the queue is. Accepting and settling
//! survive the loss of power; handing out and beginning a turn are only counted, so they survive
//! the end of the process and cost no sync. What was with a consumer when the process ended comes back when the next one
//! subscribes.

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
    Accepted, Backlog, Bus, BusError, Consumer, Consumers, Delivery, Handout, HandoutGuard, Look,
    MOST_HANDED_OUT, Queue, Queued, REDELIVERY_DELAY, Settle, Settlement, Subscription,
};
use nanobot_types::{ChannelName, InboundMessage, OutboundMessage};

use crate::clock::millis;
use crate::database::Durability;
use crate::{StateDb, StateError};
use rows::Place;

/// A message that was to wait across a restart waits no longer than this from then on, so that a
/// clock that was set back does not hold it for days.
const LONGEST_WAIT_ACROSS_RESTART: Duration = Duration::from_secs(60 * 60);

/// How many settled entries one transaction forgets, so that it keeps nobody waiting.
const PRUNE_BATCH: usize = 500;

/// Queues, ledger and claims that outlive the process. Clones share it; a database carries one.
#[derive(Clone, Debug)]
pub struct SqliteBus {
    db: StateDb,
    consumers: Arc<Consumers>,
    serials: Arc<AtomicU64>,
}

impl SqliteBus {
    /// The bus in `db`, with everything that was left unsettled. One at a time for a database.
    ///
    /// # Errors
    /// [`StateError::Database`], [`StateError::Closed`].
    pub async fn open(db: StateDb) -> Result<Self, StateError> {
        let now = db.clock().now();
        let latest_due = now.saturating_add(millis(LONGEST_WAIT_ACROSS_RESTART));
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

    /// Ends every subscription, finishes what was asked before, and closes the database.
    pub async fn close(&self) {
        self.consumers.close();
        self.db.close().await;
    }

    /// Forgets entries that were settled longer ago than `age`, and with them that they were
    /// there: the same message would be new again. Returns how many.
    ///
    /// # Errors
    /// [`BusError::Store`]: some may be forgotten, the others are kept.
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
        let place = Place::of::<T>(channel.as_ref());
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
        let place = Place::of::<T>(channel);
        let lane = Lane {
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

/// What one consumer sees of the table.
struct Lane<T> {
    bus: SqliteBus,
    consumer: Arc<Consumer<T>>,
    place: Place,
}

#[async_trait]
impl<T: Queued> Backlog<T> for Lane<T> {
    async fn take(&self, returned: &[Handout]) -> Result<Look<T>, BusError> {
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
        let deliver = |(handout, message, progress): rows::Taken<T>| {
            let held = Held {
                bus: self.bus.clone(),
                guard: self.consumer.watch(handout),
            };
            (
                handout.entry,
                Delivery::durable(message, progress, Box::new(held)),
            )
        };
        let deliveries = taken.into_iter().map(deliver).collect();
        Ok(Look {
            deliveries,
            next_due: next_due.map(|due| clock.instant(due)),
        })
    }
}

/// A delivery that is out.
struct Held<T> {
    bus: SqliteBus,
    guard: HandoutGuard<T>,
}

#[async_trait]
impl<T: Queued> Settlement for Held<T> {
    async fn settle(&self, outcome: Settle) -> Result<(), BusError> {
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

/// What an outcome survives. How often a person's message was tried, and how long it waits, is
/// only counted: its turn is in the journal. What may be at a platform must not be forgotten.
fn durability(queue: Queue, outcome: &Settle) -> Durability {
    match queue {
        Queue::Inbound if !outcome.is_terminal() => Durability::Process,
        Queue::Inbound | Queue::Outbound => Durability::Power,
    }
}
