//! Messages from people.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::account::{BOT_ID, Person};
use crate::json::text as text_of;

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) room: String,
    pub(crate) person: Person,
    pub(crate) kind: String,
    pub(crate) content: Value,
    pub(crate) file: Option<IncomingFile>,
    pub(crate) sent_at: Option<i64>,
    /// Members of the event that are replaced.
    pub(crate) changes: Vec<(String, Value)>,
}

/// A file of a message.
#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
}

impl Incoming {
    /// Returns a text (`m.text`) in the room of the person and the bot.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::to(&person.direct(), person, text)
    }

    /// Returns a text (`m.text`) in a room.
    #[must_use]
    pub fn to(room: &str, person: &Person, text: &str) -> Self {
        Self {
            room: room.to_owned(),
            person: person.clone(),
            kind: "m.room.message".to_owned(),
            content: json!({"msgtype": "m.text", "body": text, "m.mentions": {}}),
            file: None,
            sent_at: None,
            changes: Vec::new(),
        }
    }

    /// Mentions the bot in `m.mentions`; the text does not change.
    #[must_use]
    pub fn mentioning_bot(self) -> Self {
        self.with_content_member("m.mentions", json!({"user_ids": [BOT_ID]}))
    }

    /// Mentions the whole room in `m.mentions`.
    #[must_use]
    pub fn mentioning_room(self) -> Self {
        self.with_content_member("m.mentions", json!({"room": true}))
    }

    /// Replies to an event.
    #[must_use]
    pub fn replying_to(self, event_id: &str) -> Self {
        let relation = json!({"m.in_reply_to": {"event_id": event_id}});
        self.with_content_member("m.relates_to", relation)
    }

    /// Puts the message into the thread of an event, with a reply to `last` as the fallback.
    #[must_use]
    pub fn in_thread(self, root: &str, last: &str) -> Self {
        let relation = json!({
            "rel_type": "m.thread", "event_id": root, "is_falling_back": true,
            "m.in_reply_to": {"event_id": last},
        });
        self.with_content_member("m.relates_to", relation)
    }

    /// Makes the message an edit of an earlier one.
    #[must_use]
    pub fn editing(self, event_id: &str) -> Self {
        let mut new = self.content.clone();
        if let Some(new) = new.as_object_mut() {
            new.remove("m.relates_to");
        }
        let body = format!("* {}", text_of(&self.content, "body"));
        let relation = json!({"rel_type": "m.replace", "event_id": event_id});
        self.with_content_member("m.new_content", new)
            .with_content_member("body", json!(body))
            .with_content_member("m.relates_to", relation)
    }

    /// Makes the message a file: `kind` is `m.image`, `m.audio`, `m.video` or `m.file`. The text
    /// stays as the caption, unless it is empty.
    #[must_use]
    pub fn with_file(self, kind: &str, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let caption = text_of(&self.content, "body").to_owned();
        let body = if caption.is_empty() { name } else { &caption };
        let info = json!({"mimetype": mime, "size": bytes.len()});
        let mut incoming = self
            .with_content_member("msgtype", json!(kind))
            .with_content_member("body", json!(body))
            .with_content_member("filename", json!(name))
            .with_content_member("info", info);
        incoming.file = Some(IncomingFile {
            mime: mime.to_owned(),
            bytes,
        });
        incoming
    }

    /// Replaces the type of the event and its content.
    #[must_use]
    pub fn of_kind(self, kind: &str, content: Value) -> Self {
        Self {
            kind: kind.to_owned(),
            content,
            ..self
        }
    }

    /// Sets the time of the event, in milliseconds since 1970.
    #[must_use]
    pub fn sent_at(self, milliseconds: i64) -> Self {
        Self {
            sent_at: Some(milliseconds),
            ..self
        }
    }

    /// Replaces a member of the content, for example `formatted_body`.
    #[must_use]
    pub fn with_content_member(mut self, name: &str, value: Value) -> Self {
        if let Some(content) = self.content.as_object_mut() {
            content.insert(name.to_owned(), value);
        }
        self
    }

    /// Replaces a member of the event, for example `sender`.
    #[must_use]
    pub fn with_member(mut self, name: &str, value: Value) -> Self {
        self.changes.push((name.to_owned(), value));
        self
    }
}
