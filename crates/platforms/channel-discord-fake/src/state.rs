//! State of the fake. Every call changes it in one step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use nanobot_testkit::{Called, Calls};
use serde_json::Value;
use tokio::time::Instant;

use crate::fault::Fault;
use crate::incoming::Person;
use crate::messages::{SentFile, SentMessage, StoredFile, StoredMessage};
use crate::order::Order;
use crate::session::GatewaySession;

/// Time within which Discord expects a response.
const USUAL_ANSWER_TIME: Duration = Duration::from_secs(3);
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

/// An interaction that waits for its response.
#[derive(Debug)]
pub(crate) struct OpenInteraction {
    pub(crate) token: String,
    pub(crate) asked: Instant,
    pub(crate) kind: u8,
    /// The message that carries the pressed button.
    pub(crate) message: Option<u64>,
    pub(crate) is_answered: bool,
}

/// A response to a command or a button.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Id of the interaction.
    pub interaction: u64,
    /// Type of the response: 4 is a message, 7 an update of the message with the button.
    pub kind: u64,
    /// Content of the message.
    pub data: Value,
}

impl Answer {
    /// Returns `true` if only the user who triggered the interaction can see the response.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.data
            .get("flags")
            .and_then(Value::as_u64)
            .is_some_and(|flags| flags & 64 != 0)
    }
}

#[derive(Debug)]
pub(crate) struct DiscordState {
    pub(crate) gateway_url: String,
    pub(crate) file_base: String,
    pub(crate) heartbeat_interval: u64,
    pub(crate) answer_time: Duration,
    pub(crate) upload_limit: usize,
    /// Recommended number of shards.
    pub(crate) shards: u64,
    /// Remaining session starts, and the milliseconds until the limit resets.
    pub(crate) session_starts: (u64, u64),
    last_id: u64,
    pub(crate) sessions: Vec<GatewaySession>,
    pub(crate) orders: VecDeque<Order>,
    pub(crate) connections: usize,
    pub(crate) refuse_connections: usize,
    /// Number of times that all connections were cut.
    pub(crate) cuts: usize,
    /// Set while the platform is silent: no connection receives anything.
    pub(crate) is_silent: bool,
    pub(crate) identifies: usize,
    pub(crate) resumes: usize,
    /// Number of resumes that used another URL than the session named.
    pub(crate) resumes_elsewhere: usize,
    pub(crate) complaints: Vec<String>,
    pub(crate) direct: BTreeMap<u64, Person>,
    /// Parent channels of threads, by thread id.
    pub(crate) threads: BTreeMap<u64, u64>,
    pub(crate) messages: BTreeMap<u64, StoredMessage>,
    pub(crate) files: BTreeMap<u64, StoredFile>,
    /// Messages by nonce, for requests with an enforced nonce.
    pub(crate) nonces: BTreeMap<String, u64>,
    pub(crate) interactions: BTreeMap<u64, OpenInteraction>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) commands: Value,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) forbidden: BTreeSet<u64>,
    pub(crate) is_revoked: bool,
    pub(crate) is_down: bool,
    pub(crate) is_content_disallowed: bool,
}

impl Default for DiscordState {
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

impl DiscordState {
    /// Returns a new id, larger than all earlier ones.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn sent(&self) -> Vec<SentMessage> {
        self.messages
            .values()
            .filter(|message| message.is_by_bot)
            .map(|message| self.show(message))
            .collect()
    }

    fn show(&self, message: &StoredMessage) -> SentMessage {
        let files = message.files.iter().filter_map(|id| self.files.get(id));
        let rows = message.components.as_array().into_iter().flatten();
        let labels = |row: &Value| -> Vec<String> {
            let buttons = row
                .get("components")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            buttons
                .filter_map(|button| Some(button.get("label")?.as_str()?.to_owned()))
                .collect()
        };
        SentMessage {
            channel_id: message.channel,
            message_id: message.id,
            text: message.text.clone(),
            history: message.history.clone(),
            reply_to: message.replies_to,
            files: files
                .map(|file| SentFile {
                    name: file.name.clone(),
                    bytes: file.bytes.clone(),
                })
                .collect(),
            buttons: rows.map(labels).collect(),
            pings: message.pings.clone(),
            is_deleted: message.is_deleted,
        }
    }

    pub(crate) fn reactions_to(&self, message: u64) -> Vec<&str> {
        let message = self.messages.get(&message);
        message
            .map(|message| message.reactions.iter().map(String::as_str).collect())
            .unwrap_or_default()
    }

    pub(crate) fn is_acknowledged(&self, pushed: Pushed) -> bool {
        let Some(number) = pushed.number else {
            return false;
        };
        self.sessions
            .last()
            .is_some_and(|session| session.confirmed >= number)
    }

    pub(crate) fn delete(&mut self, channel: u64, message: u64) {
        if let Some(message) = self
            .messages
            .get_mut(&message)
            .filter(|message| message.channel == channel)
        {
            message.is_deleted = true;
        }
    }
}
