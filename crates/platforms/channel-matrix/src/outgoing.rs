//! Events on their way to a room: contents, transaction ids, encryption.
//!
//! Decision: nothing is sent before it is known whether the room is encrypted, and an encrypted
//! room gets encrypted events only. The homeserver drops a repeated transaction id of a device, so
//! a repeated send has one effect, also with another ciphertext.

use std::sync::Arc;

use nanobot_channel::{Notes, Value};
use reqwest::Method;
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

use crate::api::{Api, Path};
use crate::encryption::{Encryption, EncryptionError};
use crate::error::{CallError, Refusal};
use crate::id::{digest, is_event_id};
use crate::rooms::{KnownEncryption, Rooms, encryption_settings, present_members};
use crate::wire::{cut, member, text};

/// Largest content of an event, in bytes of JSON. An event has at most 65,536 bytes, and encryption
/// makes a content a third longer.
const CONTENT_LIMIT: usize = 40_000;
/// Longest text that clients without edits show for one, in bytes.
const EDIT_FALLBACK_LIMIT: usize = 200;
/// Most people of a room who get its keys.
const MAX_MEMBERS: usize = 10_000;
/// Number of own messages of a room in which one is searched.
const SEARCHED: usize = 100;
const NOT_STARTED: &str = "the channel has not started yet, so it is unknown which rooms are \
                           encrypted";

/// Sends events to rooms.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) api: Arc<Api>,
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) encryption: Arc<Encryption>,
    /// The notes, from the first run on.
    notes: Arc<watch::Sender<Option<Arc<dyn Notes>>>>,
}

/// A text in its forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RichText {
    pub(crate) plain: String,
    /// The HTML, if it says more than the plain text.
    pub(crate) html: Option<String>,
}

impl RichText {
    pub(crate) fn plain(text: &str) -> Self {
        Self {
            plain: without_controls(text),
            html: None,
        }
    }

    /// Returns the content of a message.
    pub(crate) fn content(&self, relates_to: Option<Value>) -> Value {
        let mut content = json!({"msgtype": "m.text", "body": self.plain, "m.mentions": {}});
        let room = CONTENT_LIMIT.saturating_sub(content.to_string().len());
        let html = self.html.as_deref().unwrap_or_default();
        if let Some(members) = content.as_object_mut() {
            if !html.is_empty() && json!(html).to_string().len() + 200 < room {
                members.insert("format".to_owned(), json!("org.matrix.custom.html"));
                members.insert("formatted_body".to_owned(), json!(html));
            }
            if let Some(relation) = relates_to {
                members.insert("m.relates_to".to_owned(), relation);
            }
        }
        content
    }

    /// Returns the content of an edit of `event`.
    pub(crate) fn edit(&self, event: &str) -> Value {
        let fallback = cut(&self.plain, EDIT_FALLBACK_LIMIT);
        json!({
            "msgtype": "m.text", "body": format!("* {fallback}"), "m.mentions": {},
            "m.new_content": self.content(None),
            "m.relates_to": {"rel_type": "m.replace", "event_id": event},
        })
    }
}

/// Returns a text without control characters, which JSON writes six times as long.
pub(crate) fn without_controls(text: &str) -> String {
    let is_kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(is_kept).collect()
}

/// Returns the transaction id of a key.
pub(crate) fn transaction(key: &str) -> String {
    format!("nb{}", digest(key, 16))
}

/// Returns a transaction id that is used once.
pub(crate) fn new_transaction() -> String {
    format!("nb{}", Uuid::new_v4().simple())
}

impl Outgoing {
    pub(crate) fn new(api: Arc<Api>, rooms: Arc<Rooms>, encryption: Arc<Encryption>) -> Self {
        Self {
            api,
            rooms,
            encryption,
            notes: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Reads which rooms are encrypted.
    pub(crate) async fn open(&self, notes: &Arc<dyn Notes>) {
        self.rooms.encrypted.open(notes.as_ref()).await;
        self.notes.send_replace(Some(Arc::clone(notes)));
    }

    /// Notes that a room is encrypted, on disk.
    pub(crate) async fn keep_encrypted(&self, room: &str) {
        if self.rooms.note_encrypted(room) {
            self.write_encrypted().await;
        }
    }

    /// Writes the note of encrypted rooms.
    pub(crate) async fn write_encrypted(&self) {
        let notes = self.notes.borrow().clone();
        if let Some(notes) = notes {
            self.rooms.encrypted.write(notes.as_ref()).await;
        }
    }

    /// Sends an event, encrypted if the room is. Returns its id.
    pub(crate) async fn send(
        &self,
        room: &str,
        kind: &str,
        content: &Value,
        transaction: &str,
    ) -> Result<String, CallError> {
        match self.encryption_of(room).await? {
            None => self.put(room, kind, content, transaction).await,
            Some(settings) => {
                let members = self.members(room).await?;
                let event = (kind, content);
                let encrypted = self.encryption.encrypt(room, &members, &settings, event);
                let mut encrypted = encrypted
                    .await
                    .inspect_err(|error| self.encryption.report(error))?;
                if let Some(members) = encrypted.as_object_mut()
                    && let Some(relation) = content.get("m.relates_to")
                    && !members.contains_key("m.relates_to")
                {
                    members.insert("m.relates_to".to_owned(), relation.clone());
                }
                self.put(room, "m.room.encrypted", &encrypted, transaction)
                    .await
            }
        }
    }

    /// Gives the people of an encrypted room its key.
    pub(crate) async fn share_key(&self, room: &str) -> Result<(), EncryptionError> {
        if let Some(settings) = self.encryption_of(room).await? {
            let members = self.members(room).await?;
            self.encryption.share(room, &members, &settings).await?;
        }
        Ok(())
    }

    /// Sends a message.
    pub(crate) async fn send_message(
        &self,
        room: &str,
        content: &Value,
        transaction: &str,
    ) -> Result<String, CallError> {
        self.send(room, "m.room.message", content, transaction)
            .await
    }

    /// Removes the content of an event.
    pub(crate) async fn redact(&self, room: &str, event: &str) -> Result<(), CallError> {
        let transaction = transaction(&format!("redact {room} {event}"));
        let path = [
            "_matrix",
            "client",
            "v3",
            "rooms",
            room,
            "redact",
            event,
            &transaction,
        ];
        let body = json!({});
        let redacted = self.api.call(Method::PUT, Path::new(&path), Some(&body));
        redacted.await.map(drop)
    }

    /// Returns the event that this session sent with a transaction id, among the newest messages of
    /// `user` in a room. Homeservers show the id to the session that used it, also of encrypted
    /// events.
    pub(crate) async fn find_sent(
        &self,
        room: &str,
        user: &str,
        transaction: &str,
    ) -> Result<Option<String>, CallError> {
        let types = ["m.room.message", "m.room.encrypted"];
        let filter = json!({"senders": [user], "types": types}).to_string();
        let limit = SEARCHED.to_string();
        let path = Path {
            segments: &["_matrix", "client", "v3", "rooms", room, "messages"],
            query: &[("dir", "b"), ("limit", &limit), ("filter", &filter)],
        };
        let answer = self.api.call(Method::GET, path, None).await?;
        let events = member(&answer, "chunk").as_array().into_iter().flatten();
        let mut ours = events.take(SEARCHED).filter(|event| {
            text(event, "sender") == user
                && text(member(event, "unsigned"), "transaction_id") == transaction
        });
        let found =
            ours.find_map(|event| Some(text(event, "event_id")).filter(|event| is_event_id(event)));
        Ok(found.map(str::to_owned))
    }

    /// Returns the settings of an encrypted room; `None` for one that is not encrypted.
    pub(crate) async fn encryption_of(&self, room: &str) -> Result<Option<Value>, CallError> {
        match self.rooms.encryption(room) {
            KnownEncryption::Encrypted(settings) => return Ok(Some(settings)),
            KnownEncryption::Clear => return Ok(None),
            KnownEncryption::Unknown if self.notes.borrow().is_none() => {
                return Err(CallError::Unreachable(NOT_STARTED.to_owned()));
            }
            KnownEncryption::Unknown => {}
        }
        let path = [
            "_matrix",
            "client",
            "v3",
            "rooms",
            room,
            "state",
            "m.room.encryption",
        ];
        match self.api.call(Method::GET, Path::new(&path), None).await {
            Ok(content) => {
                self.keep_encrypted(room).await;
                Ok(Some(encryption_settings(&content)))
            }
            // The homeserver knows the room, and that it has no such state.
            Err(error) if error.is(Refusal::is_not_found) => Ok(None),
            Err(error) => Err(error.unambiguous()),
        }
    }

    /// Returns the joined and invited people of a room.
    async fn members(&self, room: &str) -> Result<Vec<String>, CallError> {
        if let Some(members) = self.rooms.members(room) {
            return Ok(members);
        }
        let path = ["_matrix", "client", "v3", "rooms", room, "members"];
        let answer = self.api.call(Method::GET, Path::new(&path), None).await;
        let mut members = present_members(&answer.map_err(CallError::unambiguous)?);
        members.truncate(MAX_MEMBERS);
        self.rooms.set_members(room, &members);
        Ok(members)
    }

    async fn put(
        &self,
        room: &str,
        kind: &str,
        content: &Value,
        transaction: &str,
    ) -> Result<String, CallError> {
        let path = [
            "_matrix",
            "client",
            "v3",
            "rooms",
            room,
            "send",
            kind,
            transaction,
        ];
        let answer = self.api.call(Method::PUT, Path::new(&path), Some(content));
        let answer = answer.await?;
        let event = text(&answer, "event_id");
        if member(&answer, "event_id").is_string() && is_event_id(event) {
            Ok(event.to_owned())
        } else {
            let why = "a sent event has no id".to_owned();
            Err(CallError::Misunderstood(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_drops_html_that_would_be_too_large() {
        let rich = RichText {
            plain: "a".to_owned(),
            html: Some("<em>a</em>".to_owned()),
        };
        let content = rich.content(Some(json!({"m.in_reply_to": {"event_id": "$1"}})));
        let expected = json!({
            "msgtype": "m.text", "body": "a", "m.mentions": {},
            "format": "org.matrix.custom.html", "formatted_body": "<em>a</em>",
            "m.relates_to": {"m.in_reply_to": {"event_id": "$1"}},
        });
        assert_eq!(content, expected);
        let large = RichText {
            plain: "\"".repeat(16_000),
            html: Some("&quot;".repeat(16_000)),
        };
        assert!(large.content(None).get("formatted_body").is_none());
        assert!(large.content(None).to_string().len() < CONTENT_LIMIT);
        assert!(large.edit("$1").to_string().len() < CONTENT_LIMIT);
    }

    #[test]
    fn edit_names_its_event_and_repeats_little() {
        let rich = RichText::plain(&"é".repeat(300));
        let edit = rich.edit("$1");
        assert_eq!(edit["m.relates_to"]["event_id"], "$1");
        assert_eq!(edit["m.new_content"]["body"], "é".repeat(300));
        assert_eq!(edit["body"], format!("* {}", "é".repeat(100)));
    }

    #[test]
    fn control_characters_are_left_out() {
        assert_eq!(without_controls("a\u{0}b\n\tc\u{7f}"), "ab\n\tc");
    }

    #[test]
    fn transaction_depends_on_the_key_alone() {
        assert_eq!(transaction("a/0"), transaction("a/0"));
        assert_ne!(transaction("a/0"), transaction("a/1"));
        assert_ne!(new_transaction(), new_transaction());
    }
}
