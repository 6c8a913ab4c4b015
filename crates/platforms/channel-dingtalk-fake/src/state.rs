//! State of the fake. Every method of the API changes it in one step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::Utc;
use nanobot_testkit::{Called, Calls};
use serde_json::Value;
use tokio::time::Instant;

use crate::account::{CARD_KEY, CARD_TEMPLATE};
use crate::connection::{Delivery, Push, SocketConnection, SystemFrame, Ticket};
use crate::fault::Fault;
use crate::incoming::Person;
use crate::model::{Address, Card, Chat, Resource, StoredMessage, StoredSend};

/// Time limit for an acknowledgement. DingTalk does not document its own.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest text of a message, in bytes.
const TEXT_LIMIT: usize = 20_000;

/// A call of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the call: `token`, `connection.open`; `robot.private` and `robot.group` send a
    /// message; `file.url` exchanges a download code, `file.get` is the download; `media.upload`;
    /// `card.create`, `card.stream`, `card.update`; `session.send` is a reply to a
    /// `sessionWebhook`.
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

/// An access token.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) value: String,
    /// Milliseconds of the fake's clock.
    pub(crate) expires: i64,
}

#[derive(Debug)]
pub(crate) struct DingTalkState {
    /// Address of the gateway without its query.
    pub(crate) socket: String,
    /// Address of the older API, which serves the files, too.
    pub(crate) oapi: String,
    /// Time by which the fake's clock is fast.
    pub(crate) advanced: Duration,
    pub(crate) acknowledge_timeout: Duration,
    pub(crate) text_limit: usize,
    /// `true` if only the documented types of files can be uploaded.
    pub(crate) only_listed_files: bool,
    /// `true` if new connections begin with `CONNECTED` and `REGISTERED`.
    pub(crate) announces_connections: bool,
    pub(crate) is_revoked: bool,
    pub(crate) is_down: bool,
    pub(crate) is_stalled: bool,
    pub(crate) denied_scopes: BTreeSet<String>,
    /// Staff ids of people who get no more messages from the robot for now.
    pub(crate) controlled: BTreeSet<String>,
    pub(crate) tokens: Vec<Token>,
    /// People by staff id.
    pub(crate) people: BTreeMap<String, Person>,
    pub(crate) chats: BTreeMap<String, Chat>,
    pub(crate) messages: BTreeMap<String, StoredMessage>,
    pub(crate) sent: Vec<StoredSend>,
    /// Uploads by media id.
    pub(crate) uploads: BTreeMap<String, Resource>,
    /// Files of people by download code.
    pub(crate) files: BTreeMap<String, Resource>,
    pub(crate) addresses: BTreeMap<String, Address>,
    pub(crate) sessions: BTreeMap<String, Address>,
    /// Templates of cards, with their variable.
    pub(crate) templates: BTreeMap<String, String>,
    pub(crate) cards: BTreeMap<String, Card>,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) complaints: Vec<String>,
    pub(crate) tickets: BTreeMap<String, Ticket>,
    pub(crate) pushes: Vec<Push>,
    pub(crate) in_flight: BTreeMap<String, Delivery>,
    pub(crate) system_frames: BTreeMap<String, SystemFrame>,
    pub(crate) connections: BTreeMap<usize, SocketConnection>,
    /// Number of connections made so far.
    pub(crate) connected: usize,
    /// Number of WebSocket pings received.
    pub(crate) pings: usize,
    /// Number of answered `ping` frames.
    pub(crate) answered_pings: usize,
    last: u64,
}

impl Default for DingTalkState {
    fn default() -> Self {
        let template = (CARD_TEMPLATE.to_owned(), CARD_KEY.to_owned());
        Self {
            socket: String::new(),
            oapi: String::new(),
            advanced: Duration::ZERO,
            acknowledge_timeout: ACKNOWLEDGE_TIMEOUT,
            text_limit: TEXT_LIMIT,
            only_listed_files: false,
            announces_connections: false,
            is_revoked: false,
            is_down: false,
            is_stalled: false,
            denied_scopes: BTreeSet::new(),
            controlled: BTreeSet::new(),
            tokens: Vec::new(),
            people: BTreeMap::new(),
            chats: BTreeMap::new(),
            messages: BTreeMap::new(),
            sent: Vec::new(),
            uploads: BTreeMap::new(),
            files: BTreeMap::new(),
            addresses: BTreeMap::new(),
            sessions: BTreeMap::new(),
            templates: BTreeMap::from([template]),
            cards: BTreeMap::new(),
            calls: Calls::default(),
            complaints: Vec::new(),
            tickets: BTreeMap::new(),
            pushes: Vec::new(),
            in_flight: BTreeMap::new(),
            system_frames: BTreeMap::new(),
            connections: BTreeMap::new(),
            connected: 0,
            pings: 0,
            answered_pings: 0,
            last: 0,
        }
    }
}

impl DingTalkState {
    /// Returns a number that was never returned before.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns an id that was never returned before.
    pub(crate) fn next_id(&mut self, prefix: &str) -> String {
        format!("{prefix}{:024x}", self.next())
    }

    /// Returns the time of the fake's clock, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let advanced = i64::try_from(self.advanced.as_millis()).unwrap_or(i64::MAX);
        Utc::now().timestamp_millis().saturating_add(advanced)
    }
}
