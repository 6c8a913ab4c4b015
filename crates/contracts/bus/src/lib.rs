//! The bus: two queues whose messages are settled, never lost.
//!
//! Decision: a queue is a ledger. `publish` returns when the message is durable; a consumer holds
//! a [`Delivery`] and settles it; what is not settled comes back. Whether "durable" means memory
//! ([`MemoryBus`]), a file or a cluster is the implementation's to say; the rules are the same, and
//! one conformance suite in `nanobot-testkit` holds all of them to it.
//!
//! For implementers there are three parts beside the traits, so that the subtle rules are written
//! once: [`Standing`] (which state follows which outcome), [`Queued`] (what makes two messages the
//! same) and [`Consumers`] (one live consumer, wake-ups, and lossy messages in between).

mod claims;
mod consumer;
mod delivery;
mod events;
mod feed;
mod ledger;
mod memory;
mod queued;
mod standing;

use async_trait::async_trait;
use nanobot_types::{ChannelName, InboundMessage, OutboundMessage};

pub use claims::{Claims, Lease};
pub use consumer::{Consumer, Consumers, Handout, HandoutGuard, Seat};
pub use delivery::{Delivery, Progress, Settle, Settlement, Subscription};
pub use events::EventFeed;
pub use feed::{Backlog, LONGEST_DELAY, Look, MOST_HANDED_OUT, REDELIVERY_DELAY};
pub use ledger::{DISCARDED, EntryState, Ledger, LedgerEntry, LedgerFilter, Queue};
pub use memory::MemoryBus;
pub use queued::Queued;
pub use standing::Standing;

/// Why the bus could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The store below failed; the message is not accepted.
    #[error("the message store failed while trying to {action}")]
    Store {
        /// What was being done.
        action: &'static str,
        /// What failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The queue is at its bound; the message is not accepted.
    #[error("the {queue} queue is full ({bound} messages)")]
    Full {
        /// Which queue.
        queue: Queue,
        /// Its bound.
        bound: usize,
    },
    /// Only one live consumer is allowed, and there is one.
    #[error("the {queue} queue has a consumer already")]
    Consumed {
        /// Which queue.
        queue: Queue,
    },
    /// No entry has this id.
    #[error("no ledger entry {id}")]
    Unknown {
        /// The id asked for.
        id: String,
    },
    /// The entry is in a state that does not allow this.
    #[error("ledger entry {id} is {state} and cannot be changed that way")]
    Conflict {
        /// The entry.
        id: String,
        /// Its state.
        state: EntryState,
    },
    /// The bus is shut down.
    #[error("the bus is closed")]
    Closed,
}

impl BusError {
    /// Whether trying again later can succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::Full { .. })
    }
}

/// Whether a published message was new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is in the ledger now.
    New,
    /// It was there before; nothing changed.
    Duplicate,
}

/// Two durable queues with settlement.
#[async_trait]
pub trait Bus: Send + Sync + std::fmt::Debug {
    /// Accepts a message of a person. When this returns `Ok`, the message survives whatever the
    /// implementation promises to survive, and the platform may be acknowledged.
    ///
    /// Deduplicated by channel instance, chat and id, across restarts where the implementation
    /// is durable. A message without an id is never a duplicate; the ledger gives it one, so that
    /// its journal can name it.
    ///
    /// # Errors
    /// [`BusError::Store`] and [`BusError::Full`]: the message is not accepted, do not acknowledge.
    async fn publish_inbound(&self, message: InboundMessage) -> Result<Accepted, BusError>;

    /// Accepts a message to a chat. Idempotent by [`nanobot_types::OutboundKey`]: a second
    /// message under a known key is a [`Accepted::Duplicate`], whatever it says.
    ///
    /// # Errors
    /// As [`Bus::publish_inbound`].
    async fn publish_outbound(&self, message: OutboundMessage) -> Result<Accepted, BusError>;

    /// The inbound messages that are not settled, oldest first, then new ones as they come: per
    /// session in order, not waiting for earlier ones to be settled. One live consumer; dropping
    /// the subscription makes room for the next, which sees unsettled messages again. A message
    /// sent back with [`Settle::RetryIn`] is overtaken by later ones until it is due.
    ///
    /// # Errors
    /// [`BusError::Consumed`] while another subscription lives.
    async fn inbound(&self) -> Result<Subscription<InboundMessage>, BusError>;

    /// The messages for one channel: durable ones as [`Bus::inbound`] does, and those given to
    /// [`Bus::offer`] in between, in the order in which they were given.
    ///
    /// # Errors
    /// [`BusError::Consumed`] while another subscription to this channel lives.
    async fn outbound(
        &self,
        channel: &ChannelName,
    ) -> Result<Subscription<OutboundMessage>, BusError>;

    /// Hands over a delta, a progress line or a hint. Lossy: it is dropped when nobody consumes
    /// the channel or the consumer is behind, and it is never in the ledger.
    fn offer(&self, message: OutboundMessage);
}
