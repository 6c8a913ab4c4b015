//! Event feed for observers: a bounded broadcast that drops the oldest events when a reader lags.

use nanobot_types::Event;
use tokio::sync::broadcast;

/// Number of events by which an observer may lag before it loses the oldest.
const BACKLOG: usize = 256;

/// Sends events to any number of observers. Sending never waits and never fails.
#[derive(Clone, Debug)]
pub struct EventFeed {
    sender: broadcast::Sender<Event>,
}

impl EventFeed {
    /// Creates a feed without observers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(BACKLOG),
        }
    }

    /// Sends an event to all current observers.
    pub fn send(&self, event: Event) {
        // The only error is that there is no observer, which is fine.
        drop(self.sender.send(event));
    }

    /// Subscribes to the events sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}

impl Default for EventFeed {
    fn default() -> Self {
        Self::new()
    }
}
