//! From a backlog to a subscription: pages of it, lossy messages in between, in order.
//!
//! Decision: one page is at hand at a time and the next is asked for when it is used up, so a slow
//! consumer costs a page of memory and a fast one costs the ledger one look for many messages.
//! A look that fails is repeated: a full disk delays messages, it does not end a subscription.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use tokio::time::Instant;

use crate::consumer::Step;
use crate::{BusError, Claim, Delivery, Handout, Subscription};

/// How long a delivery that was dropped unsettled stays away, so that a consumer that fails on it
/// does not spin.
pub const REDELIVERY_DELAY: Duration = Duration::from_secs(1);

/// The longest delay that a bus keeps; longer ones are cut to this year.
pub const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How many deliveries are handed out at a time.
const PAGE: usize = 32;

/// How long to wait after a look at the backlog failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What a backlog hands out in one go.
#[derive(Debug)]
pub struct Page<T> {
    /// Deliveries with the numbers of their entries, in growing order.
    pub deliveries: Vec<(u64, Delivery<T>)>,
    /// When the next of those that wait comes due.
    pub next_due: Option<Instant>,
}

/// The entries of one consumer, as a store keeps them.
#[async_trait]
pub trait Backlog<T>: Send + Sync + 'static {
    /// Takes back `returned` (those that are still out under that serial), to be due again after
    /// [`REDELIVERY_DELAY`]; then hands out the first `limit` entries that are pending, due and
    /// not out.
    ///
    /// # Errors
    /// [`BusError::Store`] and [`BusError::Closed`]: nothing was handed out or taken back.
    async fn take(&self, returned: &[Handout], limit: usize) -> Result<Page<T>, BusError>;
}

impl<T: Send + 'static> Claim<T> {
    /// Begins to consume. Everything that was handed out before must have been taken back.
    pub fn subscribe(self, backlog: impl Backlog<T>) -> Subscription<T> {
        let feed = Feed { claim: self, backlog, ready: VecDeque::new(), next_due: None };
        Subscription::new(stream::unfold(feed, |mut feed| async move {
            let delivery = feed.next().await?;
            Some((delivery, feed))
        }))
    }
}

/// The state of a subscription. The claim is dropped first: what is at hand then goes to the next
/// subscription at once.
struct Feed<T, B> {
    claim: Claim<T>,
    backlog: B,
    ready: VecDeque<(u64, Delivery<T>)>,
    next_due: Option<Instant>,
}

impl<T, B: Backlog<T>> Feed<T, B> {
    async fn next(&mut self) -> Option<Delivery<T>> {
        loop {
            match self.claim.step(self.ready.front().map(|(entry, _)| *entry)) {
                Step::Offer(message) => return Some(Delivery::lossy(message)),
                Step::Ready => return self.ready.pop_front().map(|(_, delivery)| delivery),
                Step::Take(returned) => self.take(returned).await?,
                Step::Wait => self.wait().await,
                Step::Closed => return None,
            }
        }
    }

    /// Fetches a page; `None` when the bus is closed.
    async fn take(&mut self, returned: Vec<Handout>) -> Option<()> {
        match self.backlog.take(&returned, PAGE).await {
            Ok(page) => {
                if page.deliveries.len() >= PAGE {
                    self.claim.look_again();
                }
                self.ready = page.deliveries.into();
                self.next_due = page.next_due;
            }
            Err(BusError::Closed) => return None,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "messages cannot be handed out for now");
                self.claim.keep(returned);
                self.next_due = Some(Instant::now() + PAUSE_AFTER_FAILURE);
            }
        }
        Some(())
    }

    async fn wait(&mut self) {
        let Some(due) = self.next_due else {
            return self.claim.woken().await;
        };
        tokio::select! {
            () = self.claim.woken() => {}
            () = tokio::time::sleep_until(due) => {
                self.next_due = None;
                self.claim.look_again();
            }
        }
    }
}
