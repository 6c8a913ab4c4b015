//! State of the fake. Every method of the API changes it in one step.

use std::collections::{BTreeMap, BTreeSet};

use nanobot_testkit::json::set;
use nanobot_testkit::{Called, Calls};
use serde_json::{Value, json};

use crate::account::{BOT_ID, BOT_USERNAME};
use crate::drafts::Previews;
use crate::fault::Fault;
use crate::files::FileStore;
use crate::html::Formatted;
use crate::incoming::{Incoming, Person, marks};
use crate::messages::{SentMessage, StoredMessage, now};
use crate::webhook::Webhook;

/// Kinds of updates sent by default; reactions and member changes have to be requested.
const USUAL_UPDATES: &[&str] = &[
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
];
const FIRST_UPDATE: i64 = 700_001;

/// A call of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The method in Telegram's own spelling (`sendMessage`).
    pub method: String,
    /// The parameters: JSON unchanged; numbers, flags and nested objects of form bodies parsed.
    pub params: Value,
    /// Number of files in the request.
    pub files: usize,
}

impl Called for Call {
    fn method(&self) -> &str {
        &self.method
    }
}

/// Location of a pushed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The chat.
    pub chat_id: i64,
    /// Id of the message, counted per chat.
    pub message_id: i64,
    /// Id of the update that carries it; `None` if the bot did not request updates of this kind.
    pub update_id: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct TelegramState {
    pub(crate) updates: BTreeMap<i64, Value>,
    pub(crate) last_update: Option<i64>,
    pub(crate) allowed: Option<Vec<String>>,
    pub(crate) acknowledged: i64,
    pub(crate) poll: u64,
    pub(crate) conflicts: usize,
    /// The webhook that receives updates instead of polls.
    pub(crate) webhook: Webhook,
    /// Set while polls return nothing, even if updates are waiting.
    pub(crate) is_blind: bool,
    /// Number of polls that end without updates.
    pub(crate) empty_answers: usize,
    pub(crate) chats: BTreeMap<i64, StoredChat>,
    pub(crate) files: FileStore,
    presses: usize,
    pub(crate) open_callbacks: BTreeSet<String>,
    pub(crate) commands: Value,
    pub(crate) calls: Calls<Call, Fault>,
    pub(crate) is_revoked: bool,
    pub(crate) previews: Previews,
    /// The bot's messages in the order of sending, by chat and id.
    pub(crate) sent: Vec<(i64, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct StoredChat {
    pub(crate) json: Value,
    pub(crate) threads: BTreeSet<i64>,
    pub(crate) closed_threads: BTreeSet<i64>,
    /// Set if the person blocked the bot or the group removed it.
    pub(crate) is_blocked: bool,
    /// Id of the supergroup that the group became.
    pub(crate) moved_to: Option<i64>,
    pub(crate) messages: BTreeMap<i64, StoredMessage>,
    last_message: i64,
}

impl StoredChat {
    /// Returns the next message id. Ids count per chat, which exposes clients that take them for
    /// unique.
    pub(crate) fn next_id(&mut self) -> i64 {
        self.last_message += 1;
        self.last_message
    }

    /// Returns the message, unless it is deleted.
    pub(crate) fn message(&self, id: i64) -> Option<&StoredMessage> {
        self.messages.get(&id).filter(|message| !message.is_deleted)
    }
}

impl TelegramState {
    pub(crate) fn push(&mut self, incoming: Incoming) -> Pushed {
        let chat_id = incoming.chat_id;
        let file = incoming.file.as_ref().map(|file| {
            (
                file.kind,
                self.files
                    .keep(file.kind, &file.name, Some(&file.mime), file.bytes.clone()),
            )
        });
        let chat = self.chats.entry(chat_id).or_default();
        chat.json = incoming.chat_json();
        chat.threads.extend(incoming.thread);
        if chat_id < 0 && !chat.threads.is_empty() {
            set(&mut chat.json, "is_forum", true);
        }
        let message_id = chat.next_id();
        let mut json = json!({"message_id": message_id, "chat": chat.json, "date": now()});
        incoming.voice.sign(&mut json, &incoming.person, &chat.json);
        if let Some(thread) = incoming.thread {
            set(&mut json, "message_thread_id", thread);
            set(&mut json, "is_topic_message", true);
        }
        if let Some(original) = incoming.reply_to.and_then(|id| chat.message(id)) {
            set(&mut json, "reply_to_message", original.quoted());
        }
        if let Some(album) = incoming.album {
            set(&mut json, "media_group_id", album);
        }
        let formatted = Formatted {
            text: incoming.text,
            entities: incoming.entities,
        };
        let mut message = StoredMessage::new(json);
        if let Some((kind, file)) = file {
            message.set_file(kind, &file);
        }
        message.set_text(formatted);
        let json = message.json.clone();
        chat.messages.insert(message_id, message);
        Pushed {
            chat_id,
            message_id,
            update_id: self.enqueue(incoming.voice.update(), json),
        }
    }

    pub(crate) fn edit_by_person(
        &mut self,
        chat_id: i64,
        message_id: i64,
        text: &str,
    ) -> Option<Pushed> {
        let message = self
            .chats
            .get_mut(&chat_id)?
            .messages
            .get_mut(&message_id)?;
        if message.is_from_bot() {
            return None;
        }
        message.set_text(Formatted {
            text: text.to_owned(),
            entities: marks(text),
        });
        set(&mut message.json, "edit_date", now());
        let json = message.json.clone();
        Some(Pushed {
            chat_id,
            message_id,
            update_id: self.enqueue("edited_message", json),
        })
    }

    pub(crate) fn press(
        &mut self,
        chat_id: i64,
        message_id: i64,
        person: &Person,
        data: &str,
    ) -> Option<Pushed> {
        self.presses += 1;
        let message = self.chats.get(&chat_id)?.message(message_id)?;
        let id = format!("43826950{}", self.presses);
        let query = json!({
            "id": id, "from": person.json(), "message": message.json,
            "chat_instance": chat_id.to_string(), "data": data,
        });
        self.open_callbacks.insert(id);
        Some(Pushed {
            chat_id,
            message_id,
            update_id: self.enqueue("callback_query", query),
        })
    }

    /// Queues an update if the bot requested its kind.
    pub(crate) fn enqueue(&mut self, kind: &str, content: Value) -> Option<i64> {
        let is_wanted = match &self.allowed {
            Some(kinds) if !kinds.is_empty() => kinds.iter().any(|wanted| wanted == kind),
            _ => USUAL_UPDATES.contains(&kind),
        };
        if !is_wanted {
            return None;
        }
        let id = self.last_update.map_or(FIRST_UPDATE, |last| last + 1);
        self.last_update = Some(id);
        let mut update = json!({"update_id": id});
        set(&mut update, kind, content);
        self.updates.insert(id, update);
        Some(id)
    }

    pub(crate) fn sent(&self) -> Vec<SentMessage> {
        let message = |(chat, id): &(i64, i64)| {
            self.chats
                .get(chat)?
                .messages
                .get(id)
                .map(|message| (*chat, message))
        };
        let sent = self.sent.iter().filter_map(message);
        sent.map(|(chat, message)| SentMessage::of(chat, message, &self.files))
            .collect()
    }

    pub(crate) fn reactions(&self, chat_id: i64, message_id: i64) -> Vec<String> {
        let message = self
            .chats
            .get(&chat_id)
            .and_then(|chat| chat.messages.get(&message_id));
        message
            .map(|message| message.reactions.clone())
            .unwrap_or_default()
    }
}

/// Returns the bot as it appears in messages.
pub(crate) fn bot_json() -> Value {
    json!({"id": BOT_ID, "is_bot": true, "first_name": "nanobot", "username": BOT_USERNAME})
}
