//! Order in which conversations fetch their missed messages.
//!
//! Decision: one conversation fetches at a time, because Slack's rate limits are low. Conversations
//! with a waiting live event pass that queue, so that a live event waits for its own conversation
//! and for no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// Number of conversations with a waiting live event that fetch at a time.
const MAX_URGENT: usize = 4;

/// Conversations that fetch, or will.
#[derive(Debug)]
pub(crate) struct FetchQueue {
    regular: Semaphore,
    urgent: Semaphore,
    /// Number of live events that wait, by conversation.
    waiting_events: watch::Sender<BTreeMap<String, usize>>,
    /// Conversations whose fetch has not begun.
    scheduled: Mutex<BTreeSet<String>>,
    /// Missing scopes that were reported.
    reported_scopes: Mutex<BTreeSet<String>>,
}

impl Default for FetchQueue {
    fn default() -> Self {
        Self {
            regular: Semaphore::new(1),
            urgent: Semaphore::new(MAX_URGENT),
            waiting_events: watch::Sender::default(),
            scheduled: Mutex::default(),
            reported_scopes: Mutex::default(),
        }
    }
}

/// A live event that waits for its conversation until dropped.
#[derive(Debug)]
pub(crate) struct WaitingEvent<'a> {
    queue: &'a FetchQueue,
    chat: String,
}

impl FetchQueue {
    /// Forgets what is scheduled, at the start of a run.
    pub(crate) fn clear(&self) {
        lock(&self.scheduled).clear();
    }

    /// Schedules a conversation. `false` if it is scheduled already.
    pub(crate) fn schedule(&self, chat: &str) -> bool {
        lock(&self.scheduled).insert(chat.to_owned())
    }

    /// Begins the fetch of a conversation, which may be scheduled again from now on.
    pub(crate) fn begin(&self, chat: &str) {
        lock(&self.scheduled).remove(chat);
    }

    /// `true` at the first call for a missing scope.
    pub(crate) fn is_new_scope(&self, scope: &str) -> bool {
        lock(&self.reported_scopes).insert(scope.to_owned())
    }

    /// Adds a live event that waits for a conversation.
    pub(crate) fn add_waiting_event(&self, chat: &str) -> WaitingEvent<'_> {
        self.waiting_events
            .send_modify(|waiting_events| *waiting_events.entry(chat.to_owned()).or_default() += 1);
        WaitingEvent {
            queue: self,
            chat: chat.to_owned(),
        }
    }

    /// Returns when a live event waits for a conversation.
    pub(crate) async fn event_waiting(&self, chat: &str) {
        let mut waiting_events = self.waiting_events.subscribe();
        if waiting_events
            .wait_for(|waiting_events| waiting_events.contains_key(chat))
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until a conversation may send requests, which it may until the permit is dropped.
    pub(crate) async fn acquire(&self, chat: &str) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            () = self.event_waiting(chat) => self.urgent.acquire().await.ok(),
            permit = self.regular.acquire() => permit.ok(),
        }
    }
}

impl Drop for WaitingEvent<'_> {
    fn drop(&mut self) {
        self.queue.waiting_events.send_modify(|waiting_events| {
            if let Some(count) = waiting_events.get_mut(&self.chat) {
                *count -= 1;
                if *count == 0 {
                    waiting_events.remove(&self.chat);
                }
            }
        });
    }
}

fn lock<T>(set: &Mutex<T>) -> MutexGuard<'_, T> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn waiting_event_lets_its_conversation_skip_the_queue() {
        let queue = FetchQueue::default();
        let first = queue.acquire("C1").await;
        let mut second = Box::pin(queue.acquire("C2"));
        let mut third = Box::pin(queue.acquire("C3"));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        let waiting = [
            queue.add_waiting_event("C3"),
            queue.add_waiting_event("C3"),
            queue.add_waiting_event("C4"),
        ];
        assert!((&mut second).now_or_never().is_none());
        let third = third.now_or_never();
        assert!(third.is_some(), "an event waits for it");
        drop((third, waiting));
        assert!(
            queue.waiting_events.borrow().is_empty(),
            "no event waits any more"
        );
        drop(first);
        assert!(second.now_or_never().is_some());
    }

    #[test]
    fn conversation_is_scheduled_once_until_its_fetch_begins() {
        let queue = FetchQueue::default();
        assert!(queue.schedule("C1") && !queue.schedule("C1"));
        queue.begin("C1");
        assert!(queue.schedule("C1"));
        queue.clear();
        assert!(queue.schedule("C1"));
        assert!(queue.is_new_scope("im:history") && !queue.is_new_scope("im:history"));
    }
}
