//! State of the fake. Every call changes it in one step.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::Utc;
use nanobot_testkit::{Called, Calls};
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::SocketConnection;
use crate::fault::Fault;
use crate::incoming::Person;
use crate::model::{Chat, Feed, SentMessage};
use crate::packet::Serializer;

/// Time between two pings of Engine.IO.
const PING_INTERVAL: Duration = Duration::from_secs(25);
/// Time limit for the answer to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the login of a connection.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(45);
/// Longest text of a message, in bytes. Mochat does not document its own.
const TEXT_LIMIT: usize = 20_000;

/// A call of the API or of the socket.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the call: `sessions.list`, `groups.get`; `sessions.watch` is the long poll of a
    /// session and `panels.messages` the history of a panel; `sessions.send` and `panels.send` send
    /// a message. On the socket `connect` is the login, `subscribe.sessions` and `subscribe.panels`
    /// are the calls of the same meaning.
    pub method: String,
    /// The parameters.
    pub body: Value,
    /// Time of arrival.
    pub at: Instant,
}

impl Called for Call {
    fn method(&self) -> &str {
        &self.method
    }
}

#[derive(Debug)]
pub(crate) struct MochatState {
    pub(crate) serializer: Serializer,
    /// Path of the socket, without a final slash.
    pub(crate) socket_path: String,
    pub(crate) ping_interval: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) login_timeout: Duration,
    /// Time by which the fake's clock is fast.
    pub(crate) advanced: Duration,
    pub(crate) text_limit: usize,
    pub(crate) feed: Feed,
    /// `true` if messages of the bot are events, too.
    pub(crate) echoes_sends: bool,
    /// `true` if acknowledgements and answers end at their limit and nothing comes after them.
    pub(crate) keeps_backlog: bool,
    /// Name of the member with the id of a panel.
    pub(crate) panel_id_key: &'static str,
    pub(crate) is_revoked: bool,
    pub(crate) is_down: bool,
    pub(crate) is_stalled: bool,
    pub(crate) holds_acks: bool,
    pub(crate) people: BTreeMap<String, Person>,
    pub(crate) chats: BTreeMap<String, Chat>,
    pub(crate) sent: Vec<SentMessage>,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) complaints: Vec<String>,
    pub(crate) connections: BTreeMap<usize, SocketConnection>,
    /// Number of connections opened so far.
    pub(crate) opened: usize,
    /// Number of logins so far.
    pub(crate) connected: usize,
    /// Number of logins refused so far.
    pub(crate) refused: usize,
    /// Number of WebSocket pings received.
    pub(crate) pings: usize,
    /// Number of answered pings of Engine.IO.
    pub(crate) answered_pings: usize,
    /// Number of times that waiting long polls were ended.
    pub(crate) ended_watches: u64,
    /// Number of long polls that wait.
    pub(crate) waiting_watches: usize,
    last: u64,
}

impl Default for MochatState {
    fn default() -> Self {
        Self::new(Serializer::default())
    }
}

impl MochatState {
    pub(crate) fn new(serializer: Serializer) -> Self {
        Self {
            serializer,
            socket_path: "/socket.io".to_owned(),
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            login_timeout: LOGIN_TIMEOUT,
            advanced: Duration::ZERO,
            text_limit: TEXT_LIMIT,
            feed: Feed::default(),
            echoes_sends: true,
            keeps_backlog: false,
            panel_id_key: "id",
            is_revoked: false,
            is_down: false,
            is_stalled: false,
            holds_acks: false,
            people: BTreeMap::new(),
            chats: BTreeMap::new(),
            sent: Vec::new(),
            calls: Calls::default(),
            complaints: Vec::new(),
            connections: BTreeMap::new(),
            opened: 0,
            connected: 0,
            refused: 0,
            pings: 0,
            answered_pings: 0,
            ended_watches: 0,
            waiting_watches: 0,
            last: 0,
        }
    }

    /// Returns an id that was never returned before.
    pub(crate) fn next_id(&mut self) -> String {
        self.last += 1;
        format!("7e57{:020x}", self.last)
    }

    /// Returns the time of the fake's clock, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let advanced = i64::try_from(self.advanced.as_millis()).unwrap_or(i64::MAX);
        Utc::now().timestamp_millis().saturating_add(advanced)
    }

    /// Records a call and takes the fault scripted for it.
    pub(crate) fn note(&mut self, method: &str, body: Value) -> Option<Fault> {
        self.calls.note(Call {
            method: method.to_owned(),
            body,
            at: Instant::now(),
        })
    }

    pub(crate) fn complain(&mut self, what: &str) {
        self.complaints.push(what.to_owned());
    }
}
