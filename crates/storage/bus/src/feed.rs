//! Turns a backlog into a subscription: one entry at a time, interleaved with lossy messages, in
//! order.
//!
//! Decision: entries are handed out only when their consumer asks for the next one, at most
//! [`MOST_HANDED_OUT`] at a time. Memory never holds more than these, however long the queue is,
//! and a store that syncs to disk is queried once per batch instead of once per message. A hand-out
//! is not an attempt, so the fetched entries lose nothing when the process ends. A failed query of
//! the backlog is repeated: a full disk delays messages but does not end a subscription.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use tokio::time::Instant;

use crate::consumer::ConsumerStep;
use crate::{BusError, ConsumerSeat, Delivery, Handout, Subscription};

/// Delay before a delivery that was dropped unsettled is handed out again, so that a consumer that
/// fails on it does not spin.
pub const REDELIVERY_DELAY: Duration = Duration::from_secs(1);

/// Maximum delay that a bus keeps (one year); longer delays are shortened to it.
pub const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Maximum number of entries handed out by one query of a backlog.
pub const MOST_HANDED_OUT: usize = 32;

/// Pause after a failed query of the backlog.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Result of one query of a backlog.
#[derive(Debug)]
pub struct BacklogBatch<T> {
    /// The deliveries handed out, in order, each with its entry number.
    pub deliveries: Vec<(u64, Delivery<T>)>,
    /// Time at which the next waiting entry is due.
    pub next_due: Option<Instant>,
}

/// The entries of one consumer, as a store keeps them.
#[async_trait]
pub trait Backlog<T>: Send + Sync + 'static {
    /// Takes back each handout in `returned` that is still out under its serial; these entries are
    /// due again after [`REDELIVERY_DELAY`]. Then hands out the first entries that are pending, due
    /// and not out: at least one if there is one, and at most [`MOST_HANDED_OUT`].
    ///
    /// # Errors
    /// Returns [`BusError::Store`] if the store fails, and [`BusError::Closed`] after the bus was
    /// closed. In both cases nothing was handed out or taken back.
    async fn take(&self, returned: &[Handout]) -> Result<BacklogBatch<T>, BusError>;
}

impl<T: Send + 'static> ConsumerSeat<T> {
    /// Starts consuming. Everything handed out earlier must have been taken back.
    pub fn subscribe(self, backlog: impl Backlog<T>) -> Subscription<T> {
        let feed = SubscriptionState {
            seat: self,
            backlog,
            fetched: VecDeque::new(),
            next_due: None,
        };
        Subscription::new(stream::unfold(feed, |mut feed| async move {
            let delivery = feed.next().await?;
            Some((delivery, feed))
        }))
    }
}

/// State of a subscription. The seat is dropped first, so that the fetched deliveries go to the
/// next subscription at once.
struct SubscriptionState<T, B> {
    seat: ConsumerSeat<T>,
    backlog: B,
    /// Fetched deliveries. Lossy messages that were offered before one of them are passed on first.
    fetched: VecDeque<(u64, Delivery<T>)>,
    next_due: Option<Instant>,
}

impl<T, B: Backlog<T>> SubscriptionState<T, B> {
    async fn next(&mut self) -> Option<Delivery<T>> {
        loop {
            match self
                .seat
                .step(self.fetched.front().map(|(entry, _)| *entry))
            {
                ConsumerStep::Offer(message) => return Some(Delivery::lossy(message)),
                ConsumerStep::Ready => {
                    return self.fetched.pop_front().map(|(_, delivery)| delivery);
                }
                ConsumerStep::Take(returned) => self.take(returned).await?,
                ConsumerStep::Wait => self.wait().await,
                ConsumerStep::Closed => return None,
            }
        }
    }

    /// Queries the backlog; `None` after the bus was closed.
    async fn take(&mut self, returned: Vec<Handout>) -> Option<()> {
        match self.backlog.take(&returned).await {
            Ok(look) => {
                if !look.deliveries.is_empty() {
                    self.seat.mark_stale();
                }
                self.fetched = look.deliveries.into();
                self.next_due = look.next_due;
            }
            Err(BusError::Closed) => return None,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "messages cannot be handed out for now"
                );
                self.seat.return_later(returned);
                self.next_due = Some(Instant::now() + RETRY_PAUSE);
            }
        }
        Some(())
    }

    async fn wait(&mut self) {
        let Some(due) = self.next_due else {
            return self.seat.woken().await;
        };
        tokio::select! {
            () = self.seat.woken() => {}
            () = tokio::time::sleep_until(due) => {
                self.next_due = None;
                self.seat.mark_stale();
            }
        }
    }
}
