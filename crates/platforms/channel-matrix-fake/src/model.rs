//! Data of the fake: devices, sent messages and files.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::json::text;

/// An account of the homeserver.
#[derive(Debug, Default)]
pub(crate) struct User {
    pub(crate) password: String,
    pub(crate) display_name: Option<String>,
    pub(crate) avatar_url: Option<String>,
    pub(crate) devices: BTreeMap<String, Device>,
    /// Account data by room and type; the room is empty for global data.
    pub(crate) account_data: BTreeMap<(String, String), (u64, Value)>,
    pub(crate) filters: Vec<Value>,
    /// Cross-signing keys by name: `master_key`, `self_signing_key`, `user_signing_key`.
    pub(crate) signing_keys: BTreeMap<&'static str, Value>,
    /// Position of the most recent change of the account's devices or keys.
    pub(crate) keys_changed: u64,
    /// Position that a client has shown last: it has everything before.
    pub(crate) confirmed: u64,
}

/// A device of an account.
#[derive(Debug, Default)]
pub(crate) struct Device {
    pub(crate) display_name: Option<String>,
    /// The identity keys, as uploaded.
    pub(crate) keys: Option<Value>,
    /// One-time keys that were not claimed yet, oldest first.
    pub(crate) one_time_keys: Vec<(String, Value)>,
    /// Ids and contents of all one-time keys ever uploaded.
    pub(crate) known_keys: BTreeMap<String, Value>,
    /// Fallback keys by algorithm, with `true` once one was used.
    pub(crate) fallback_keys: BTreeMap<String, (String, Value, bool)>,
    /// To-device events that were not confirmed yet, by position.
    pub(crate) inbox: BTreeMap<u64, Value>,
    /// Outcomes of transactions by path.
    pub(crate) transactions: BTreeMap<String, Transaction>,
}

/// A transaction that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) body: Value,
    pub(crate) event_id: String,
}

/// A file in the media repository.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    pub(crate) mime: String,
    pub(crate) name: Option<String>,
    pub(crate) bytes: Bytes,
}

/// A file of a message sent by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// The file name: `filename`, otherwise `body`.
    pub name: String,
    /// The `msgtype`: `m.image`, `m.audio`, `m.video` or `m.file`.
    pub kind: String,
    /// The media type in `info`.
    pub mime: String,
    /// The address (`mxc://…`).
    pub url: String,
    /// The content, as it was uploaded.
    pub bytes: Bytes,
}

/// A message sent by the bot.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// Its event id.
    pub event_id: String,
    /// The room.
    pub room_id: String,
    /// The type of the event: `m.room.message`, `m.room.encrypted`, or another one.
    pub kind: String,
    /// The `msgtype`; empty if it has none.
    pub msgtype: String,
    /// The visible text: `body`, after the last edit.
    pub text: String,
    /// The texts before each edit.
    pub history: Vec<String>,
    /// The visible HTML: `formatted_body`, after the last edit.
    pub html: Option<String>,
    /// The root of the thread.
    pub thread: Option<String>,
    /// The message that it replies to; `None` if the reply is only the fallback of a thread.
    pub reply_to: Option<String>,
    /// The content of the event, without edits.
    pub content: Value,
    /// The content of the last edit: `m.new_content`, or the encrypted event.
    pub edited: Option<Value>,
    /// The transaction id.
    pub transaction: String,
    /// Its files.
    pub files: Vec<SentFile>,
    /// `true` once it was redacted.
    pub is_redacted: bool,
}

/// An action of a person, at its place in the stream of the homeserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The room.
    pub room_id: String,
    /// The event id.
    pub event_id: String,
    pub(crate) position: u64,
}

/// A receipt in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The user whose receipt it is.
    pub user_id: String,
    /// The type: `m.read`, `m.read.private` or `m.fully_read`.
    pub kind: String,
    /// The event up to which the user has read.
    pub event_id: String,
    /// The thread; `None` for an unthreaded receipt.
    pub thread: Option<String>,
    pub(crate) position: u64,
    pub(crate) time: i64,
}

/// An event at its place in a timeline.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) position: u64,
    pub(crate) event: Value,
    /// `true` if an earlier entry has the same event.
    pub(crate) is_repeat: bool,
    /// Number of times that the bot got it.
    pub(crate) deliveries: usize,
    /// Device and transaction id of the client that sent it.
    pub(crate) origin: Option<(String, String)>,
}

impl Entry {
    pub(crate) fn text(&self, key: &str) -> &str {
        text(&self.event, key)
    }

    pub(crate) fn content(&self) -> Map<String, Value> {
        let content = self.event.get("content").and_then(Value::as_object);
        content.cloned().unwrap_or_default()
    }

    /// Returns the type and the key of a state event.
    pub(crate) fn state_key(&self) -> Option<(String, String)> {
        let key = self.event.get("state_key")?.as_str()?;
        Some((self.text("type").to_owned(), key.to_owned()))
    }
}

/// A room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) entries: Vec<Entry>,
    /// Users that type, with the end of it in milliseconds of the fake's clock.
    pub(crate) typing: BTreeMap<String, i64>,
    /// Position of the most recent change of `typing`.
    pub(crate) typing_changed: u64,
    pub(crate) receipts: Vec<Receipt>,
    /// `true` if invitations into it have `is_direct`.
    pub(crate) is_direct: bool,
}

impl Room {
    /// Returns the state after the event at a position.
    pub(crate) fn state_at(&self, position: u64) -> BTreeMap<(String, String), &Entry> {
        let before = self.entries.iter();
        let before = before.filter(|entry| entry.position <= position && !entry.is_repeat);
        let states = before.filter_map(|entry| Some((entry.state_key()?, entry)));
        states.collect()
    }

    pub(crate) fn state(&self) -> BTreeMap<(String, String), &Entry> {
        self.state_at(u64::MAX)
    }

    /// Returns the content of a state event.
    pub(crate) fn state_content(&self, kind: &str, key: &str) -> Option<Map<String, Value>> {
        let state = self.state();
        let entry = state.get(&(kind.to_owned(), key.to_owned()))?;
        Some(entry.content())
    }

    /// Returns the entry of a user's membership after the event at a position.
    pub(crate) fn member_at(&self, user: &str, position: u64) -> Option<&Entry> {
        let is_member = |entry: &&Entry| {
            entry.position <= position
                && entry.text("type") == "m.room.member"
                && entry.event.get("state_key").and_then(Value::as_str) == Some(user)
        };
        self.entries.iter().rev().find(is_member)
    }

    /// Returns a membership after the event at a position; `leave` if there is none.
    pub(crate) fn membership_at(&self, user: &str, position: u64) -> String {
        let member = self.member_at(user, position);
        let content = member.map(Entry::content).unwrap_or_default();
        let membership = content.get("membership").and_then(Value::as_str);
        membership.unwrap_or("leave").to_owned()
    }

    pub(crate) fn membership(&self, user: &str) -> String {
        self.membership_at(user, u64::MAX)
    }

    /// Returns the users of a membership.
    pub(crate) fn users(&self, membership: &str) -> Vec<String> {
        let state = self.state();
        let members = state.iter().filter(|((kind, _), entry)| {
            let content = entry.content();
            let is = content.get("membership").and_then(Value::as_str);
            kind == "m.room.member" && is == Some(membership)
        });
        members.map(|((_, user), _)| user.clone()).collect()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.state_content("m.room.encryption", "").is_some()
    }

    pub(crate) fn power(&self, user: &str) -> i64 {
        let levels = self.state_content("m.room.power_levels", "");
        let users = levels.as_ref().and_then(|levels| levels.get("users"));
        let power = users.and_then(|users| users.get(user));
        power.and_then(Value::as_i64).unwrap_or_default()
    }

    pub(crate) fn creator(&self) -> String {
        let first = self.entries.first();
        first.map_or_else(String::new, |entry| entry.text("sender").to_owned())
    }

    pub(crate) fn entry_at(&self, position: u64) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.position == position)
    }

    pub(crate) fn entry(&self, event_id: &str) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.text("event_id") == event_id)
    }
}
