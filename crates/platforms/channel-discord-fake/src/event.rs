//! Messages as the gateway and the API show them.

use chrono::Utc;
use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::{BOT_ID, GUILD};
use crate::guild::{LONG_AGO, Room, bot};
use crate::incoming::Incoming;
use crate::messages::{StoredFile, StoredMessage};
use crate::session::{DIRECT_MESSAGES, GUILD_MESSAGES};
use crate::state::{DiscordState, Pushed};

/// Flag of a voice message.
const VOICE: u64 = 1 << 13;

impl DiscordState {
    /// Adds a message from a person and dispatches its event.
    pub(crate) fn push(&mut self, incoming: Incoming) -> Pushed {
        if self.room(incoming.channel).is_none() {
            self.direct
                .insert(incoming.channel, incoming.person.clone());
        }
        let (id, channel) = (self.new_id(), incoming.channel);
        let mut declared = Vec::new();
        let mut files = Vec::new();
        for file in incoming.files {
            let file_id = self.new_id();
            files.push(file_id);
            declared.push(file.declared_size);
            self.files.insert(
                file_id,
                StoredFile {
                    name: file.name,
                    mime: file.mime,
                    bytes: file.bytes,
                },
            );
        }
        // The time is stored, so that later renderings of the message show the same one.
        let mut marks = vec![("timestamp".to_owned(), json!(Utc::now().to_rfc3339()))];
        if incoming.is_voice {
            marks.push(("flags".to_owned(), json!(VOICE)));
        }
        if incoming.is_webhook {
            marks.push(("webhook_id".to_owned(), json!("31")));
        }
        if let Some(text) = incoming.forwarded {
            let reference = json!({"type": 1, "channel_id": "1", "message_id": "2"});
            marks.push(("message_reference".to_owned(), reference));
            let snapshot = json!({"message": {
                "content": text, "timestamp": LONG_AGO, "edited_timestamp": null, "mentions": [], "mention_roles": [],
                "attachments": [], "embeds": [], "type": 0, "flags": 0, "components": [],
            }});
            marks.push(("message_snapshots".to_owned(), json!([snapshot])));
        }
        let message = StoredMessage {
            id,
            channel,
            author: Some(incoming.person),
            text: incoming.text,
            replies_to: incoming.replies_to,
            files,
            extra: marks.into_iter().chain(incoming.extra).collect(),
            ..StoredMessage::default()
        };
        let mut event = self.message_json(&message);
        self.messages.insert(id, message);
        if let Some(attachments) = event.get_mut("attachments").and_then(Value::as_array_mut) {
            for (attachment, size) in attachments.iter_mut().zip(declared) {
                set(attachment, "size", size);
                if incoming.is_voice {
                    set(attachment, "duration_secs", 1.5);
                    set(attachment, "waveform", "AAAA");
                }
            }
        }
        let intents = if self.room(channel) == Some(Room::Server) {
            set(&mut event, "guild_id", GUILD.to_string());
            let member = json!({"roles": [], "joined_at": LONG_AGO, "deaf": false, "mute": false, "flags": 0});
            set(&mut event, "member", member);
            GUILD_MESSAGES
        } else {
            DIRECT_MESSAGES
        };
        Pushed {
            channel_id: channel,
            message_id: id,
            number: self.dispatch("MESSAGE_CREATE", &event, intents),
        }
    }

    /// Returns a message with all fields that every message has.
    pub(crate) fn message_json(&self, message: &StoredMessage) -> Value {
        let author = message
            .author
            .as_ref()
            .map_or_else(bot, crate::incoming::Person::json);
        let now = Utc::now().to_rfc3339();
        let edited = Some(&now).filter(|_| !message.history.is_empty());
        let mut json = json!({
            "id": message.id.to_string(), "channel_id": message.channel.to_string(), "author": author,
            "content": message.text, "timestamp": now, "edited_timestamp": edited, "tts": false,
            "mention_everyone": false, "mentions": self.mentions(message), "mention_roles": [],
            "attachments": message.files.iter().map(|id| self.attachment(message.channel, *id)).collect::<Value>(),
            "embeds": [], "pinned": false, "type": 0, "flags": 0, "components": message.components_json(),
        });
        if let Some(nonce) = &message.nonce {
            set(&mut json, "nonce", nonce.clone());
        }
        if let Some(original) = message.replies_to {
            set(&mut json, "type", 19);
            let reference = json!({
                "type": 0, "message_id": original.to_string(), "channel_id": message.channel.to_string(),
            });
            set(&mut json, "message_reference", reference);
            let original = self
                .messages
                .get(&original)
                .filter(|original| !original.is_deleted);
            set(
                &mut json,
                "referenced_message",
                original.map(|original| self.message_json(original)),
            );
        }
        for (name, value) in &message.extra {
            set(&mut json, name, value.clone());
        }
        json
    }

    /// Returns the mentioned users. Only the bot and the author of the message replied to can be
    /// mentioned here.
    fn mentions(&self, message: &StoredMessage) -> Value {
        let names_bot = [format!("<@{BOT_ID}>"), format!("<@!{BOT_ID}>")]
            .iter()
            .any(|name| message.text.contains(name));
        let mut mentions: Vec<Value> = Vec::new();
        let original = message
            .replies_to
            .and_then(|original| self.messages.get(&original));
        if names_bot || original.is_some_and(|original| original.is_by_bot && !message.is_by_bot) {
            mentions.push(bot());
        }
        if let Some(person) = original.and_then(|original| original.author.as_ref()) {
            mentions.push(person.json());
        }
        Value::Array(mentions)
    }

    fn attachment(&self, channel: u64, id: u64) -> Value {
        let Some(file) = self.files.get(&id) else {
            return Value::Null;
        };
        let safe: String = file
            .name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let url = format!(
            "{}/attachments/{channel}/{id}/{safe}?ex=1&hm=2",
            self.file_base
        );
        json!({
            "id": id.to_string(), "filename": file.name, "size": file.bytes.len(), "url": url, "proxy_url": url,
            "content_type": file.mime,
        })
    }
}

impl StoredMessage {
    fn components_json(&self) -> Value {
        if self.components.is_null() {
            json!([])
        } else {
            self.components.clone()
        }
    }
}

/// Blanks the content for a client without the message content intent. Direct messages and messages
/// that mention the bot keep theirs.
pub(crate) fn hide_text(message: &mut Value) {
    let names_bot = message
        .get("mentions")
        .and_then(Value::as_array)
        .is_some_and(|users| !users.is_empty());
    if message.get("guild_id").is_some() && !names_bot {
        for (key, nothing) in [
            ("content", json!("")),
            ("attachments", json!([])),
            ("components", json!([])),
        ] {
            set(message, key, nothing);
        }
    }
}
