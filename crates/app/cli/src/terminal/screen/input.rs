//! Keys, pastes and new sizes of the terminal.

use std::io;
use std::time::Duration;

use crossterm::event::{Event, EventStream, poll, read};
use futures_util::StreamExt as _;

/// Time to wait for an event that is there already.
const AT_ONCE: Duration = Duration::from_millis(1);

/// The events of the terminal.
#[derive(Default)]
pub(in crate::terminal) struct TerminalInput {
    /// The stream, once it was asked for an event. It reads from another thread.
    events: Option<EventStream>,
}

impl TerminalInput {
    /// Returns an event that is there already, while no event is waited for.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(in crate::terminal) fn try_next(&mut self) -> io::Result<Option<Event>> {
        self.pause();
        if poll(AT_ONCE)? {
            read().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the next event; `None` if the terminal is gone. Cancel-safe.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(in crate::terminal) async fn next(&mut self) -> io::Result<Option<Event>> {
        let events = self.events.get_or_insert_default();
        events.next().await.transpose()
    }

    /// Stops reading, so that another program can use the terminal.
    pub(in crate::terminal) fn pause(&mut self) {
        self.events = None;
    }
}
