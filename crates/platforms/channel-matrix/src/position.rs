//! The position in the stream of syncs, and the syncs that are not handled yet.
//!
//! Decision: the position on disk is that of the last sync before which every message is stored.
//! The homeserver keeps all events, so a process that ends earlier gets them again, and repeated
//! ones are recognised by their ids.

use std::collections::VecDeque;
use std::time::Duration;

use nanobot_channel::{Notes, json};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The name of the note.
const NOTE: &str = "position";
/// Interval of writes while nothing but the position changes.
const IDLE_INTERVAL: Duration = Duration::from_mins(1);

/// The note.
#[derive(Debug, Deserialize, Serialize)]
struct StoredPosition {
    account: String,
    token: String,
}

/// A sync of which something is under way.
#[derive(Debug)]
struct OpenSync {
    number: u64,
    token: String,
    open: usize,
    has_events: bool,
}

/// Syncs from the first one that is not handled.
#[derive(Debug)]
pub(crate) struct SyncWindow {
    account: String,
    syncs: VecDeque<OpenSync>,
    next: u64,
    /// The position up to which all is handled.
    settled: Option<String>,
    /// The written position.
    written: Option<String>,
    is_urgent: bool,
    written_at: Instant,
}

impl SyncWindow {
    /// Reads the position of an account. Without one, what came before is history.
    pub(crate) async fn open(account: String, notes: &dyn Notes) -> Self {
        let text = notes.read(NOTE).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the position cannot be read; earlier messages are passed over");
            None
        });
        let stored: Option<StoredPosition> = text.and_then(|text| json::from_str(&text).ok());
        let stored = stored.filter(|stored| stored.account == account);
        let token = stored.map(|stored| stored.token);
        Self {
            account,
            syncs: VecDeque::new(),
            next: 0,
            written: token.clone(),
            settled: token,
            is_urgent: false,
            written_at: Instant::now(),
        }
    }

    /// Returns the position of the next sync.
    pub(crate) fn since(&self) -> Option<&str> {
        let last = self.syncs.back().map(|sync| sync.token.as_str());
        last.or(self.settled.as_deref())
    }

    /// Adds a sync with `open` rooms to handle. Returns its number.
    pub(crate) fn add(&mut self, token: String, open: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        self.syncs.push_back(OpenSync {
            number,
            token,
            open,
            has_events: open > 0,
        });
        self.settle();
        number
    }

    /// Takes the number of a sync of which something else is handled; `more` is what became
    /// under way by it.
    pub(crate) fn done(&mut self, number: u64, more: usize) {
        let sync = self.syncs.iter_mut().find(|sync| sync.number == number);
        if let Some(sync) = sync {
            sync.open = (sync.open + more).saturating_sub(1);
        }
        self.settle();
    }

    /// Forgets the position, because the homeserver does not know it.
    pub(crate) fn reset(&mut self) {
        self.syncs.clear();
        self.settled = None;
    }

    /// Writes the position if messages were handled, or if the note is old.
    pub(crate) async fn write(&mut self, notes: &dyn Notes) {
        let is_due = self.is_urgent || self.written_at.elapsed() >= IDLE_INTERVAL;
        if self.settled == self.written || !(is_due || self.written.is_none()) {
            return;
        }
        let Some(token) = self.settled.clone() else {
            return;
        };
        let stored = StoredPosition {
            account: self.account.clone(),
            token,
        };
        let text = serde_json::to_string(&stored).unwrap_or_default();
        match notes.write_unsynced(NOTE, &text).await {
            Ok(()) => {
                self.written = Some(stored.token);
                self.is_urgent = false;
                self.written_at = Instant::now();
            }
            Err(error) => tracing::warn!(%error, "the position cannot be written"),
        }
    }

    fn settle(&mut self) {
        while let Some(sync) = self.syncs.pop_front_if(|sync| sync.open == 0) {
            self.is_urgent |= sync.has_events;
            self.settled = Some(sync.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::NoteBook;

    use super::*;

    #[tokio::test]
    async fn position_stays_before_what_is_under_way() {
        let notes = NoteBook::default();
        let mut window = SyncWindow::open("me".to_owned(), &notes).await;
        assert_eq!(window.since(), None);
        let first = window.add("s1".to_owned(), 2);
        let second = window.add("s2".to_owned(), 1);
        assert_eq!(window.since(), Some("s2"));
        window.done(second, 0);
        window.write(&notes).await;
        assert_eq!(notes.read(NOTE).await.unwrap(), None);
        window.done(first, 0);
        // One event is held.
        window.done(first, 1);
        window.write(&notes).await;
        assert_eq!(notes.read(NOTE).await.unwrap(), None);
        window.done(first, 0);
        window.write(&notes).await;
        let reopened = SyncWindow::open("me".to_owned(), &notes).await;
        assert_eq!(reopened.since(), Some("s2"));
        let other = SyncWindow::open("other".to_owned(), &notes).await;
        assert_eq!(other.since(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_position_is_written_at_intervals() {
        let notes = NoteBook::default();
        let mut window = SyncWindow::open("me".to_owned(), &notes).await;
        let stored = async || {
            let window = SyncWindow::open("me".to_owned(), &notes).await;
            window.since().map(str::to_owned)
        };
        window.add("s1".to_owned(), 0);
        window.write(&notes).await;
        assert_eq!(stored().await.as_deref(), Some("s1"), "the first one");
        window.add("s2".to_owned(), 0);
        window.write(&notes).await;
        assert_eq!(stored().await.as_deref(), Some("s1"));
        tokio::time::advance(IDLE_INTERVAL).await;
        window.write(&notes).await;
        assert_eq!(stored().await.as_deref(), Some("s2"));
    }
}
