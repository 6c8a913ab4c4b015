//! Messages as the server stores them, and as tests read them.

use bytes::Bytes;
use chrono::Utc;
use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::BOT_ID;
use crate::files::{FileStore, StoredFile};
use crate::html::Formatted;
use crate::incoming::FileKind;

/// A message of the bot in its current state.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// The chat.
    pub chat_id: i64,
    /// Its id in that chat.
    pub message_id: i64,
    /// The topic.
    pub thread_id: Option<i64>,
    /// Id of the message that it quotes.
    pub reply_to: Option<i64>,
    /// The text or caption that people see.
    pub text: String,
    /// Its formatting.
    pub entities: Vec<Value>,
    /// The source that the bot sent last, markup included.
    pub source: String,
    /// The parse mode of the last source; empty for plain text.
    pub parse_mode: String,
    /// Texts shown before each edit, oldest first.
    pub history: Vec<String>,
    /// The file it carries.
    pub file: Option<SentFile>,
    /// The inline keyboard.
    pub reply_markup: Option<Value>,
    /// `true` once the message is deleted.
    pub is_deleted: bool,
}

/// A file in a message of the bot.
#[derive(Clone, Debug, PartialEq)]
pub struct SentFile {
    /// Kind that it was sent as.
    pub kind: FileKind,
    /// Its name.
    pub name: String,
    /// Its content; empty if it was sent by URL.
    pub bytes: Bytes,
}

/// A message as the server stores it.
#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    /// The `StoredMessage` object of the API.
    pub(crate) json: Value,
    pub(crate) source: String,
    pub(crate) parse_mode: String,
    pub(crate) history: Vec<String>,
    pub(crate) file: Option<(FileKind, String)>,
    pub(crate) reactions: Vec<String>,
    pub(crate) is_deleted: bool,
}

impl StoredMessage {
    pub(crate) fn new(json: Value) -> Self {
        Self {
            json,
            source: String::new(),
            parse_mode: String::new(),
            history: Vec::new(),
            file: None,
            reactions: Vec::new(),
            is_deleted: false,
        }
    }

    pub(crate) fn is_from_bot(&self) -> bool {
        self.json.pointer("/from/id").and_then(Value::as_i64) == Some(BOT_ID)
    }

    /// Sets the text, or the caption if there is a file.
    pub(crate) fn set_text(&mut self, formatted: Formatted) {
        let (text_key, entities_key) = self.keys();
        if formatted.text.is_empty() && self.file.is_some() {
            return;
        }
        set(&mut self.json, text_key, formatted.text);
        if !formatted.entities.is_empty() {
            set(&mut self.json, entities_key, formatted.entities);
        } else if let Some(map) = self.json.as_object_mut() {
            map.remove(entities_key);
        }
    }

    pub(crate) fn text(&self) -> &str {
        self.json
            .get(self.keys().0)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(crate) fn entities(&self) -> &[Value] {
        self.json
            .get(self.keys().1)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    fn keys(&self) -> (&'static str, &'static str) {
        if self.file.is_some() {
            ("caption", "caption_entities")
        } else {
            ("text", "entities")
        }
    }

    pub(crate) fn set_file(&mut self, kind: FileKind, file: &StoredFile) {
        let content = match kind {
            FileKind::Photo => {
                let size = |side: u32| {
                    let mut size = file.meta();
                    set(&mut size, "width", side);
                    set(&mut size, "height", side);
                    size
                };
                json!([size(90), size(320)])
            }
            FileKind::VideoNote => {
                let mut meta = file.meta();
                set(&mut meta, "length", 240);
                set(&mut meta, "duration", 1);
                meta
            }
            FileKind::Sticker => {
                let mut meta = file.meta();
                let marks = json!({"type": "regular", "width": 512, "height": 512, "is_animated": false, "is_video": false, "emoji": "👍"});
                for (key, value) in marks.as_object().into_iter().flatten() {
                    set(&mut meta, key, value.clone());
                }
                meta
            }
            FileKind::Document
            | FileKind::Voice
            | FileKind::Audio
            | FileKind::Video
            | FileKind::Animation => {
                let mut meta = file.meta();
                set(&mut meta, "mime_type", file.mime.as_str());
                if kind != FileKind::Voice {
                    set(&mut meta, "file_name", file.name.as_str());
                }
                if kind != FileKind::Document {
                    set(&mut meta, "duration", 1);
                }
                if matches!(kind, FileKind::Video | FileKind::Animation) {
                    set(&mut meta, "width", 320);
                    set(&mut meta, "height", 240);
                }
                meta
            }
        };
        self.file = Some((kind, file.id.clone()));
        set(&mut self.json, kind.field(), content);
    }

    /// Returns the message as another one quotes it: quotes do not nest.
    pub(crate) fn quoted(&self) -> Value {
        let mut json = self.json.clone();
        if let Some(map) = json.as_object_mut() {
            map.remove("reply_to_message");
        }
        json
    }
}

impl SentMessage {
    pub(crate) fn of(chat_id: i64, message: &StoredMessage, files: &FileStore) -> Self {
        let number = |place: &str| message.json.pointer(place).and_then(Value::as_i64);
        let file = message
            .file
            .as_ref()
            .and_then(|(kind, id)| Some((*kind, files.get(id)?)));
        Self {
            chat_id,
            message_id: number("/message_id").unwrap_or_default(),
            thread_id: number("/message_thread_id"),
            reply_to: number("/reply_to_message/message_id"),
            text: message.text().to_owned(),
            entities: message.entities().to_vec(),
            source: message.source.clone(),
            parse_mode: message.parse_mode.clone(),
            history: message.history.clone(),
            file: file.map(|(kind, file)| SentFile {
                kind,
                name: file.name.clone(),
                bytes: file.bytes.clone(),
            }),
            reply_markup: message.json.get("reply_markup").cloned(),
            is_deleted: message.is_deleted,
        }
    }
}

/// Returns the Unix time in seconds.
pub(crate) fn now() -> i64 {
    Utc::now().timestamp()
}
