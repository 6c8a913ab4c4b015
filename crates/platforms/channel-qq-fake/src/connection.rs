//! Connections of the gateway, sessions and pushes.

use std::collections::VecDeque;

use serde_json::Value;
use tokio::time::Instant;

/// Largest number of events that a session keeps for a resumption.
pub(crate) const HISTORY: usize = 1000;

/// An event for the bot.
#[derive(Debug)]
pub(crate) struct Push {
    pub(crate) name: String,
    /// The id of the event, not of its message.
    pub(crate) id: String,
    pub(crate) data: Value,
    /// Intents of which a session needs one to get the event; 0 for every session.
    pub(crate) intents: u64,
    /// `true` once a client named its number, or a later one, to the gateway.
    pub(crate) is_acknowledged: bool,
    pub(crate) deliveries: usize,
}

/// An event of a session.
#[derive(Debug)]
pub(crate) struct SessionEvent {
    pub(crate) number: u64,
    pub(crate) push: usize,
    pub(crate) frame: String,
}

/// The numbered events of one identified client.
#[derive(Debug)]
pub(crate) struct GatewaySession {
    pub(crate) id: String,
    pub(crate) intents: u64,
    /// The latest events, oldest first.
    pub(crate) events: VecDeque<SessionEvent>,
    /// Number of the last event, of `READY` or of `RESUMED`.
    pub(crate) last: u64,
    /// Number of the last event that is no longer kept.
    pub(crate) forgotten: u64,
    /// The connection that reads the session.
    pub(crate) connection: Option<usize>,
    /// Time since which it has no connection, in milliseconds of the fake's clock.
    pub(crate) left: i64,
}

impl GatewaySession {
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn add(&mut self, event: SessionEvent) {
        self.events.push_back(event);
        if self.events.len() > HISTORY
            && let Some(oldest) = self.events.pop_front()
        {
            self.forgotten = oldest.number;
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct SocketConnection {
    pub(crate) outbox: VecDeque<Out>,
    /// Set once the connection gets no more events.
    pub(crate) is_leaving: bool,
    /// The session, once identified or resumed.
    pub(crate) session: Option<String>,
    pub(crate) last_beat: Instant,
}

impl SocketConnection {
    pub(crate) fn new() -> Self {
        Self {
            outbox: VecDeque::new(),
            is_leaving: false,
            session: None,
            last_beat: Instant::now(),
        }
    }
}

/// A task for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Text(String),
    Binary(Vec<u8>),
    Ping,
    /// Closes with this code.
    Close(u16),
    Drop,
}
