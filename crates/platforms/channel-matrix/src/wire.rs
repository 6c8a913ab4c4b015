//! What the homeserver sends, read leniently: an unreadable piece is passed over, and never ends
//! the rest.

use nanobot_channel::Value;
use nanobot_matrix_crypto::SyncChanges;

use crate::id::{is_event_id, is_room_id, is_user_id};

/// Longest text of an event that is used, in bytes. Events have at most 65,536.
const TEXT_LIMIT: usize = 64 << 10;

/// An event of a room.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event(pub(crate) Value);

impl Event {
    /// Returns the type; empty without one.
    pub(crate) fn kind(&self) -> &str {
        text(&self.0, "type")
    }

    /// Returns the sender, if it can be one.
    pub(crate) fn sender(&self) -> Option<&str> {
        Some(text(&self.0, "sender")).filter(|sender| is_user_id(sender))
    }

    /// Returns the id, if it can be one.
    pub(crate) fn id(&self) -> Option<&str> {
        Some(text(&self.0, "event_id")).filter(|id| is_event_id(id))
    }

    /// Returns the content.
    pub(crate) fn content(&self) -> &Value {
        member(&self.0, "content")
    }

    /// Returns the key of a state event.
    pub(crate) fn state_key(&self) -> Option<&str> {
        self.0.get("state_key")?.as_str()
    }

    /// `true` for events that may be a message of a person.
    pub(crate) fn is_message(&self) -> bool {
        matches!(
            self.kind(),
            "m.room.message" | "m.room.encrypted" | "m.sticker"
        )
    }

    /// `true` for the steps of a verification that takes place in the room.
    pub(crate) fn is_of_verification(&self) -> bool {
        let is_request = self.kind() == "m.room.message"
            && text(self.content(), "msgtype") == "m.key.verification.request";
        is_request || self.kind().starts_with("m.key.verification.")
    }

    /// Returns the same event with the decrypted type and content. Sender, id and room stay those
    /// that the homeserver reported, which are not part of what was encrypted.
    pub(crate) fn decrypted(&self, clear: &Value) -> Self {
        let mut event = self.0.clone();
        if let Some(members) = event.as_object_mut() {
            for name in ["type", "content"] {
                members.insert(name.to_owned(), member(clear, name).clone());
            }
        }
        Self(event)
    }
}

/// The changes of a joined room.
#[derive(Debug)]
pub(crate) struct JoinedRoom {
    pub(crate) id: String,
    pub(crate) state: Vec<Event>,
    pub(crate) timeline: Vec<Event>,
    /// `true` if events between the last sync and the timeline are left out.
    pub(crate) is_limited: bool,
    /// The position before the timeline.
    pub(crate) prev_batch: Option<String>,
    pub(crate) joined: Option<u64>,
    pub(crate) invited: Option<u64>,
}

/// The answer to a sync.
#[derive(Debug)]
pub(crate) struct SyncResponse {
    pub(crate) next_batch: String,
    pub(crate) joined: Vec<JoinedRoom>,
    /// Rooms with an invitation, and their stripped state.
    pub(crate) invited: Vec<(String, Vec<Event>)>,
    pub(crate) left: Vec<String>,
    pub(crate) account_data: Vec<Event>,
    pub(crate) encryption: SyncChanges,
}

impl SyncResponse {
    /// Reads the answer to a sync. `None` without the position of the next one.
    pub(crate) fn read(mut answer: Value) -> Option<Self> {
        let next_batch = text(&answer, "next_batch").to_owned();
        if next_batch.is_empty() || next_batch.len() > 4096 {
            return None;
        }
        let mut rooms = take(&mut answer, "rooms");
        let encryption = SyncChanges {
            to_device: list(take(&mut answer, "to_device")),
            device_lists: take(&mut answer, "device_lists"),
            one_time_keys_count: take(&mut answer, "device_one_time_keys_count"),
            unused_fallback_keys: unused_fallback_keys(&answer),
            next_batch: next_batch.clone(),
        };
        Some(Self {
            next_batch,
            joined: members(take(&mut rooms, "join"))
                .map(|(id, room)| joined_room(id, room))
                .collect(),
            invited: members(take(&mut rooms, "invite"))
                .map(|(id, mut room)| (id, events(take(&mut room, "invite_state"))))
                .collect(),
            left: members(take(&mut rooms, "leave"))
                .map(|(id, _)| id)
                .collect(),
            account_data: events(take(&mut answer, "account_data")),
            encryption,
        })
    }
}

fn joined_room(id: String, mut room: Value) -> JoinedRoom {
    let mut timeline = take(&mut room, "timeline");
    let summary = take(&mut room, "summary");
    let count = |name: &str| summary.get(name).and_then(Value::as_u64);
    JoinedRoom {
        id,
        state: events(take(&mut room, "state")),
        is_limited: timeline.get("limited") == Some(&Value::Bool(true)),
        prev_batch: Some(text(&timeline, "prev_batch").to_owned())
            .filter(|token| !token.is_empty()),
        timeline: events(timeline.take()),
        joined: count("m.joined_member_count"),
        invited: count("m.invited_member_count"),
    }
}

fn unused_fallback_keys(answer: &Value) -> Option<Vec<String>> {
    let kinds = answer.get("device_unused_fallback_key_types")?.as_array()?;
    let kinds = kinds.iter().filter_map(Value::as_str);
    Some(kinds.map(str::to_owned).collect())
}

/// Returns the events of a section of a sync.
fn events(section: Value) -> Vec<Event> {
    list(section).into_iter().map(Event).collect()
}

fn list(mut section: Value) -> Vec<Value> {
    match take(&mut section, "events") {
        Value::Array(events) => events,
        _ => Vec::new(),
    }
}

/// Returns the rooms of a section.
fn members(section: Value) -> impl Iterator<Item = (String, Value)> {
    let rooms = match section {
        Value::Object(rooms) => rooms,
        _ => serde_json::Map::new(),
    };
    rooms.into_iter().filter(|(id, _)| is_room_id(id))
}

fn take(value: &mut Value, name: &str) -> Value {
    value.get_mut(name).map(Value::take).unwrap_or_default()
}

/// Returns a member; `null` if there is none.
pub(crate) fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// Returns a text of an object, cut at a limit; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    let text = member(value, name).as_str().unwrap_or_default();
    cut(text, TEXT_LIMIT)
}

/// Returns the beginning of a text of at most `limit` bytes.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sync_is_read_as_far_as_it_is_readable() {
        let answer = json!({
            "next_batch": "s2", "account_data": {"events": [{"type": "m.direct"}]},
            "rooms": {
                "join": {
                    "!a:x": {
                        "timeline": {
                            "events": [{"event_id": "$1", "type": "m.room.message"}, 7],
                            "limited": true, "prev_batch": "p1",
                        },
                        "state": {"events": "none"},
                        "summary": {"m.joined_member_count": 2, "m.invited_member_count": "x"},
                    },
                    "no room": {}, "!b:x": 5,
                },
                "invite": {"!c:x": {"invite_state": {"events": [{}]}}}, "leave": {"!d:x": null},
            },
            "to_device": {"events": [{"type": "m.room_key"}]},
            "device_unused_fallback_key_types": ["signed_curve25519", 5],
        });
        let read = SyncResponse::read(answer).unwrap();
        assert_eq!(read.joined.len(), 2);
        let room = &read.joined[0];
        assert_eq!(
            (room.id.as_str(), room.timeline.len(), room.state.len()),
            ("!a:x", 2, 0)
        );
        assert_eq!(
            (room.is_limited, room.prev_batch.as_deref()),
            (true, Some("p1"))
        );
        assert_eq!((room.joined, room.invited), (Some(2), None));
        assert_eq!((read.invited.len(), read.left.len()), (1, 1));
        assert_eq!(read.encryption.to_device.len(), 1);
        assert_eq!(
            read.encryption.unused_fallback_keys,
            Some(vec!["signed_curve25519".to_owned()])
        );
        for answer in [json!({}), json!({"next_batch": 5}), json!([]), json!(null)] {
            assert!(SyncResponse::read(answer).is_none());
        }
    }

    #[test]
    fn decrypted_event_keeps_sender_id_and_room() {
        let event = Event(json!({
            "sender": "@ann:x", "event_id": "$1", "type": "m.room.encrypted", "content": {},
        }));
        let clear = json!({
            "sender": "@eve:x", "event_id": "$2", "room_id": "!other:x",
            "type": "m.room.message", "content": {"body": "hi"},
        });
        let found = event.decrypted(&clear);
        assert_eq!((found.sender(), found.id()), (Some("@ann:x"), Some("$1")));
        assert_eq!(
            (found.kind(), text(found.content(), "body")),
            ("m.room.message", "hi")
        );
        assert!(found.0.get("room_id").is_none());
    }
}
