//! Encrypted events whose key is not known yet.
//!
//! Decision: they are kept in memory, and the position on disk stays before them. After some
//! minutes, or if there are too many, an event is passed over with a line in the log.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::wire::Event;

/// Most events that wait for keys.
const MAX_HELD: usize = 64;
/// Time that an event waits for its key.
const MAX_WAIT: Duration = Duration::from_mins(5);
/// Interval of attempts without news about keys.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// An event that waits.
#[derive(Clone, Debug)]
pub(crate) struct HeldEvent {
    pub(crate) room: String,
    pub(crate) event: Event,
    /// The sync that brought it.
    pub(crate) sync: u64,
    pub(crate) held_at: Instant,
    pub(crate) tried_at: Instant,
}

/// Events that wait, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct HeldEvents(VecDeque<HeldEvent>);

impl HeldEvents {
    /// Adds an event. Returns the ones that are given up for it.
    pub(crate) fn add(&mut self, event: HeldEvent) -> Option<HeldEvent> {
        self.0.push_back(event);
        if self.0.len() > MAX_HELD {
            return self.0.pop_front();
        }
        None
    }

    /// Takes the events to try again: those of rooms with new keys, and at intervals the others.
    pub(crate) fn take_due(&mut self, rooms_with_keys: &[String]) -> Vec<HeldEvent> {
        let now = Instant::now();
        let is_due = |held: &HeldEvent| {
            rooms_with_keys.contains(&held.room)
                || now.duration_since(held.tried_at) >= RETRY_INTERVAL
        };
        let (due, kept) = self.0.drain(..).partition(is_due);
        self.0 = kept;
        Vec::from(due)
    }
}

impl HeldEvent {
    /// `true` if it waited for long enough.
    pub(crate) fn is_expired(&self) -> bool {
        self.held_at.elapsed() >= MAX_WAIT
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held(room: &str, sync: u64) -> HeldEvent {
        HeldEvent {
            room: room.to_owned(),
            event: Event(json!({})),
            sync,
            held_at: Instant::now(),
            tried_at: Instant::now(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_due_with_new_keys_or_at_intervals() {
        let mut events = HeldEvents::default();
        assert!(events.add(held("!a:x", 1)).is_none());
        assert!(events.add(held("!b:x", 2)).is_none());
        let due = events.take_due(&["!b:x".to_owned()]);
        assert_eq!(due.iter().map(|held| held.sync).collect::<Vec<_>>(), [2]);
        assert!(events.take_due(&[]).is_empty());
        tokio::time::advance(RETRY_INTERVAL).await;
        assert_eq!(events.take_due(&[]).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn number_and_time_of_waiting_are_limited() {
        let mut events = HeldEvents::default();
        let given_up: Vec<_> = (0..70)
            .filter_map(|sync| events.add(held("!a:x", sync)))
            .map(|held| held.sync)
            .collect();
        assert_eq!(given_up, [0, 1, 2, 3, 4, 5]);
        let old = held("!a:x", 1);
        assert!(!old.is_expired());
        tokio::time::advance(MAX_WAIT).await;
        assert!(old.is_expired());
    }
}
