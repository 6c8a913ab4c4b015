//! Connections: pushes and tasks.

use std::collections::VecDeque;

use serde_json::Value;

/// A callback for the bot.
#[derive(Debug)]
pub(crate) struct Push {
    /// Command of its frame.
    pub(crate) cmd: String,
    pub(crate) req_id: String,
    pub(crate) body: Value,
    /// `true` while it waits for a connection.
    pub(crate) is_waiting: bool,
    /// Number of frames written.
    pub(crate) deliveries: usize,
}

/// An open connection.
#[derive(Debug, Default)]
pub(crate) struct SocketConnection {
    pub(crate) outbox: VecDeque<Out>,
    /// Set once the connection gets no more pushes.
    pub(crate) is_leaving: bool,
    pub(crate) is_subscribed: bool,
    /// `true` if the gateway forgot the subscription.
    pub(crate) was_subscribed: bool,
}

impl SocketConnection {
    /// Returns `true` if pushes go to this connection.
    pub(crate) fn takes_pushes(&self) -> bool {
        self.is_subscribed && !self.is_leaving
    }
}

/// A task for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Text(String),
    /// The push of this number.
    Push(usize),
    Binary(Vec<u8>),
    Ping,
    Close,
    Drop,
}
