//! Actions of people, as they get into timelines.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::account::BOT_ID;
use crate::incoming::Incoming;
use crate::json::{members, put, text};
use crate::model::{Entry, Media, Pushed};
use crate::state::{MatrixState, NewEvent, mxc};

impl MatrixState {
    /// Adds the message of a person.
    pub(crate) fn push(&mut self, incoming: Incoming) -> Pushed {
        let person = &incoming.person;
        if incoming.room == person.direct() {
            self.add_person(person);
        } else {
            self.add_room(&incoming.room, std::slice::from_ref(person));
        }
        let mut content = members(incoming.content);
        if let Some(file) = incoming.file {
            let url = self.add_media(&file.mime, None, file.bytes);
            content.insert("url".to_owned(), json!(url));
        }
        let new = NewEvent {
            kind: &incoming.kind,
            sender: &person.user_id,
            content,
            time: incoming.sent_at,
            ..NewEvent::default()
        };
        let (event_id, position) = self.add_event(&incoming.room, new);
        let room = self.rooms.get_mut(&incoming.room);
        let entry = room.and_then(|room| room.entries.last_mut());
        if let Some(event) = entry.and_then(|entry| entry.event.as_object_mut()) {
            event.extend(incoming.changes);
        }
        Pushed {
            room_id: incoming.room,
            event_id,
            position,
        }
    }

    /// Adds any JSON to a timeline.
    pub(crate) fn push_raw(&mut self, room: &str, event: Value) -> Pushed {
        let position = self.next_position();
        let event_id = text(&event, "event_id").to_owned();
        let entries = &mut self.rooms.entry(room.to_owned()).or_default().entries;
        entries.push(Entry {
            position,
            event,
            is_repeat: false,
            deliveries: 0,
            origin: None,
        });
        Pushed {
            room_id: room.to_owned(),
            event_id,
            position,
        }
    }

    /// Adds the same event to the timeline again.
    pub(crate) fn repeat(&mut self, pushed: &Pushed) {
        let position = self.next_position();
        let Some(room) = self.rooms.get_mut(&pushed.room_id) else {
            return;
        };
        if let Some(entry) = room.entry_at(pushed.position) {
            let again = Entry {
                position,
                is_repeat: true,
                deliveries: 0,
                ..entry.clone()
            };
            room.entries.push(again);
        }
    }

    /// Redacts an event, as its sender.
    pub(crate) fn redact_pushed(&mut self, pushed: &Pushed) -> Pushed {
        let room = self.rooms.get(&pushed.room_id);
        let entry = room.and_then(|room| room.entry_at(pushed.position));
        let sender = entry.map_or_else(String::new, |entry| entry.text("sender").to_owned());
        let (event_id, position) =
            self.add_redaction(&pushed.room_id, &sender, &pushed.event_id, None, None);
        Pushed {
            room_id: pushed.room_id.clone(),
            event_id,
            position,
        }
    }

    /// Adds a redaction, and removes the content of the event.
    pub(crate) fn add_redaction(
        &mut self,
        room: &str,
        sender: &str,
        event_id: &str,
        reason: Option<&str>,
        origin: Option<(String, String)>,
    ) -> (String, u64) {
        let mut content = json!({"redacts": event_id});
        if let Some(reason) = reason {
            put(&mut content, &["reason"], reason);
        }
        let new = NewEvent {
            kind: "m.room.redaction",
            sender,
            content: members(content),
            origin,
            ..NewEvent::default()
        };
        let (redaction, position) = self.add_event(room, new);
        let Some(room) = self.rooms.get_mut(room) else {
            return (redaction, position);
        };
        // Clients of older room versions look for it here.
        if let Some(last) = room.entries.last_mut().map(|entry| &mut entry.event) {
            put(last, &["redacts"], event_id);
        }
        let because = room.entries.last().map(|entry| entry.event.clone());
        let same = room.entries.iter_mut();
        for entry in same.filter(|entry| entry.text("event_id") == event_id) {
            if let Some(event) = entry.event.as_object_mut() {
                event.insert("content".to_owned(), json!({}));
                event.insert("unsigned".to_owned(), json!({"redacted_because": because}));
            }
        }
        for sent in &mut self.sent {
            sent.is_redacted |= sent.event_id == event_id;
        }
        (redaction, position)
    }

    pub(crate) fn add_media(&mut self, mime: &str, name: Option<String>, bytes: Bytes) -> String {
        let id = format!("TESTmedia{:015}", self.next());
        let url = mxc(&id);
        let mime = mime.to_owned();
        self.media.insert(id, Media { mime, name, bytes });
        url
    }

    pub(crate) fn media_bytes(&self, url: &str) -> Option<Bytes> {
        let id = url.strip_prefix(&mxc(""))?;
        Some(self.media.get(id)?.bytes.clone())
    }

    /// Returns the newest position at which an event is in the timeline.
    fn newest_position(&self, pushed: &Pushed) -> u64 {
        let same = self.entries_of(pushed).map(|entry| entry.position);
        same.max().unwrap_or(pushed.position)
    }

    fn entries_of<'a>(&'a self, pushed: &'a Pushed) -> impl Iterator<Item = &'a Entry> {
        let room = self.rooms.get(&pushed.room_id).into_iter();
        let entries = room.flat_map(|room| &room.entries);
        entries.filter(|entry| {
            entry.position == pushed.position
                || entry.is_repeat && entry.text("event_id") == pushed.event_id
        })
    }

    pub(crate) fn deliveries(&self, pushed: &Pushed) -> usize {
        self.entries_of(pushed).map(|entry| entry.deliveries).sum()
    }

    pub(crate) fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        let bot = self.users.get(BOT_ID);
        bot.is_some_and(|bot| bot.confirmed >= self.newest_position(pushed))
    }
}
