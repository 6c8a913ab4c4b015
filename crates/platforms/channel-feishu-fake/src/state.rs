//! State of the fake. Every method of the API changes it in one step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::Utc;
use nanobot_testkit::{Called, Calls};
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{AppEvent, ClientConfig, Delivery, SocketConnection};
use crate::fault::Fault;
use crate::incoming::Person;
use crate::model::{Card, Chat, Resource, StoredMessage};

/// Time that Feishu waits for an acknowledgement.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections that an app may have.
const CONNECTION_LIMIT: usize = 50;

/// A call of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the call: `token`, `ws.endpoint`, `bot.info`; `create`, `reply`, `get`, `update`,
    /// `patch` and `delete` of `message`; `create`, `list` and `delete` of `reaction`;
    /// `resource.get`, `image.create`, `file.create`; `create`, `update`, `settings` and `content`
    /// of `card`.
    pub method: String,
    /// Path of the request.
    pub path: String,
    /// Parameters of the query.
    pub query: Value,
    /// JSON of the body, or the texts of a form.
    pub body: Value,
    /// Time of arrival.
    pub at: Instant,
}

impl Called for Call {
    fn method(&self) -> &str {
        &self.method
    }
}

/// A tenant access token.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) value: String,
    /// Milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

#[derive(Debug)]
pub(crate) struct FeishuState {
    /// URL of the long connection without its query.
    pub(crate) socket: String,
    /// Time by which the fake's clock is fast.
    pub(crate) advanced: Duration,
    pub(crate) acknowledge_timeout: Duration,
    pub(crate) client_config: ClientConfig,
    pub(crate) connection_limit: usize,
    pub(crate) table_limit: usize,
    /// Number of parts that the next events are delivered in.
    pub(crate) parts: usize,
    /// `true` if the last part of an event is delivered first.
    pub(crate) reverses_parts: bool,
    /// Number of deliveries of which the last frame will be lost.
    pub(crate) lost_parts: usize,
    /// Number of messages that a chat may get from the bot in a second; `None` for no limit.
    pub(crate) send_limit: Option<usize>,
    /// Number of changes of one message or card in a second; `None` for no limit.
    pub(crate) update_limit: Option<usize>,
    /// Ids of changed messages and cards, with the times of the changes.
    pub(crate) updates: Vec<(String, i64)>,
    pub(crate) only_mentions: bool,
    pub(crate) is_revoked: bool,
    pub(crate) is_down: bool,
    pub(crate) is_stalled: bool,
    pub(crate) denied_scopes: BTreeSet<String>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) people: BTreeMap<String, Person>,
    pub(crate) chats: BTreeMap<String, Chat>,
    pub(crate) messages: BTreeMap<String, StoredMessage>,
    /// The bot's messages in the order of sending.
    pub(crate) sent: Vec<String>,
    /// Messages by chat and `uuid`, with the time of the first call.
    pub(crate) uuids: BTreeMap<(String, String), (String, i64)>,
    pub(crate) resources: BTreeMap<String, Resource>,
    pub(crate) cards: BTreeMap<String, Card>,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) complaints: Vec<String>,
    pub(crate) tickets: BTreeSet<String>,
    pub(crate) events: Vec<AppEvent>,
    pub(crate) in_flight: BTreeMap<String, Delivery>,
    pub(crate) connections: BTreeMap<usize, SocketConnection>,
    /// Number of connections made so far.
    pub(crate) connected: usize,
    /// Number of pings received.
    pub(crate) pings: usize,
    last: u64,
}

impl Default for FeishuState {
    fn default() -> Self {
        Self {
            socket: String::new(),
            advanced: Duration::ZERO,
            acknowledge_timeout: ACKNOWLEDGE_TIMEOUT,
            client_config: ClientConfig::default(),
            connection_limit: CONNECTION_LIMIT,
            table_limit: crate::card::TABLE_LIMIT,
            parts: 1,
            reverses_parts: false,
            lost_parts: 0,
            send_limit: None,
            update_limit: None,
            updates: Vec::new(),
            only_mentions: false,
            is_revoked: false,
            is_down: false,
            is_stalled: false,
            denied_scopes: BTreeSet::new(),
            tokens: Vec::new(),
            people: BTreeMap::new(),
            chats: BTreeMap::new(),
            messages: BTreeMap::new(),
            sent: Vec::new(),
            uuids: BTreeMap::new(),
            resources: BTreeMap::new(),
            cards: BTreeMap::new(),
            calls: Calls::default(),
            complaints: Vec::new(),
            tickets: BTreeSet::new(),
            events: Vec::new(),
            in_flight: BTreeMap::new(),
            connections: BTreeMap::new(),
            connected: 0,
            pings: 0,
            last: 0,
        }
    }
}

impl FeishuState {
    /// Returns a number that was never returned before.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns an id of the usual length that was never returned before.
    pub(crate) fn next_id(&mut self, prefix: &str) -> String {
        format!("{prefix}{:032x}", self.next())
    }

    /// Returns the time of the fake's clock, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        Utc::now().timestamp_millis() + milliseconds(self.advanced)
    }
}

/// Returns a duration in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
