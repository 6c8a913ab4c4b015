//! The joined rooms, and the rooms that are encrypted.
//!
//! Decision: a room that was encrypted once stays so here, whatever the homeserver says later. The
//! ids of such rooms are in a note, as digests, which is on disk before anything is sent to the
//! room. While the channel does not receive, the state of a room is asked for.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_channel::Value;
use nanobot_channel_kit::LateNote;
use nanobot_channel_kit::Noted;
use serde_json::json;

use crate::id::{digest, is_user_id};
use crate::wire::{Event, JoinedRoom, cut, member, text};

/// Most rooms that are remembered.
const MAX_ROOMS: usize = 20_000;
/// Most encrypted rooms in the note.
const MAX_ENCRYPTED: usize = 3000;
/// Longest name of a room, in bytes.
const NAME_LIMIT: usize = 200;
/// The algorithm of a room whose own settings are not known (any more).
const ALGORITHM: &str = "m.megolm.v1.aes-sha2";

/// What is known about a joined room.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Room {
    pub(crate) name: String,
    pub(crate) joined: Option<u64>,
    pub(crate) invited: Option<u64>,
    /// The content of `m.room.encryption`.
    encryption: Option<Value>,
    /// The joined and invited people, if they were asked for since the last change.
    members: Option<Vec<String>>,
}

/// The rooms.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    rooms: Mutex<HashMap<String, Room>>,
    /// Rooms of `m.direct`.
    direct: Mutex<BTreeSet<String>>,
    pub(crate) encrypted: LateNote<EncryptedRooms>,
}

/// The encryption of a room, as far as it is known here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KnownEncryption {
    /// Encrypted, with the content of `m.room.encryption`.
    Encrypted(Value),
    /// Not encrypted, as of the last sync.
    Clear,
    /// Not known.
    Unknown,
}

impl Rooms {
    /// Takes the changes of a room. `true` if it is encrypted from now on: then the note has to be
    /// written.
    pub(crate) fn update(&self, changes: &JoinedRoom) -> bool {
        let mut becomes_encrypted = false;
        let mut rooms = self.rooms();
        if rooms.len() >= MAX_ROOMS && !rooms.contains_key(&changes.id) {
            return false;
        }
        let room = rooms.entry(changes.id.clone()).or_default();
        room.joined = changes.joined.or(room.joined);
        room.invited = changes.invited.or(room.invited);
        if changes.joined.is_some() || changes.invited.is_some() {
            room.members = None;
        }
        for event in changes.state.iter().chain(&changes.timeline) {
            let Some(key) = event.state_key() else {
                continue;
            };
            match event.kind() {
                "m.room.name" if key.is_empty() => {
                    cut(text(event.content(), "name"), NAME_LIMIT).clone_into(&mut room.name);
                }
                "m.room.encryption" if key.is_empty() && event.content().is_object() => {
                    room.encryption = Some(encryption_settings(event.content()));
                    becomes_encrypted |= self.note_encrypted(&changes.id);
                }
                "m.room.member" => room.members = None,
                _ => {}
            }
        }
        becomes_encrypted
    }

    /// Notes that a room is encrypted. `true` if that is new.
    pub(crate) fn note_encrypted(&self, room: &str) -> bool {
        self.encrypted.update(|encrypted| encrypted.insert(room))
    }

    /// Returns what is known about the encryption of a room.
    pub(crate) fn encryption(&self, room: &str) -> KnownEncryption {
        let known = self.rooms().get(room).map(|room| room.encryption.clone());
        let is_noted = self.encrypted.with(|encrypted| encrypted.contains(room));
        match known {
            Some(Some(settings)) => KnownEncryption::Encrypted(settings),
            _ if is_noted => KnownEncryption::Encrypted(json!({"algorithm": ALGORITHM})),
            Some(None) => KnownEncryption::Clear,
            None => KnownEncryption::Unknown,
        }
    }

    /// Takes the rooms of `m.direct`.
    pub(crate) fn set_direct(&self, content: &Value) {
        let lists = content.as_object().into_iter().flat_map(|map| map.values());
        let rooms = lists.filter_map(Value::as_array).flatten();
        let rooms = rooms.filter_map(Value::as_str).take(MAX_ROOMS);
        *self.direct() = rooms.map(str::to_owned).collect();
    }

    /// `true` if the account lists the room as a direct chat.
    pub(crate) fn is_listed_as_direct(&self, room: &str) -> bool {
        self.direct().contains(room)
    }

    /// Returns a room, if it is known.
    pub(crate) fn get(&self, room: &str) -> Option<Room> {
        self.rooms().get(room).cloned()
    }

    /// Returns the people of a room, if they are known.
    pub(crate) fn members(&self, room: &str) -> Option<Vec<String>> {
        self.rooms().get(room)?.members.clone()
    }

    /// Keeps the people of a room until they change.
    pub(crate) fn set_members(&self, room: &str, members: &[String]) {
        if let Some(room) = self.rooms().get_mut(room) {
            room.members = Some(members.to_vec());
        }
    }

    /// Notes the number of people in a room.
    pub(crate) fn set_joined(&self, room: &str, joined: u64) {
        if let Some(room) = self.rooms().get_mut(room) {
            room.joined = Some(joined);
        }
    }

    /// Forgets a room that was left. That it was encrypted is kept.
    pub(crate) fn forget(&self, room: &str) {
        self.rooms().remove(room);
    }

    /// Forgets all rooms, because no more changes are received.
    pub(crate) fn forget_all(&self) {
        self.rooms().clear();
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<String, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn direct(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the settings of an encrypted room that are used.
pub(crate) fn encryption_settings(content: &Value) -> Value {
    let mut settings = json!({"algorithm": ALGORITHM});
    for name in ["rotation_period_ms", "rotation_period_msgs"] {
        if let (Some(number), Some(members)) =
            (member(content, name).as_u64(), settings.as_object_mut())
        {
            members.insert(name.to_owned(), number.into());
        }
    }
    settings
}

/// Returns the joined and invited people of a room, from its member events.
pub(crate) fn present_members(answer: &Value) -> Vec<String> {
    let chunk = member(answer, "chunk").as_array();
    let events = chunk.into_iter().flatten().cloned().map(Event);
    let present = events.filter_map(|event| {
        let membership = text(event.content(), "membership");
        let user = event.state_key().filter(|user| is_user_id(user))?;
        (event.kind() == "m.room.member" && matches!(membership, "join" | "invite"))
            .then(|| user.to_owned())
    });
    present.collect()
}

/// Digests of the ids of encrypted rooms.
#[derive(Debug, Default)]
pub(crate) struct EncryptedRooms(BTreeSet<String>);

impl EncryptedRooms {
    fn contains(&self, room: &str) -> bool {
        self.0.contains(&digest(room, 8))
    }

    fn insert(&mut self, room: &str) -> bool {
        self.0.insert(digest(room, 8))
    }

    /// `true` if no room is encrypted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Noted for EncryptedRooms {
    const NAME: &'static str = "encrypted-rooms";
    type Form = BTreeSet<String>;

    fn form(&self) -> Self::Form {
        self.0.iter().take(MAX_ENCRYPTED).cloned().collect()
    }

    fn restore(&mut self, form: Self::Form) {
        self.0.extend(form);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(state: &Value) -> JoinedRoom {
        let sync = json!({"next_batch": "s", "rooms": {"join": {"!a:x": {
            "state": {"events": state}, "summary": {"m.joined_member_count": 2},
        }}}});
        let mut sync = crate::wire::SyncResponse::read(sync).unwrap();
        sync.joined.remove(0)
    }

    fn encryption() -> Value {
        json!([
            {"type": "m.room.encryption", "state_key": "", "content": {
                "algorithm": "none", "rotation_period_msgs": 5, "rotation_period_ms": "x",
            }},
            {"type": "m.room.name", "state_key": "", "content": {"name": "Room"}},
        ])
    }

    #[test]
    fn encrypted_room_never_becomes_clear_again() {
        let rooms = Rooms::default();
        assert_eq!(rooms.encryption("!a:x"), KnownEncryption::Unknown);
        assert!(!rooms.update(&changes(&json!([]))));
        assert_eq!(rooms.encryption("!a:x"), KnownEncryption::Clear);
        assert!(rooms.update(&changes(&encryption())));
        assert!(!rooms.update(&changes(&encryption())), "known already");
        let settings = json!({"algorithm": ALGORITHM, "rotation_period_msgs": 5});
        assert_eq!(
            rooms.encryption("!a:x"),
            KnownEncryption::Encrypted(settings)
        );
        rooms.update(&changes(&json!([
            {"type": "m.room.encryption", "state_key": "", "content": null},
            {"type": "m.room.encryption", "content": {}},
        ])));
        rooms.forget_all();
        rooms.update(&changes(&json!([])));
        let settings = json!({"algorithm": ALGORITHM});
        assert_eq!(
            rooms.encryption("!a:x"),
            KnownEncryption::Encrypted(settings)
        );
    }

    #[test]
    fn people_are_forgotten_with_each_change() {
        let rooms = Rooms::default();
        rooms.update(&changes(&json!([])));
        rooms.set_members("!a:x", &["@ann:x".to_owned()]);
        assert_eq!(rooms.members("!a:x").unwrap(), ["@ann:x"]);
        rooms.update(&changes(&json!([{
            "type": "m.room.member", "state_key": "@eve:x", "content": {"membership": "join"},
        }])));
        assert_eq!(rooms.members("!a:x"), None);
        assert_eq!(rooms.get("!a:x").unwrap().joined, Some(2));
    }

    #[test]
    fn present_people_are_joined_or_invited() {
        let member = |user: &str, membership: &str| json!({"type": "m.room.member", "state_key": user, "content": {"membership": membership}});
        let answer = json!({"chunk": [
            member("@a:x", "join"), member("@b:x", "invite"), member("@c:x", "leave"),
            member("d", "join"), 5, {"type": "m.room.name"},
        ]});
        assert_eq!(present_members(&answer), ["@a:x", "@b:x"]);
        assert!(present_members(&Value::Null).is_empty());
    }
}
