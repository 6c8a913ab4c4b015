//! State of the fake. Every method of the API changes it in one step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::Utc;
use serde_json::Value;
use tokio::time::Instant;

use super::Fault;
use super::api::ApiError;
use super::envelope::{Connection, Event, Sent};
use super::files::{Download, Upload};
use super::incoming::Person;
use super::messages::Message;
use crate::calls::{Called, Calls};

/// Time that Slack waits for an acknowledgement.
const PATIENCE: Duration = Duration::from_secs(3);

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
pub(super) struct State {
    /// Base URL of the Web API and the files.
    pub(super) base: String,
    /// URL of the socket.
    pub(super) socket: String,
    pub(super) patience: Duration,
    pub(super) is_revoked: bool,
    pub(super) is_down: bool,
    pub(super) hides_metadata: bool,
    pub(super) is_stalled: bool,
    pub(super) channels: BTreeMap<String, Channel>,
    pub(super) people: BTreeMap<String, Person>,
    last: u64,
    /// The bot's messages in the order of sending, by conversation and `ts`.
    pub(super) sent: Vec<(String, String)>,
    pub(super) downloads: BTreeMap<String, Download>,
    pub(super) download_count: usize,
    pub(super) uploads: BTreeMap<String, Upload>,
    pub(super) calls: Calls<Call, Fault>,
    pub(super) complaints: Vec<String>,
    pub(super) tickets: BTreeSet<String>,
    pub(super) events: Vec<Event>,
    pub(super) envelopes: BTreeMap<String, Sent>,
    pub(super) connections: BTreeMap<usize, Connection>,
    pub(super) connected: usize,
    pub(super) claimed_connections: Option<usize>,
    /// Number of future connections that are asked to disconnect at once.
    pub(super) storm: usize,
}

#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) name: String,
    pub(super) has_bot: bool,
    pub(super) messages: BTreeMap<String, Message>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            base: String::new(),
            socket: String::new(),
            patience: PATIENCE,
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
            storm: 0,
        }
    }
}

impl State {
    /// Returns a number that was never returned before.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns the id of a new message: seconds, and a part that makes it unique and increasing.
    pub(super) fn next_ts(&mut self) -> String {
        let number = self.next();
        format!("{}.{number:06}", Utc::now().timestamp())
    }

    pub(super) fn add_channel(&mut self, id: &str, name: &str, has_bot: bool) {
        self.channels.insert(
            id.to_owned(),
            Channel {
                name: name.to_owned(),
                has_bot,
                ..Channel::default()
            },
        );
    }

    pub(super) fn meet(&mut self, person: &Person) {
        self.people.insert(person.id.clone(), person.clone());
    }

    /// Returns the id of a conversation that the bot may write to.
    pub(super) fn writable(&self, id: &str) -> Result<String, ApiError> {
        match self.channels.get(id) {
            None => Err(ApiError::new("channel_not_found")),
            Some(channel) if !channel.has_bot => Err(ApiError::new("not_in_channel")),
            Some(_) => Ok(id.to_owned()),
        }
    }

    /// Takes the fault that was scripted for the next call of a method or for another request.
    pub(super) fn fault(&mut self, method: &str) -> Option<Fault> {
        self.calls.fault(method)
    }
}
