//! From a backlog to a subscription: one entry at a time, lossy messages in between, in order.
//!
//! Decision: entries are handed out when their consumer asks for the next one and not before, a few at a
//! time ([`MOST_HANDED_OUT`]): memory holds no more than these however long the queue is, and a store that
//! syncs to a disk is not asked, and waited for, once per message. Being handed out is no attempt, so
//! those at hand lose nothing when the process ends. A look at the backlog that fails is repeated: a full
//! disk delays messages, it does not end a subscription.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use tokio::time::Instant;

use crate::consumer::Step;
use crate::{BusError, Delivery, Handout, Seat, Subscription};

/// How long a delivery that was dropped unsettled stays away, so that a consumer that fails on it
/// does not spin.
pub const REDELIVERY_DELAY: Duration = Duration::from_secs(1);

/// The longest delay that a bus keeps; longer ones are cut to this year.
pub const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How many entries one look at a backlog may hand out.
pub const MOST_HANDED_OUT: usize = 32;

/// How long to wait after a look at the backlog failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What a look at a backlog found.
#[derive(Debug)]
pub struct Look<T> {
    /// The deliveries that were handed out, in order, each with the number of its entry.
    pub deliveries: Vec<(u64, Delivery<T>)>,
    /// When the next of those that wait comes due.
    pub next_due: Option<Instant>,
}

/// The entries of one consumer, as a store keeps them.
#[async_trait]
pub trait Backlog<T>: Send + Sync + 'static {
    /// Takes back `returned` (those that are still out under that serial), to be due again after
    /// [`REDELIVERY_DELAY`]; then hands out the first entries that are pending, due and not out:
    /// at least one if there is one, and [`MOST_HANDED_OUT`] at most.
    ///
    /// # Errors
    /// [`BusError::Store`] and [`BusError::Closed`]: nothing was handed out or taken back.
    async fn take(&self, returned: &[Handout]) -> Result<Look<T>, BusError>;
}

impl<T: Send + 'static> Seat<T> {
    /// Begins to consume. Everything that was handed out before must have been taken back.
    pub fn subscribe(self, backlog: impl Backlog<T>) -> Subscription<T> {
        let feed = Feed {
            seat: self,
            backlog,
            at_hand: VecDeque::new(),
            next_due: None,
        };
        Subscription::new(stream::unfold(feed, |mut feed| async move {
            let delivery = feed.next().await?;
            Some((delivery, feed))
        }))
    }
}

/// The state of a subscription. The seat is dropped first: what is at hand then goes to the next
/// subscription at once.
struct Feed<T, B> {
    seat: Seat<T>,
    backlog: B,
    /// Fetched, but lossy messages that were given before one come before it.
    at_hand: VecDeque<(u64, Delivery<T>)>,
    next_due: Option<Instant>,
}

impl<T, B: Backlog<T>> Feed<T, B> {
    async fn next(&mut self) -> Option<Delivery<T>> {
        loop {
            match self
                .seat
                .step(self.at_hand.front().map(|(entry, _)| *entry))
            {
                Step::Offer(message) => return Some(Delivery::lossy(message)),
                Step::Ready => return self.at_hand.pop_front().map(|(_, delivery)| delivery),
                Step::Take(returned) => self.take(returned).await?,
                Step::Wait => self.wait().await,
                Step::Closed => return None,
            }
        }
    }

    /// Looks at the backlog; `None` when the bus is closed.
    async fn take(&mut self, returned: Vec<Handout>) -> Option<()> {
        match self.backlog.take(&returned).await {
            Ok(look) => {
                if !look.deliveries.is_empty() {
                    self.seat.look_again();
                }
                self.at_hand = look.deliveries.into();
                self.next_due = look.next_due;
            }
            Err(BusError::Closed) => return None,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "messages cannot be handed out for now"
                );
                self.seat.keep(returned);
                self.next_due = Some(Instant::now() + PAUSE_AFTER_FAILURE);
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
                self.seat.look_again();
            }
        }
    }
}
