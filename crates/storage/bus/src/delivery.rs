//! A message handed to a consumer, and its settlement.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{Stream, StreamExt as _};

use crate::BusError;

/// Outcome of a delivery, or a step towards it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// Processing starts, which counts as an attempt; reporting it again counts another one. If the
    /// process crashes later, the effect of an outbound message is in doubt. The effects of an
    /// inbound message are in the journal of its turn.
    Begin,
    /// This part (counted from 0) of an outbound message reached the platform. The next part may be
    /// under way from now on, without another `Begin`.
    PartSent(u32),
    /// Done: `answered` or `sent`. Terminal.
    Ack,
    /// Still in progress: do not hand it out again for this long. Does not count as an attempt. A
    /// ledger that can tell whether the delivery is still alive waits for it anyway.
    Extend(Duration),
    /// Not done: hand it out again after this long. Anything begun since this hand-out certainly
    /// did not happen; an older doubt remains. Ends this delivery.
    RetryIn(Duration),
    /// The consumer has no room: hand it out again after this long, or to another consumer at once.
    /// Nothing was tried, so this delivery does not count as an attempt, even if it was begun. Ends
    /// this delivery.
    PutOff(Duration),
    /// It may or may not have happened; a person or a policy decides. Terminal; an inbound message
    /// becomes `failed`.
    Uncertain(String),
    /// It did not happen and will not be retried. Terminal.
    Fail(String),
    /// Deliberately not done. Terminal.
    Discard(String),
}

impl SettleOutcome {
    /// `true` if the outcome settles the entry permanently.
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

    /// `true` if the consumer is done with this delivery: the outcome is terminal, or the entry is
    /// to be handed out again.
    #[must_use]
    pub fn ends_delivery(&self) -> bool {
        self.is_terminal() || self.comes_again_in().is_some()
    }

    /// Returns the delay before the entry is handed out again; `None` if it is not handed out
    /// again.
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
    /// Records the outcome of the delivery. When it returns `Ok`, the record is durable.
    ///
    /// # Errors
    /// Returns [`BusError::Conflict`] if the entry is already settled (by a person, for example),
    /// or if it was handed out again in the meantime and the outcome is not terminal. Returns
    /// [`BusError::Store`] if the store fails; nothing was recorded then.
    async fn settle(&self, outcome: SettleOutcome) -> Result<(), BusError>;
}

/// Progress of a message at the time of a hand-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryProgress {
    /// The attempt number, from 1, that this delivery has once it is begun or settled. A delivery
    /// that ends before that does not count as an attempt.
    pub attempt: u32,
    /// Number of parts known to have reached the platform.
    pub parts_sent: u32,
    /// `true` if an earlier delivery began the effect and its outcome was not recorded.
    pub in_doubt: bool,
}

/// A message and the duty to settle it. If it is dropped without an outcome that [ends the
/// delivery](SettleOutcome::ends_delivery), it is delivered again: to this subscription after
/// [`crate::REDELIVERY_DELAY`], or to the next subscription at once.
pub struct Delivery<T> {
    /// The message.
    pub message: T,
    /// The attempt number of this delivery, from 1, once it is begun or settled.
    pub attempt: u32,
    /// Number of parts that reached the platform before this delivery.
    pub parts_sent: u32,
    /// `true` if an earlier delivery began the effect and its outcome was not recorded: the
    /// platform may already have part `parts_sent`. Always `false` for an inbound message.
    pub in_doubt: bool,
    settlement: Option<Box<dyn Settlement>>,
}

impl<T> Delivery<T> {
    /// Creates a delivery that a ledger expects to be settled.
    pub fn durable(
        message: T,
        progress: DeliveryProgress,
        settlement: Box<dyn Settlement>,
    ) -> Self {
        let DeliveryProgress {
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

    /// Creates a delivery without a record in the ledger. Settling it does nothing.
    pub fn lossy(message: T) -> Self {
        Self {
            message,
            attempt: 1,
            parts_sent: 0,
            in_doubt: false,
            settlement: None,
        }
    }

    /// `true` if a ledger expects its settlement.
    pub fn is_durable(&self) -> bool {
        self.settlement.is_some()
    }

    /// Records an outcome.
    ///
    /// # Errors
    /// Returns the ledger's error; the outcome is not recorded and the message will be delivered
    /// again.
    pub async fn settle(&self, outcome: SettleOutcome) -> Result<(), BusError> {
        match &self.settlement {
            Some(settlement) => settlement.settle(outcome).await,
            None => Ok(()),
        }
    }

    /// Settles it as done.
    ///
    /// # Errors
    /// Same as [`Delivery::settle`].
    pub async fn ack(self) -> Result<(), BusError> {
        self.settle(SettleOutcome::Ack).await
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
    /// Wraps a stream of deliveries. Dropping the subscription drops the stream, which is how the
    /// queue learns that its consumer is gone.
    pub fn new(deliveries: impl Stream<Item = Delivery<T>> + Send + 'static) -> Self {
        Self {
            deliveries: Box::pin(deliveries),
        }
    }

    /// Returns the next delivery; `None` after the bus was closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Delivery<T>> {
        self.deliveries.next().await
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
