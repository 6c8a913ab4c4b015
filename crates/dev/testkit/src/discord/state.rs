//! State of the fake. Every call changes it in one step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::Value;

use super::command::{Answer, OpenInteraction, USUAL_ANSWER_TIME};
use super::incoming::Person;
use super::messages::{Message, SentMessage, StoredFile};
use super::session::Session;
use super::{Fault, Order};
use crate::calls::{Called, Calls};

const FIRST_ID: u64 = 900_000_000_000_000_000;
const USUAL_HEARTBEAT: u64 = 41_250;
const USUAL_UPLOAD_LIMIT: usize = 10 << 20;

/// A call of the REST API.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the call (`createMessage`); see the table in the handler's module.
    pub method: String,
    /// Path below the API's base.
    pub path: String,
    /// JSON of the body, or of its `payload_json`.
    pub body: Value,
    /// Number of files in the request.
    pub files: usize,
}

impl Called for Call {
    fn method(&self) -> &str {
        &self.method
    }
}

/// Location of a pushed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Id of the channel.
    pub channel_id: u64,
    /// Id of the message or the interaction.
    pub message_id: u64,
    /// Sequence number of the event in the newest session; `None` if no session has its intent.
    pub number: Option<u64>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) gateway_url: String,
    pub(super) file_base: String,
    pub(super) heartbeat_interval: u64,
    pub(super) answer_time: Duration,
    pub(super) upload_limit: usize,
    /// Recommended number of shards.
    pub(super) shards: u64,
    /// Remaining session starts, and the milliseconds until the limit resets.
    pub(super) session_starts: (u64, u64),
    last_id: u64,
    pub(super) sessions: Vec<Session>,
    pub(super) orders: VecDeque<Order>,
    pub(super) connections: usize,
    pub(super) refuse_connections: usize,
    /// Number of times that all connections were cut.
    pub(super) cuts: usize,
    /// Set while the platform is silent: no connection receives anything.
    pub(super) is_silent: bool,
    pub(super) identifies: usize,
    pub(super) resumes: usize,
    /// Number of resumes that used another URL than the session named.
    pub(super) resumes_elsewhere: usize,
    pub(super) complaints: Vec<String>,
    pub(super) direct: BTreeMap<u64, Person>,
    /// Parent channels of threads, by thread id.
    pub(super) threads: BTreeMap<u64, u64>,
    pub(super) messages: BTreeMap<u64, Message>,
    pub(super) files: BTreeMap<u64, StoredFile>,
    /// Messages by nonce, for requests with an enforced nonce.
    pub(super) nonces: BTreeMap<String, u64>,
    pub(super) interactions: BTreeMap<u64, OpenInteraction>,
    pub(super) answers: Vec<Answer>,
    pub(super) commands: Value,
    pub(super) calls: Calls<Call, Fault>,
    pub(super) forbidden: BTreeSet<u64>,
    pub(super) is_revoked: bool,
    pub(super) is_down: bool,
    pub(super) is_content_disallowed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            gateway_url: String::new(),
            file_base: String::new(),
            heartbeat_interval: USUAL_HEARTBEAT,
            answer_time: USUAL_ANSWER_TIME,
            upload_limit: USUAL_UPLOAD_LIMIT,
            shards: 1,
            session_starts: (999, 14_400_000),
            last_id: FIRST_ID,
            sessions: Vec::new(),
            orders: VecDeque::new(),
            connections: 0,
            refuse_connections: 0,
            cuts: 0,
            is_silent: false,
            identifies: 0,
            resumes: 0,
            resumes_elsewhere: 0,
            complaints: Vec::new(),
            direct: BTreeMap::new(),
            threads: BTreeMap::new(),
            messages: BTreeMap::new(),
            files: BTreeMap::new(),
            nonces: BTreeMap::new(),
            interactions: BTreeMap::new(),
            answers: Vec::new(),
            commands: Value::Array(Vec::new()),
            calls: Calls::default(),
            forbidden: BTreeSet::new(),
            is_revoked: false,
            is_down: false,
            is_content_disallowed: false,
        }
    }
}

impl State {
    /// Returns a new id, larger than all earlier ones.
    pub(super) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn sent(&self) -> Vec<SentMessage> {
        self.messages
            .values()
            .filter(|message| message.is_by_bot)
            .map(|message| self.show(message))
            .collect()
    }

    pub(super) fn reactions_to(&self, message: u64) -> Vec<&str> {
        let message = self.messages.get(&message);
        message
            .map(|message| message.reactions.iter().map(String::as_str).collect())
            .unwrap_or_default()
    }

    pub(super) fn is_acknowledged(&self, pushed: Pushed) -> bool {
        let Some(number) = pushed.number else {
            return false;
        };
        self.sessions
            .last()
            .is_some_and(|session| session.confirmed >= number)
    }

    pub(super) fn delete(&mut self, channel: u64, message: u64) {
        if let Some(message) = self
            .messages
            .get_mut(&message)
            .filter(|message| message.channel == channel)
        {
            message.is_deleted = true;
        }
    }
}
