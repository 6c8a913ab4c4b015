//! A message handed to a consumer, and how the consumer settles it.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{Stream, StreamExt as _};

use crate::BusError;

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settle {
    /// It is tried from here on, which counts as an attempt, and as another one when it is said
    /// again. A crash leaves the effect of an outbound message in doubt; those of an inbound one
    /// are in the journal of its turn.
    Begin,
    /// This part (counted from 0) of an outbound message reached the platform; the next may be
    /// under way from now on, without another `Begin`.
    PartSent(u32),
    /// Done: `answered` or `sent`. Terminal.
    Ack,
    /// Still at work: do not hand it out again for this long. No attempt by itself. A ledger that can see whether the
    /// delivery still lives waits for that anyway.
    Extend(Duration),
    /// Not now: hand it out again after this long. What was begun since it was handed out did
    /// certainly not happen; an older doubt stays. Ends this delivery.
    RetryIn(Duration),
    /// There is no room for it now: hand it out again after this long, and to another consumer at
    /// once. Nothing was tried, so this delivery does not count as an attempt, begun or not. Ends
    /// this delivery.
    PutOff(Duration),
    /// It may or may not have happened; a person or a policy decides. Terminal; an inbound
    /// message becomes `failed`.
    Uncertain(String),
    /// It did not happen and will not. Terminal.
    Fail(String),
    /// It was left undone on purpose. Terminal.
    Discard(String),
}

impl Settle {
    /// Whether it settles the entry for good.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Ack | Self::Uncertain(_) | Self::Fail(_) | Self::Discard(_) => true,
            Self::Begin
            | Self::PartSent(_)
            | Self::Extend(_)
            | Self::RetryIn(_)
            | Self::PutOff(_) => false,
        }
    }

    /// Whether the consumer is through with this delivery: terminal, or to be handed out again.
    #[must_use]
    pub fn ends_delivery(&self) -> bool {
        self.is_terminal() || self.comes_again_in().is_some()
    }

    /// How long it waits before it is handed out again, if it is.
    #[must_use]
    pub fn comes_again_in(&self) -> Option<Duration> {
        match self {
            Self::RetryIn(delay) | Self::PutOff(delay) => Some(*delay),
            _ => None,
        }
    }
}

/// The ledger's side of a delivery.
#[async_trait]
pub trait Settlement: Send + Sync {
    /// Records what became of the delivery. When it returns `Ok`, the record is durable.
    ///
    /// # Errors
    /// [`BusError::Conflict`] when the entry is settled already (by a person, say), or was handed
    /// out again since and the outcome is not terminal; [`BusError::Store`] when nothing was
    /// recorded.
    async fn settle(&self, outcome: Settle) -> Result<(), BusError>;
}

/// How far a message had come when it was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of the attempt that this delivery would be; from 1. One that ends before it was
    /// begun or settled was none.
    pub attempt: u32,
    /// How many parts of it are known to have reached the platform.
    pub parts_sent: u32,
    /// Whether an earlier delivery began the effect and nobody recorded how it ended.
    pub in_doubt: bool,
}

/// A message and the duty to settle it. Dropped without a terminal outcome, it is delivered
/// again: to this subscription after [`crate::REDELIVERY_DELAY`], or to the next one at once.
pub struct Delivery<T> {
    /// The message.
    pub message: T,
    /// The number of the attempt that this delivery is, from 1, once it is begun or settled.
    pub attempt: u32,
    /// How many parts of it had reached the platform before this delivery.
    pub parts_sent: u32,
    /// Whether an earlier delivery began the effect and never recorded how it ended: part
    /// `parts_sent` may be at the platform already. Never for an inbound message.
    pub in_doubt: bool,
    settlement: Option<Box<dyn Settlement>>,
}

impl<T> Delivery<T> {
    /// A delivery that a ledger wants settled.
    pub fn durable(message: T, progress: Progress, settlement: Box<dyn Settlement>) -> Self {
        let Progress {
            attempt,
            parts_sent,
            in_doubt,
        } = progress;
        Self {
            message,
            attempt,
            parts_sent,
            in_doubt,
            settlement: Some(settlement),
        }
    }

    /// A delivery nobody keeps a record of: settling it does nothing.
    pub fn lossy(message: T) -> Self {
        Self {
            message,
            attempt: 1,
            parts_sent: 0,
            in_doubt: false,
            settlement: None,
        }
    }

    /// Whether a ledger waits for its settlement.
    pub fn is_durable(&self) -> bool {
        self.settlement.is_some()
    }

    /// Records an outcome.
    ///
    /// # Errors
    /// The ledger's error; the outcome is not recorded and the message will come back.
    pub async fn settle(&self, outcome: Settle) -> Result<(), BusError> {
        match &self.settlement {
            Some(settlement) => settlement.settle(outcome).await,
            None => Ok(()),
        }
    }

    /// Settles it as done.
    ///
    /// # Errors
    /// As [`Delivery::settle`].
    pub async fn ack(self) -> Result<(), BusError> {
        self.settle(Settle::Ack).await
    }
}

impl<T: fmt::Debug> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("message", &self.message)
            .field("attempt", &self.attempt)
            .field("parts_sent", &self.parts_sent)
            .field("in_doubt", &self.in_doubt)
            .field("durable", &self.is_durable())
            .finish()
    }
}

/// The consumer's end of a queue.
pub struct Subscription<T> {
    deliveries: Pin<Box<dyn Stream<Item = Delivery<T>> + Send>>,
}

impl<T> Subscription<T> {
    /// Wraps a stream of deliveries. Dropping the subscription drops the stream, which is how
    /// the queue learns that its consumer is gone.
    pub fn new(deliveries: impl Stream<Item = Delivery<T>> + Send + 'static) -> Self {
        Self {
            deliveries: Box::pin(deliveries),
        }
    }

    /// The next delivery; `None` when the bus is closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Delivery<T>> {
        self.deliveries.next().await
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
