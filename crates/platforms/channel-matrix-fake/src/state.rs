//! State of the fake. Every call changes it in one step.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::Utc;
use nanobot_testkit::{Called, Calls};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::account::{BOT_DEVICE, BOT_ID, BOT_NAME, BOT_PASSWORD, BOT_TOKEN, Person, SERVER_NAME};
use crate::api::ApiError;
use crate::fault::Fault;
use crate::model::{Device, Entry, Media, Room, SentMessage, User};

/// Largest upload, in bytes.
const UPLOAD_LIMIT: u64 = 50 << 20;
/// Largest event, in bytes.
pub(crate) const EVENT_LIMIT: usize = 65_536;

/// A call by a client of the bot.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the call, see [`METHODS`](crate::METHODS).
    pub method: String,
    /// The decoded variable segments of the path: for `send` the room, the type of the event and
    /// the transaction id.
    pub path: Vec<String>,
    /// Parameters of the query.
    pub query: Value,
    /// JSON of the body; `Null` if there is none.
    pub body: Value,
    /// The device; empty for calls without a token.
    pub device: String,
    /// Time of arrival.
    pub at: Instant,
}

impl Called for Call {
    fn method(&self) -> &str {
        &self.method
    }
}

/// A token that is or was valid.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) user: String,
    pub(crate) device: String,
    /// `true` after a soft logout: the device is kept.
    pub(crate) is_expired: bool,
}

#[derive(Debug)]
pub(crate) struct MatrixState {
    /// Address of the homeserver, without a final slash.
    pub(crate) base: String,
    /// Time by which the fake's clock is fast.
    pub(crate) advanced: Duration,
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) tokens: BTreeMap<String, Token>,
    pub(crate) rooms: BTreeMap<String, Room>,
    /// Files by media id.
    pub(crate) media: BTreeMap<String, Media>,
    pub(crate) upload_limit: u64,
    /// `true` if media is served only to clients that are logged in.
    pub(crate) needs_auth_for_media: bool,
    /// Versions of the specification that the homeserver announces.
    pub(crate) versions: Vec<String>,
    /// `true` if the bot's credentials are invalid.
    pub(crate) is_revoked: bool,
    pub(crate) sent: Vec<SentMessage>,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) complaints: Vec<String>,
    /// Numbers of syncs: that wait, and that were asked to end.
    pub(crate) waiting_syncs: usize,
    pub(crate) ended_syncs: u64,
    /// Position of the newest item in the stream.
    pub(crate) position: u64,
    last: u64,
}

impl MatrixState {
    /// Returns a homeserver with the bot's account.
    pub(crate) fn new() -> Self {
        let mut state = Self {
            base: String::new(),
            advanced: Duration::ZERO,
            users: BTreeMap::new(),
            tokens: BTreeMap::new(),
            rooms: BTreeMap::new(),
            media: BTreeMap::new(),
            upload_limit: UPLOAD_LIMIT,
            needs_auth_for_media: false,
            versions: ["v1.1", "v1.11", "v1.12"].map(str::to_owned).to_vec(),
            is_revoked: false,
            sent: Vec::new(),
            calls: Calls::default(),
            complaints: Vec::new(),
            waiting_syncs: 0,
            ended_syncs: 0,
            position: 0,
            last: 0,
        };
        state.add_user(BOT_ID, BOT_NAME, BOT_PASSWORD);
        state.add_device(BOT_ID, BOT_DEVICE, BOT_TOKEN);
        state
    }

    pub(crate) fn add_user(&mut self, user: &str, name: &str, password: &str) {
        let new = || User {
            password: password.to_owned(),
            display_name: Some(name.to_owned()),
            ..User::default()
        };
        self.users.entry(user.to_owned()).or_insert_with(new);
    }

    /// Adds an account, and a room with the bot.
    pub(crate) fn add_person(&mut self, person: &Person) {
        self.add_account(person);
        if !self.rooms.contains_key(&person.direct()) {
            self.create_room(&person.direct(), &person.user_id);
            self.set_direct(&person.direct());
            self.set_membership(&person.direct(), &person.user_id, BOT_ID, "invite");
            self.set_membership(&person.direct(), BOT_ID, BOT_ID, "join");
        }
    }

    pub(crate) fn add_account(&mut self, person: &Person) {
        self.add_user(&person.user_id, &person.name, &person.password());
    }

    pub(crate) fn add_device(&mut self, user: &str, device: &str, token: &str) {
        let position = self.next_position();
        if let Some(owner) = self.users.get_mut(user) {
            owner
                .devices
                .entry(device.to_owned())
                .or_insert_with(Device::default);
            owner.keys_changed = position;
        }
        let new = Token {
            user: user.to_owned(),
            device: device.to_owned(),
            is_expired: false,
        };
        self.tokens.insert(token.to_owned(), new);
    }

    /// Returns a number that was never returned before.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn next_position(&mut self) -> u64 {
        self.position += 1;
        self.position
    }

    /// Returns the time of the fake's clock, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let advanced = i64::try_from(self.advanced.as_millis()).unwrap_or(i64::MAX);
        Utc::now().timestamp_millis().saturating_add(advanced)
    }

    pub(crate) fn complain(&mut self, what: impl Into<String>) {
        self.complaints.push(what.into());
    }

    pub(crate) fn room(&self, room: &str) -> Result<&Room, ApiError> {
        let found = self.rooms.get(room);
        found.ok_or_else(|| ApiError::not_found("Room"))
    }

    /// Returns a room that the user is in.
    pub(crate) fn joined_room(&self, room: &str, user: &str) -> Result<&Room, ApiError> {
        let found = self.rooms.get(room);
        found
            .filter(|room| room.membership(user) == "join")
            .ok_or_else(|| ApiError::forbidden(format!("User {user} not in room {room}")))
    }

    /// Adds an event to a room, and returns its id and position.
    pub(crate) fn add_event(&mut self, room: &str, new: NewEvent<'_>) -> (String, u64) {
        let position = self.next_position();
        let event_id = format!("$TESTevent{:034}", self.next());
        let mut event = json!({
            "event_id": event_id, "type": new.kind, "sender": new.sender,
            "origin_server_ts": new.time.unwrap_or_else(|| self.now()),
            "content": new.content,
        });
        if let (Some(key), Some(event)) = (new.state_key, event.as_object_mut()) {
            event.insert("state_key".to_owned(), json!(key));
        }
        let room = self.rooms.entry(room.to_owned()).or_default();
        if let Some(key) = new.state_key
            && let Some(before) = room.state_content(new.kind, key)
            && let Some(event) = event.as_object_mut()
        {
            event.insert("unsigned".to_owned(), json!({"prev_content": before}));
        }
        room.entries.push(Entry {
            position,
            event,
            is_repeat: false,
            deliveries: 0,
            origin: new.origin,
        });
        (event_id, position)
    }
}

/// An event that is to be added.
#[derive(Debug, Default)]
pub(crate) struct NewEvent<'a> {
    pub(crate) kind: &'a str,
    pub(crate) sender: &'a str,
    pub(crate) state_key: Option<&'a str>,
    pub(crate) content: Map<String, Value>,
    pub(crate) time: Option<i64>,
    pub(crate) origin: Option<(String, String)>,
}

/// Returns the address of a file (`mxc://…`).
pub(crate) fn mxc(id: &str) -> String {
    format!("mxc://{SERVER_NAME}/{id}")
}
