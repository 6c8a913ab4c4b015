//! Events for observers: a bounded broadcast that forgets what nobody reads in time.

use nanobot_types::Event;
use tokio::sync::broadcast;

/// How many events an observer may be behind before it loses the oldest.
const BACKLOG: usize = 256;

/// Tells any number of observers what happens. Sending never waits and never fails.
#[derive(Clone, Debug)]
pub struct EventFeed {
    sender: broadcast::Sender<Event>,
}

impl EventFeed {
    /// A feed without observers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(BACKLOG),
        }
    }

    /// Tells whoever listens.
    pub fn send(&self, event: Event) {
        // An error here means that nobody listens, which is fine.
        drop(self.sender.send(event));
    }

    /// Listens from now on.
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
