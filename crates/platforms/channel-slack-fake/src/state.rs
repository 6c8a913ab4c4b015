//! State of the fake. Every method of the API changes it in one step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::Utc;
use nanobot_testkit::{Called, Calls};
use serde_json::Value;
use tokio::time::Instant;

use crate::api::ApiError;
use crate::fault::Fault;
use crate::incoming::Person;
use crate::model::{AppEvent, Conversation, Download, Sent, SocketConnection, Upload};

/// Time that Slack waits for an acknowledgement.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(3);

/// A call of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The method (`chat.postMessage`).
    pub method: String,
    /// The arguments: JSON unchanged; texts of queries and forms.
    pub params: Value,
    /// Time of arrival.
    pub at: Instant,
}

impl Called for Call {
    fn method(&self) -> &str {
        &self.method
    }
}

#[derive(Debug)]
pub(crate) struct SlackState {
    /// Base URL of the Web API and the files.
    pub(crate) base: String,
    /// URL of the socket.
    pub(crate) socket: String,
    pub(crate) acknowledge_timeout: Duration,
    pub(crate) is_revoked: bool,
    pub(crate) is_down: bool,
    pub(crate) hides_metadata: bool,
    pub(crate) is_stalled: bool,
    pub(crate) channels: BTreeMap<String, Conversation>,
    pub(crate) people: BTreeMap<String, Person>,
    last: u64,
    /// The bot's messages in the order of sending, by conversation and `ts`.
    pub(crate) sent: Vec<(String, String)>,
    pub(crate) downloads: BTreeMap<String, Download>,
    pub(crate) download_count: usize,
    pub(crate) uploads: BTreeMap<String, Upload>,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) complaints: Vec<String>,
    pub(crate) tickets: BTreeSet<String>,
    pub(crate) events: Vec<AppEvent>,
    pub(crate) envelopes: BTreeMap<String, Sent>,
    pub(crate) connections: BTreeMap<usize, SocketConnection>,
    pub(crate) connected: usize,
    pub(crate) claimed_connections: Option<usize>,
    /// Number of future connections that are asked to disconnect at once.
    pub(crate) disconnects_left: usize,
}

impl Default for SlackState {
    fn default() -> Self {
        Self {
            base: String::new(),
            socket: String::new(),
            acknowledge_timeout: ACKNOWLEDGE_TIMEOUT,
            is_revoked: false,
            is_down: false,
            hides_metadata: false,
            is_stalled: false,
            channels: BTreeMap::new(),
            people: BTreeMap::new(),
            last: 0,
            sent: Vec::new(),
            downloads: BTreeMap::new(),
            download_count: 0,
            uploads: BTreeMap::new(),
            calls: Calls::default(),
            complaints: Vec::new(),
            tickets: BTreeSet::new(),
            events: Vec::new(),
            envelopes: BTreeMap::new(),
            connections: BTreeMap::new(),
            connected: 0,
            claimed_connections: None,
            disconnects_left: 0,
        }
    }
}

impl SlackState {
    /// Returns a number that was never returned before.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns the id of a new message: seconds, and a part that makes it unique and increasing.
    pub(crate) fn next_ts(&mut self) -> String {
        let number = self.next();
        format!("{}.{number:06}", Utc::now().timestamp())
    }

    pub(crate) fn add_channel(&mut self, id: &str, name: &str, has_bot: bool) {
        self.channels.insert(
            id.to_owned(),
            Conversation {
                name: name.to_owned(),
                has_bot,
                ..Conversation::default()
            },
        );
    }

    pub(crate) fn add_person(&mut self, person: &Person) {
        self.people.insert(person.id.clone(), person.clone());
    }

    /// Returns the id of a conversation that the bot may write to.
    pub(crate) fn writable_channel(&self, id: &str) -> Result<String, ApiError> {
        match self.channels.get(id) {
            None => Err(ApiError::new("channel_not_found")),
            Some(channel) if !channel.has_bot => Err(ApiError::new("not_in_channel")),
            Some(_) => Ok(id.to_owned()),
        }
    }

    /// Takes the fault that was scripted for the next call of a method or for another request.
    pub(crate) fn fault(&mut self, method: &str) -> Option<Fault> {
        self.calls.fault(method)
    }
}
