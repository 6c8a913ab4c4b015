//! Connections: pushes, deliveries in flight, and tasks.

use std::collections::VecDeque;

use serde_json::Value;
use tokio::time::Instant;

/// A callback or an event for the app.
#[derive(Debug)]
pub(crate) struct Push {
    /// Type of its frames: `CALLBACK` or `EVENT`.
    pub(crate) kind: &'static str,
    pub(crate) topic: String,
    /// Type of an event; empty for a callback.
    pub(crate) event_type: String,
    pub(crate) data: String,
    /// `true` if it goes to connections without a subscription, too.
    pub(crate) is_forced: bool,
    pub(crate) is_acknowledged: bool,
    /// `true` while it waits for a connection.
    pub(crate) is_waiting: bool,
    pub(crate) deliveries: usize,
    pub(crate) retries: u32,
    /// Number of answers that asked for another delivery.
    pub(crate) refusals: usize,
    /// Content of the acknowledgement; `Null` if it has none.
    pub(crate) answer: Value,
}

impl Push {
    pub(crate) fn new(kind: &'static str, topic: &str, data: String) -> Self {
        Self {
            kind,
            topic: topic.to_owned(),
            event_type: String::new(),
            data,
            is_forced: false,
            is_acknowledged: false,
            is_waiting: true,
            deliveries: 0,
            retries: 0,
            refusals: 0,
            answer: Value::Null,
        }
    }
}

/// A delivery in flight.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) push: usize,
    pub(crate) connection: usize,
    pub(crate) at: Instant,
    pub(crate) is_over: bool,
}

/// A frame about the connection that the client may answer.
#[derive(Debug)]
pub(crate) struct SystemFrame {
    pub(crate) connection: usize,
    pub(crate) topic: String,
    pub(crate) data: Value,
}

/// A subscription of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// `CALLBACK` or `EVENT`.
    pub(crate) kind: String,
    /// The topic; `*` for all.
    pub(crate) topic: String,
}

/// A ticket for one connection.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    /// Milliseconds of the fake's clock.
    pub(crate) expires: i64,
    pub(crate) subscriptions: Vec<Subscription>,
}

/// An open connection.
#[derive(Debug, Default)]
pub(crate) struct SocketConnection {
    pub(crate) outbox: VecDeque<Out>,
    /// Set once the connection gets no more pushes.
    pub(crate) is_leaving: bool,
    pub(crate) subscriptions: Vec<Subscription>,
}

impl SocketConnection {
    /// Returns `true` if the push goes to this connection.
    pub(crate) fn takes(&self, push: &Push) -> bool {
        let is_subscribed = |wanted: &Subscription| {
            wanted.kind == push.kind && (wanted.topic == "*" || wanted.topic == push.topic)
        };
        !self.is_leaving && (push.is_forced || self.subscriptions.iter().any(is_subscribed))
    }
}

/// A task for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Text(String),
    Binary(Vec<u8>),
    Ping,
    Close,
    Drop,
}
