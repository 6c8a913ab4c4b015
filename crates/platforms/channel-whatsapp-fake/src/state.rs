//! State of the fake. Every frame changes it in one step.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use chrono::Utc;
use nanobot_testkit::{Called, Calls};
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{Role, SocketConnection};
use crate::fault::Fault;
use crate::incoming::Incoming;
use crate::journal::Journal;
use crate::link::Link;
use crate::model::{KnownMessage, ReceivedFile, SentMessage};

/// Largest piece of a file, before base64.
pub(crate) const PIECE_LIMIT: usize = 512 << 10;
/// Largest file.
const FILE_LIMIT: usize = 100 << 20;
/// Longest text, in characters.
const TEXT_LIMIT: usize = 65_536;
/// Number of ids of sent messages that the bridge knows.
const ID_LIMIT: usize = 10_000;

/// A frame of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The `type` of the frame.
    pub method: String,
    /// The `requestId`; empty if there is none.
    pub request_id: String,
    /// The frame.
    pub body: Value,
    /// Number of the connection, from 1.
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
pub(crate) struct WhatsAppState {
    /// Protocol of the bridge.
    pub(crate) serves: Role,
    pub(crate) token: String,
    pub(crate) is_revoked: bool,
    /// Time by which the fake's clock is fast.
    pub(crate) advanced: Duration,
    pub(crate) is_down: bool,
    pub(crate) is_stalled: bool,
    pub(crate) link: Link,
    pub(crate) piece_limit: usize,
    pub(crate) file_limit: usize,
    pub(crate) text_limit: usize,
    pub(crate) id_limit: usize,
    /// Chats by JID: `false` if the account is no member, or is blocked.
    pub(crate) chats: BTreeMap<String, bool>,
    /// JIDs of phone numbers by LID.
    pub(crate) numbers: BTreeMap<String, String>,
    /// Messages by id.
    pub(crate) messages: BTreeMap<String, KnownMessage>,
    /// Messages of people that wait until the account is connected.
    pub(crate) waiting: Vec<(String, Incoming)>,
    pub(crate) journal: Journal,
    /// Files of messages by `ref`.
    pub(crate) files: BTreeMap<String, ReceivedFile>,
    pub(crate) sent: Vec<SentMessage>,
    /// Ids of messages whose sending was confirmed.
    pub(crate) sent_ids: VecDeque<String>,
    /// Emojis of the bot by message.
    pub(crate) reactions: BTreeMap<String, String>,
    /// Ids of messages that the bot marked as read.
    pub(crate) read: Vec<String>,
    /// Chats in which the bot is typing.
    pub(crate) typing: Vec<String>,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) complaints: Vec<String>,
    pub(crate) connections: BTreeMap<usize, SocketConnection>,
    /// Answers that a fault holds back, with their connections.
    pub(crate) held: Vec<(usize, String)>,
    /// Number of connections made so far.
    pub(crate) connected: usize,
    /// Number of clients that got `ready` so far.
    pub(crate) readied: usize,
    /// Number of clients that were closed with 4009 so far.
    pub(crate) rivals: usize,
    /// Number of WebSocket pings received.
    pub(crate) pings: usize,
    last: u64,
}

impl WhatsAppState {
    pub(crate) fn new(serves: Role, token: &str) -> Self {
        Self {
            serves,
            token: token.to_owned(),
            is_revoked: false,
            advanced: Duration::ZERO,
            is_down: false,
            is_stalled: false,
            link: Link::default(),
            piece_limit: PIECE_LIMIT,
            file_limit: FILE_LIMIT,
            text_limit: TEXT_LIMIT,
            id_limit: ID_LIMIT,
            chats: BTreeMap::new(),
            numbers: BTreeMap::new(),
            messages: BTreeMap::new(),
            waiting: Vec::new(),
            journal: Journal::default(),
            files: BTreeMap::new(),
            sent: Vec::new(),
            sent_ids: VecDeque::new(),
            reactions: BTreeMap::new(),
            read: Vec::new(),
            typing: Vec::new(),
            calls: Calls::default(),
            complaints: Vec::new(),
            connections: BTreeMap::new(),
            held: Vec::new(),
            connected: 0,
            readied: 0,
            rivals: 0,
            pings: 0,
            last: 0,
        }
    }

    /// Returns an id that was never returned before, as the bridge makes them.
    pub(crate) fn next_id(&mut self, prefix: &str) -> String {
        self.last += 1;
        format!("{prefix}{:018X}", self.last)
    }

    /// Returns the time of the fake's clock, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let advanced = i64::try_from(self.advanced.as_millis()).unwrap_or(i64::MAX);
        Utc::now().timestamp_millis().saturating_add(advanced)
    }

    pub(crate) fn complain(&mut self, what: impl Into<String>) {
        self.complaints.push(what.into());
    }

    /// Returns the name of a chat that does not depend on the JID by which it is addressed: a
    /// person has a phone number and a LID.
    pub(crate) fn canonical(&self, chat: &str) -> String {
        let number = self.numbers.get(chat).map(String::as_str);
        number.unwrap_or(chat).to_owned()
    }
}
