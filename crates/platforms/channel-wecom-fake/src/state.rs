//! State of the fake. Every command changes it in one step.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::Utc;
use nanobot_testkit::{Called, Calls};
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{Push, SocketConnection};
use crate::fault::Fault;
use crate::limit::Limits;
use crate::model::{
    Address, Callback, Chat, EncryptedFile, Media, SentMessage, StoredMessage, Upload,
};

/// Longest text of a message, in bytes.
const TEXT_LIMIT: usize = 20_480;

/// A command of a client, or a download.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The command (`aibot_send_msg`), or `file.get` for a download.
    pub method: String,
    /// The `req_id`; for a download its path and query.
    pub req_id: String,
    /// The body; `Null` if it has none.
    pub body: Value,
    /// Number of the connection, from 1; 0 for a download.
    pub connection: usize,
    /// Time of arrival.
    pub at: Instant,
}

impl Called for Call {
    fn method(&self) -> &str {
        &self.method
    }
}

#[derive(Debug)]
pub(crate) struct WeComState {
    /// Address of the server of files.
    pub(crate) media: String,
    /// Time by which the fake's clock is fast.
    pub(crate) advanced: Duration,
    pub(crate) text_limit: usize,
    /// `true` if pushes wait for a connection.
    pub(crate) keeps_messages: bool,
    pub(crate) is_revoked: bool,
    pub(crate) is_down: bool,
    pub(crate) is_stalled: bool,
    pub(crate) limits: Limits,
    pub(crate) chats: BTreeMap<String, Chat>,
    pub(crate) messages: BTreeMap<String, StoredMessage>,
    /// Callbacks by `req_id`.
    pub(crate) callbacks: BTreeMap<String, Callback>,
    pub(crate) sent: Vec<SentMessage>,
    pub(crate) uploads: BTreeMap<String, Upload>,
    pub(crate) media_files: BTreeMap<String, Media>,
    /// Files of people by their number.
    pub(crate) files: BTreeMap<String, EncryptedFile>,
    pub(crate) addresses: BTreeMap<String, Address>,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) complaints: Vec<String>,
    pub(crate) pushes: Vec<Push>,
    pub(crate) connections: BTreeMap<usize, SocketConnection>,
    /// Answers that a fault holds back, with their connections.
    pub(crate) held: Vec<(usize, String)>,
    /// Number of connections made so far.
    pub(crate) connected: usize,
    /// Number of successful subscriptions so far.
    pub(crate) subscribed: usize,
    /// Number of WebSocket pings received.
    pub(crate) pings: usize,
    last: u64,
}

impl Default for WeComState {
    fn default() -> Self {
        Self {
            media: String::new(),
            advanced: Duration::ZERO,
            text_limit: TEXT_LIMIT,
            keeps_messages: false,
            is_revoked: false,
            is_down: false,
            is_stalled: false,
            limits: Limits::default(),
            chats: BTreeMap::new(),
            messages: BTreeMap::new(),
            callbacks: BTreeMap::new(),
            sent: Vec::new(),
            uploads: BTreeMap::new(),
            media_files: BTreeMap::new(),
            files: BTreeMap::new(),
            addresses: BTreeMap::new(),
            calls: Calls::default(),
            complaints: Vec::new(),
            pushes: Vec::new(),
            connections: BTreeMap::new(),
            held: Vec::new(),
            connected: 0,
            subscribed: 0,
            pings: 0,
            last: 0,
        }
    }
}

impl WeComState {
    /// Returns a number that was never returned before.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns an id that was never returned before.
    pub(crate) fn next_id(&mut self, prefix: &str) -> String {
        format!("{prefix}{:016x}", self.next())
    }

    /// Returns the time of the fake's clock, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let advanced = i64::try_from(self.advanced.as_millis()).unwrap_or(i64::MAX);
        Utc::now().timestamp_millis().saturating_add(advanced)
    }

    pub(crate) fn complain(&mut self, what: impl Into<String>) {
        self.complaints.push(what.into());
    }
}
