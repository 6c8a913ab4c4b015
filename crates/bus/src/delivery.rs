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
    /// The effect is about to happen: a crash from here on leaves it uncertain.
    Begin,
    /// This part (counted from 0) of an outbound message reached the platform.
    PartSent(u32),
    /// Done: `answered` or `sent`. Terminal.
    Ack,
    /// Still at work: do not hand it out again for this long.
    Extend(Duration),
    /// Not now: hand it out again after this long.
    RetryIn(Duration),
    /// It may or may not have happened; a person or a policy decides. Terminal.
    Uncertain(String),
    /// It did not happen and will not. Terminal.
    Fail(String),
    /// It was left undone on purpose. Terminal.
    Discard(String),
}

/// The ledger's side of a delivery.
#[async_trait]
pub trait Settlement: Send + Sync {
    /// Records what became of the delivery. When it returns `Ok`, the record is durable.
    async fn settle(&self, outcome: Settle) -> Result<(), BusError>;
}

/// A message and the duty to settle it. Dropped without a terminal outcome, it is delivered
/// again to the next subscription (or at once, to this one, after a delay).
pub struct Delivery<T> {
    /// The message.
    pub message: T,
    /// How often it was handed out, this time included; from 1.
    pub attempt: u32,
    /// How many parts of it had reached the platform before this delivery.
    pub parts_sent: u32,
    settlement: Option<Box<dyn Settlement>>,
}

impl<T> Delivery<T> {
    /// A delivery that a ledger wants settled.
    pub fn durable(message: T, attempt: u32, parts_sent: u32, settlement: Box<dyn Settlement>) -> Self {
        Self { message, attempt, parts_sent, settlement: Some(settlement) }
    }

    /// A delivery nobody keeps a record of: settling it does nothing.
    pub fn lossy(message: T) -> Self {
        Self { message, attempt: 1, parts_sent: 0, settlement: None }
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
        Self { deliveries: Box::pin(deliveries) }
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
