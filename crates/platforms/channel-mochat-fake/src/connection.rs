//! Connections of the socket, and their tasks.

use std::collections::{BTreeSet, VecDeque};

use tokio::time::Instant;

/// An open connection.
#[derive(Debug)]
pub(crate) struct SocketConnection {
    pub(crate) outbox: VecDeque<Out>,
    /// Acknowledgements that are held back.
    pub(crate) held: Vec<Out>,
    /// Time at which it was opened.
    pub(crate) opened: Instant,
    /// `true` once the client has logged in.
    pub(crate) is_connected: bool,
    /// Set once the connection gets no more events.
    pub(crate) is_leaving: bool,
    /// Sessions and panels.
    pub(crate) subscriptions: BTreeSet<String>,
    /// Time of the most recent ping.
    pub(crate) pinged: Instant,
    /// Number of pings that were not answered yet.
    pub(crate) unanswered: usize,
}

impl SocketConnection {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            outbox: VecDeque::new(),
            held: Vec::new(),
            opened: now,
            is_connected: false,
            is_leaving: false,
            subscriptions: BTreeSet::new(),
            pinged: now,
            unanswered: 0,
        }
    }

    /// Returns `true` if events reach the client.
    pub(crate) fn listens(&self) -> bool {
        self.is_connected && !self.is_leaving
    }
}

/// A task for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Text(String),
    Binary(Vec<u8>),
    /// A ping of the WebSocket.
    Ping,
    Close,
    Drop,
}
