//! The bus: two queues whose messages are settled, never lost.
//!
//! Decision: a queue is a ledger. Publishing returns when the message is durable; a consumer
//! receives a [`Delivery`] and settles it; an unsettled message is delivered again. The
//! implementation defines what "durable" means: memory ([`MemoryBus`]), a file or a cluster. The
//! rules are the same for all, and one conformance suite in `nanobot-testkit` checks them.
//!
//! Next to the traits there are three parts for implementers, so that the subtle rules are written
//! once: [`EntryProgress`] (the state machine of an entry), [`Queued`] (message identity) and
//! [`Consumers`] (one live consumer, wake-ups, and interleaved lossy messages).
//!
//! ```
//! use nanobot_bus::{Bus, MemoryBus, SettleOutcome};
//! use nanobot_types::InboundMessage;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bus = MemoryBus::new();
//! bus.publish_inbound(InboundMessage::text("cli", "ann", "direct", "hello")).await?;
//! let delivery = bus.inbound().await?.next().await.ok_or("no message")?;
//! assert_eq!(delivery.message.content, "hello");
//! delivery.settle(SettleOutcome::Ack).await?;
//! # Ok(())
//! # }
//! ```

mod claims;
mod consumer;
mod delivery;
mod events;
mod feed;
mod ledger;
mod memory;
mod progress;
mod queued;

use async_trait::async_trait;
use nanobot_types::{ChannelName, InboundMessage, OutboundMessage};

pub use claims::{Claims, Lease};
pub use consumer::{Consumer, ConsumerSeat, Consumers, Handout, HandoutGuard};
pub use delivery::{Delivery, DeliveryProgress, SettleOutcome, Settlement, Subscription};
pub use events::EventFeed;
pub use feed::{Backlog, BacklogBatch, LONGEST_DELAY, MOST_HANDED_OUT, REDELIVERY_DELAY};
pub use ledger::{DISCARDED, EntryState, Ledger, LedgerEntry, LedgerFilter, Queue};
pub use memory::MemoryBus;
pub use progress::EntryProgress;
pub use queued::Queued;

/// Errors of the bus.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The underlying store failed; the message is not accepted.
    #[error("the message store failed while trying to {action}")]
    Store {
        /// The action that failed.
        action: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The queue is at its bound; the message is not accepted.
    #[error("the {queue} queue is full ({bound} messages)")]
    Full {
        /// The queue.
        queue: Queue,
        /// Its bound.
        bound: usize,
    },
    /// The queue allows only one live consumer and has one.
    #[error("the {queue} queue has a consumer already")]
    Consumed {
        /// The queue.
        queue: Queue,
    },
    /// No entry has this id.
    #[error("no ledger entry {id}")]
    Unknown {
        /// The requested id.
        id: String,
    },
    /// The entry's state does not allow the change.
    #[error("ledger entry {id} is {state} and cannot be changed that way")]
    Conflict {
        /// The entry.
        id: String,
        /// Its state.
        state: EntryState,
    },
    /// The bus was closed.
    #[error("the bus is closed")]
    Closed,
}

impl BusError {
    /// `true` if trying again later can succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::Full { .. })
    }
}

/// Outcome of publishing a message: new, or already known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The message is now in the ledger.
    New,
    /// The message was already there; nothing changed.
    Duplicate,
}

/// Two durable queues with settlement.
#[async_trait]
pub trait Bus: Send + Sync + std::fmt::Debug {
    /// Accepts a message from a person. When this returns `Ok`, the message is as durable as the
    /// implementation promises, and it may be acknowledged to the platform.
    ///
    /// Deduplicated by channel instance, chat and id, across restarts if the implementation is
    /// durable. A message without an id is never a duplicate; the ledger assigns one, so that the
    /// journal can refer to the message.
    ///
    /// # Errors
    /// Returns [`BusError::Store`] if the store fails, and [`BusError::Full`] if the queue is at
    /// its bound. In both cases the message is not accepted; the caller must not acknowledge it.
    async fn publish_inbound(&self, message: InboundMessage) -> Result<Accepted, BusError>;

    /// Accepts a message to a chat. Idempotent by [`nanobot_types::OutboundKey`]: a second message
    /// under a known key is a [`Accepted::Duplicate`], whatever its content.
    ///
    /// # Errors
    /// Same as [`Bus::publish_inbound`].
    async fn publish_outbound(&self, message: OutboundMessage) -> Result<Accepted, BusError>;

    /// Subscribes to inbound messages: first the unsettled ones, oldest first, then new ones as
    /// they arrive. They come in order within a session, without waiting for earlier ones to be
    /// settled. There is one live consumer; after its subscription is dropped, the next one
    /// receives the unsettled messages again. A message returned with [`SettleOutcome::RetryIn`] is
    /// overtaken by later ones until it is due.
    ///
    /// # Errors
    /// Returns [`BusError::Consumed`] while another subscription is live.
    async fn inbound(&self) -> Result<Subscription<InboundMessage>, BusError>;

    /// Subscribes to the messages for one channel: durable ones as in [`Bus::inbound`], interleaved
    /// with those given to [`Bus::offer`], in the order in which they were given.
    ///
    /// # Errors
    /// Returns [`BusError::Consumed`] while another subscription to this channel is live.
    async fn outbound(
        &self,
        channel: &ChannelName,
    ) -> Result<Subscription<OutboundMessage>, BusError>;

    /// Passes on a delta, a progress message or a hint. Lossy: it is dropped if the channel has no
    /// consumer or the consumer lags, and it is never in the ledger.
    fn offer(&self, message: OutboundMessage);
}
