//! Connections: their configuration, deliveries in flight, and tasks.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::time::Instant;

/// The configuration that the platform gives to clients of the long connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Attempts to reconnect; -1 for no limit.
    pub reconnect_count: i64,
    /// Seconds between attempts.
    pub reconnect_interval: i64,
    /// Maximum of the random pause before the first attempt, in seconds.
    pub reconnect_nonce: i64,
    /// Seconds between pings.
    pub ping_interval: i64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            reconnect_count: -1,
            reconnect_interval: 120,
            reconnect_nonce: 30,
            ping_interval: 120,
        }
    }
}

impl ClientConfig {
    /// Returns a configuration that makes clients reconnect at once, for tests.
    #[must_use]
    pub fn impatient() -> Self {
        Self {
            reconnect_interval: 1,
            reconnect_nonce: 0,
            ..Self::default()
        }
    }

    pub(crate) fn json(self) -> Value {
        json!({
            "ReconnectCount": self.reconnect_count, "ReconnectInterval": self.reconnect_interval,
            "ReconnectNonce": self.reconnect_nonce, "PingInterval": self.ping_interval,
        })
    }
}

/// An event for the app.
#[derive(Debug)]
pub(crate) struct AppEvent {
    /// Header `type` of its frames: `event` or `card`.
    pub(crate) kind: &'static str,
    pub(crate) payload: Vec<u8>,
    /// `true` for a callback: it is delivered once, and its answer counts.
    pub(crate) is_callback: bool,
    pub(crate) is_acknowledged: bool,
    /// `true` while it waits for a connection.
    pub(crate) is_waiting: bool,
    pub(crate) deliveries: usize,
    pub(crate) retries: u32,
    /// Number of answers with another code than 200.
    pub(crate) refusals: usize,
    /// Content of the acknowledgement; `Null` if it has none.
    pub(crate) answer: Value,
}

/// A delivery in flight.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) event: usize,
    pub(crate) connection: usize,
    pub(crate) at: Instant,
    pub(crate) is_over: bool,
}

/// An open connection.
#[derive(Debug, Default)]
pub(crate) struct SocketConnection {
    pub(crate) outbox: VecDeque<Out>,
    /// Set once the connection gets no more events.
    pub(crate) is_leaving: bool,
}

/// A task for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Binary(Vec<u8>),
    Text(String),
    Ping,
    Close,
    Drop,
}
