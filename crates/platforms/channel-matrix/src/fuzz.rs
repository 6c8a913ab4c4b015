//! Parsers of what the homeserver and other people send, for fuzzing and for tests of their
//! bounds. Not part of the API.

use nanobot_channel::{Value, json};

use crate::attachment;
use crate::candidate::{Place, Reader, quoted_text};
use crate::encrypted_file::FileKey;
use crate::mention::OwnNames;
use crate::rooms::{Rooms, present_members};
use crate::wire::{Event, SyncResponse};

fn names() -> OwnNames {
    OwnNames {
        user_id: "@bot:x.test".to_owned(),
        display_name: "Bot".to_owned(),
    }
}

/// Reads the answer to a sync and the messages in it. Returns the number of messages for the
/// assistant; `None` if there is no next position.
pub fn sync(body: &str) -> Option<usize> {
    let answer: Value = json::from_str(body).ok()?;
    let response = SyncResponse::read(answer)?;
    let rooms = Rooms::default();
    for event in &response.account_data {
        rooms.set_direct(event.content());
    }
    let count = response.joined.iter().map(|room| {
        rooms.update(room);
        rooms.encryption(&room.id);
        let messages = room.timeline.iter();
        messages.filter(|event| is_for_assistant(event)).count()
    });
    Some(count.sum())
}

/// Reads an event; `true` if it is a message for the assistant.
pub fn event(body: &str) -> bool {
    let event: Option<Value> = json::from_str(body).ok();
    event.is_some_and(|event| is_for_assistant(&Event(event)))
}

/// Reads the content of a file of a message, and its key.
pub fn file(body: &str) -> bool {
    let content: Value = json::from_str(body).unwrap_or_default();
    let key = content.get("file").and_then(FileKey::read);
    let decrypted = key.and_then(|key| key.decrypt(body.as_bytes().to_vec()));
    let kind = content.get("msgtype").and_then(Value::as_str);
    attachment::file_of(kind.unwrap_or_default(), &content).is_some() || decrypted.is_some()
}

/// Reads the people of a room.
pub fn people(body: &str) -> usize {
    present_members(&json::from_str(body).unwrap_or_default()).len()
}

fn is_for_assistant(event: &Event) -> bool {
    let names = names();
    let reader = Reader {
        names: &names,
        allows_room_mentions: true,
    };
    let place = Place {
        room: "!a:x.test",
        name: "",
        is_direct: false,
        is_encrypted: false,
    };
    quoted_text(event);
    reader.candidate(&place, event, |_| false).is_some()
}
