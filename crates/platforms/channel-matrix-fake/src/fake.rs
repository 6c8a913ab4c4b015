//! The fake as a test uses it: people, rooms, messages and settings.

use std::time::Duration;

use bytes::Bytes;
use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched};
use serde_json::Value;

use crate::account::{Account, BOT_DEVICE, BOT_ID, BOT_PASSWORD, BOT_TOKEN, Person};
use crate::fault::Fault;
use crate::handler;
use crate::incoming::Incoming;
use crate::model::Pushed;
use crate::state::MatrixState;

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct MatrixFake {
    pub(crate) server: Server,
    pub(crate) state: Watched<MatrixState>,
}

impl MatrixFake {
    /// Starts a homeserver with the bot's account, and without people and rooms.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(MatrixState::new());
        let shared = state.clone();
        let server = Server::start(move |request| handler::handle(shared.clone(), request)).await?;
        state.change(|state| state.base = server.url());
        Ok(Self { server, state })
    }

    /// Returns the URL of the homeserver, without a final slash.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the server: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the bot's account.
    #[must_use]
    pub fn bot(&self) -> Account {
        Account {
            user_id: BOT_ID.to_owned(),
            password: BOT_PASSWORD.to_owned(),
            device_id: BOT_DEVICE.to_owned(),
            access_token: BOT_TOKEN.to_owned(),
        }
    }

    /// Advances the fake's clock, which dates events and ends typing.
    pub fn advance(&self, time: Duration) {
        self.state.change(|state| state.advanced += time);
    }

    /// Adds a person, with a direct room: the person invited the bot with `is_direct`, and the bot
    /// is in it.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.add_person(person));
    }

    /// Adds a person without any room.
    pub fn add_account(&self, person: &Person) {
        self.state.change(|state| state.add_account(person));
    }

    /// Logs a person in with a device, for a client that a test runs. The account is added if it
    /// is unknown.
    pub fn log_in(&self, person: &Person, device_id: &str) -> Account {
        let token = format!("syt_TESTtoken_{}_{device_id}", person.local());
        self.state.change(|state| {
            state.add_account(person);
            state.add_device(&person.user_id, device_id, &token);
        });
        Account {
            user_id: person.user_id.clone(),
            password: person.password(),
            device_id: device_id.to_owned(),
            access_token: token,
        }
    }

    /// Adds a room of people and the bot; the first person creates it. Unknown people are added.
    pub fn add_room(&self, room: &str, people: &[Person]) {
        self.state.change(|state| {
            state.add_room(room, people);
            state.set_membership(room, BOT_ID, BOT_ID, "join");
        });
    }

    /// Invites the bot into a room, as a person. The room is created if it is unknown.
    pub fn invite(&self, room: &str, person: &Person) -> Pushed {
        self.state.change(|state| {
            state.add_room(room, std::slice::from_ref(person));
            state.set_membership(room, &person.user_id, BOT_ID, "invite")
        })
    }

    /// Invites the bot into a direct room, as [`MatrixFake::invite`] with `is_direct`.
    pub fn invite_direct(&self, room: &str, person: &Person) -> Pushed {
        self.state.change(|state| {
            state.add_room(room, std::slice::from_ref(person));
            state.set_direct(room);
            state.set_membership(room, &person.user_id, BOT_ID, "invite")
        })
    }

    /// Sets the membership of a person: `join`, `invite`, `leave` or `ban`.
    pub fn set_membership(&self, room: &str, person: &Person, membership: &str) -> Pushed {
        self.state.change(|state| {
            state.add_account(person);
            state.set_membership(room, &person.user_id, &person.user_id, membership)
        })
    }

    /// Removes the bot from a room, as `person`; `leave` kicks and `ban` bans.
    pub fn remove_bot(&self, room: &str, person: &Person, membership: &str) -> Pushed {
        self.state
            .change(|state| state.set_membership(room, &person.user_id, BOT_ID, membership))
    }

    /// Deletes a room without a trace.
    pub fn dissolve(&self, room: &str) {
        self.state.change(|state| state.rooms.remove(room));
    }

    /// Encrypts a room from now on (`m.room.encryption`).
    pub fn encrypt(&self, room: &str) -> Pushed {
        self.state.change(|state| state.encrypt(room))
    }

    /// Sets a state event, as the room's creator.
    pub fn set_state(&self, room: &str, kind: &str, key: &str, content: Value) -> Pushed {
        self.state
            .change(|state| state.set_room_state(room, kind, key, content))
    }

    /// Gives the bot a power level in a room; 50 lets it change the state and redact.
    pub fn set_power(&self, room: &str, power: i64) {
        self.state.change(|state| state.set_power(room, power));
    }

    /// Sends a message from a person. The first message adds its direct room; messages to other
    /// rooms need [`MatrixFake::add_room`] first, otherwise the room is without the bot.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming))
    }

    /// Sends a text from a person in the direct room.
    pub fn says(&self, person: &Person, text: &str) -> Pushed {
        self.push(Incoming::direct(person, text))
    }

    /// Sends two messages that arrive in the wrong order: `later` comes first in the timeline,
    /// although it has the later time.
    pub fn push_reversed(&self, earlier: Incoming, later: Incoming) -> [Pushed; 2] {
        self.state.change(|state| {
            let now = state.now();
            let later = state.push(later.sent_at(now));
            [state.push(earlier.sent_at(now - 1000)), later]
        })
    }

    /// Adds any JSON to the timeline of a room; it is not checked, and no event id is added.
    pub fn push_event(&self, room: &str, event: Value) -> Pushed {
        self.state.change(|state| state.push_raw(room, event))
    }

    /// Sends any JSON as a to-device event to a device of the bot.
    pub fn push_to_device(&self, device_id: &str, event: Value) {
        self.state
            .change(|state| state.add_to_device(BOT_ID, device_id, event));
    }

    /// Delivers the same event again, with the next sync.
    pub fn repeat(&self, pushed: &Pushed) {
        self.state.change(|state| state.repeat(pushed));
    }

    /// Redacts a message, as its sender.
    pub fn redact(&self, pushed: &Pushed) -> Pushed {
        self.state.change(|state| state.redact_pushed(pushed))
    }

    /// Lets a person react to an event (`m.reaction`).
    pub fn react(&self, room: &str, person: &Person, event_id: &str, key: &str) -> Pushed {
        let relation = serde_json::json!({"m.relates_to": {
            "rel_type": "m.annotation", "event_id": event_id, "key": key,
        }});
        self.push(Incoming::to(room, person, "").of_kind("m.reaction", relation))
    }

    /// Lets a person type in a room, or ends it.
    pub fn set_typing(&self, room: &str, person: &Person, is_typing: bool) {
        self.state
            .change(|state| state.set_typing(room, &person.user_id, is_typing.then_some(30_000)));
    }

    /// Adds a file to the media repository, and returns its address (`mxc://…`).
    pub fn add_media(&self, mime: &str, bytes: impl Into<Bytes>) -> String {
        self.state
            .change(|state| state.add_media(mime, None, bytes.into()))
    }

    /// Returns the content of a file in the media repository.
    #[must_use]
    pub fn media(&self, url: &str) -> Option<Bytes> {
        self.state.read(|state| state.media_bytes(url))
    }

    /// Deletes a file of the media repository.
    pub fn delete_media(&self, url: &str) {
        self.state.change(|state| {
            let id = url.rsplit('/').next().unwrap_or_default();
            state.media.remove(id)
        });
    }

    /// Sets the limit of uploads in bytes (50 MiB by default).
    pub fn limit_upload(&self, bytes: u64) {
        self.state.change(|state| state.upload_limit = bytes);
    }

    /// Serves media only through the calls that need a token: the older ones answer 404.
    pub fn require_token_for_media(&self) {
        self.state.change(|state| state.needs_auth_for_media = true);
    }

    /// Sets the versions of the specification that the homeserver announces.
    pub fn announce_versions(&self, versions: &[&str]) {
        let versions = versions.iter().map(|version| (*version).to_owned());
        self.state
            .change(|state| state.versions = versions.collect());
    }

    /// Scripts a fault for the next call of a method that has none yet, by the bot or without a
    /// token; methods are named as in [`METHODS`](crate::METHODS).
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Makes the bot's tokens and password invalid from now on.
    pub fn revoke_credentials(&self) {
        self.state.change(|state| state.is_revoked = true);
    }

    /// Makes the bot's tokens and password valid again.
    pub fn restore_credentials(&self) {
        self.state.change(|state| state.is_revoked = false);
    }

    /// Makes the bot's tokens invalid, with `soft_logout`: a login with the same device goes on.
    pub fn expire_tokens(&self) {
        self.state.change(|state| {
            let tokens = state.tokens.values_mut();
            tokens
                .filter(|token| token.user == BOT_ID)
                .for_each(|token| token.is_expired = true);
        });
    }
}
