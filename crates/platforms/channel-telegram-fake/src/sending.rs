//! Calls that send, edit and delete messages and set reactions.

use bytes::Bytes;
use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::files::StoredFile;
use crate::html::{self, Formatted, utf16_length};
use crate::incoming::FileKind;
use crate::messages::{StoredMessage, now};
use crate::params::Params;
use crate::state::{StoredChat, TelegramState, bot_json};

pub(crate) const TEXT_LIMIT: usize = 4096;
const CAPTION_LIMIT: usize = 1024;
const PHOTO_LIMIT: usize = 10 << 20;
const ACTIONS: &[&str] = &[
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
    "record_video_note",
    "upload_video_note",
];
/// Emoji that every user may react with.
const REACTIONS: &str = "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡";

impl TelegramState {
    pub(crate) fn chat(&mut self, params: &Params) -> Result<&mut StoredChat, ApiError> {
        let chat = params
            .number("chat_id")
            .and_then(|id| self.chats.get_mut(&id));
        let chat = chat.ok_or_else(|| ApiError::bad("chat not found"))?;
        match chat.moved_to {
            Some(moved_to) => Err(ApiError::migrated(moved_to)),
            None if chat.is_blocked => {
                Err(ApiError::new(403, "Forbidden: bot was blocked by the user"))
            }
            None => Ok(chat),
        }
    }

    pub(crate) fn send_text(&mut self, params: &Params) -> ApiResult {
        let chat = self.chat(params)?;
        let formatted = formatted(params, "text", "entities")?;
        if formatted.text.is_empty() {
            return Err(ApiError::bad("message text is empty"));
        }
        if utf16_length(&formatted.text) > TEXT_LIMIT {
            return Err(ApiError::bad("message is too long"));
        }
        let mut message = draft(chat, params)?;
        message.source = params.text("text").to_owned();
        message.set_text(formatted);
        self.commit(params, message)
    }

    pub(crate) fn send_file(&mut self, method: &str, params: &Params) -> ApiResult {
        let kind = match method {
            "sendPhoto" => FileKind::Photo,
            "sendDocument" => FileKind::Document,
            "sendVoice" => FileKind::Voice,
            "sendAudio" => FileKind::Audio,
            "sendVideo" => FileKind::Video,
            "sendAnimation" => FileKind::Animation,
            "sendVideoNote" => FileKind::VideoNote,
            "sendSticker" => FileKind::Sticker,
            _ => return Err(ApiError::unknown_method()),
        };
        let formatted = formatted(params, "caption", "caption_entities")?;
        if utf16_length(&formatted.text) > CAPTION_LIMIT {
            return Err(ApiError::bad("message caption is too long"));
        }
        let mut message = draft(self.chat(params)?, params)?;
        let file = self.file_of(kind, params.text(kind.field()), params)?;
        message.source = params.text("caption").to_owned();
        message.set_file(kind, &file);
        message.set_text(formatted);
        self.commit(params, message)
    }

    /// Sends two to ten files as one album.
    pub(crate) fn send_album(&mut self, params: &Params) -> ApiResult {
        let items = params
            .json("media")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        if !(2..=10).contains(&items.len()) {
            return Err(ApiError::bad("wrong number of items in media group"));
        }
        let text = |item: &Value, key: &str| {
            item.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let kinds: Vec<String> = items.iter().map(|item| text(item, "type")).collect();
        let alone = |kind: &str| matches!(kind, "audio" | "document");
        if kinds.iter().any(|kind| alone(kind))
            && kinds.iter().any(|kind| Some(kind) != kinds.first())
        {
            return Err(ApiError::bad("can't mix such media in an album"));
        }
        let mut messages = Vec::new();
        for item in &items {
            let kind = match text(item, "type").as_str() {
                "photo" => FileKind::Photo,
                "video" => FileKind::Video,
                "audio" => FileKind::Audio,
                "document" => FileKind::Document,
                _ => return Err(ApiError::bad("can't parse InputMedia: wrong type")),
            };
            let mut message = draft(self.chat(params)?, params)?;
            let file = self.file_of(kind, &text(item, "media"), params)?;
            message.set_file(kind, &file);
            message.set_text(html::plain(&text(item, "caption")));
            messages.push(message);
        }
        let group = format!("1{:016}", self.sent.len());
        let mut sent = Vec::new();
        for mut message in messages {
            set(&mut message.json, "media_group_id", group.as_str());
            sent.push(self.commit(params, message)?);
        }
        Ok(Value::Array(sent))
    }

    /// Resolves a file parameter: an upload of that name, `attach://<part>`, a known id, or a URL.
    pub(crate) fn file_of(
        &mut self,
        kind: FileKind,
        value: &str,
        params: &Params,
    ) -> Result<StoredFile, ApiError> {
        let field = value.strip_prefix("attach://").unwrap_or(kind.field());
        if let Some(upload) = params.files.iter().find(|upload| upload.field == field) {
            if upload.bytes.is_empty() {
                return Err(ApiError::bad("file must be non-empty"));
            }
            if kind == FileKind::Photo && upload.bytes.len() > PHOTO_LIMIT {
                let size = upload.bytes.len();
                let problem = format!(
                    "file of size {size} bytes is too big for a photo; the maximum size is {PHOTO_LIMIT} bytes"
                );
                return Err(ApiError::bad(problem));
            }
            return Ok(self.files.keep(
                kind,
                &upload.name,
                upload.mime.as_deref(),
                upload.bytes.clone(),
            ));
        }
        if let Some(known) = self.files.get(value) {
            return Ok(known.clone());
        }
        if value.starts_with("http://") || value.starts_with("https://") {
            return Ok(self.files.keep(kind, value, None, Bytes::new()));
        }
        Err(ApiError::bad("wrong file identifier/HTTP URL specified"))
    }

    /// Gives a finished message its id and stores it.
    fn commit(&mut self, params: &Params, mut message: StoredMessage) -> ApiResult {
        if let Some(markup) = inline_keyboard(params)? {
            set(&mut message.json, "reply_markup", markup);
        }
        message.parse_mode = params.text("parse_mode").to_owned();
        let chat = self.chat(params)?;
        let id = chat.next_id();
        set(&mut message.json, "message_id", id);
        let json = message.json.clone();
        chat.messages.insert(id, message);
        if let Some(chat) = params.number("chat_id") {
            self.previews
                .remove(chat, params.number("message_thread_id"));
            self.sent.push((chat, id));
        }
        Ok(json)
    }

    /// Returns the bot's own message that an edit refers to.
    fn editable(&mut self, params: &Params) -> Result<&mut StoredMessage, ApiError> {
        let id = params.number("message_id").unwrap_or_default();
        let message = self
            .chat(params)?
            .messages
            .get_mut(&id)
            .filter(|message| !message.is_deleted);
        let message = message.ok_or_else(|| ApiError::bad("message to edit not found"))?;
        if message.is_from_bot() {
            Ok(message)
        } else {
            Err(ApiError::bad("message can't be edited"))
        }
    }

    pub(crate) fn edit_text(&mut self, params: &Params) -> ApiResult {
        let formatted = formatted(params, "text", "entities")?;
        let markup = inline_keyboard(params)?;
        let message = self.editable(params)?;
        if message.file.is_some() {
            return Err(ApiError::bad("there is no text in the message to edit"));
        }
        if formatted.text.is_empty() {
            return Err(ApiError::bad("message text is empty"));
        }
        if utf16_length(&formatted.text) > TEXT_LIMIT {
            return Err(ApiError::bad("MESSAGE_TOO_LONG"));
        }
        let is_same = message.text() == formatted.text
            && message.entities() == formatted.entities
            && message.json.get("reply_markup") == markup.as_ref();
        if is_same {
            return Err(not_modified());
        }
        let before = message.text().to_owned();
        message.history.push(before);
        message.set_text(formatted);
        params.text("text").clone_into(&mut message.source);
        params
            .text("parse_mode")
            .clone_into(&mut message.parse_mode);
        Ok(message.edited(markup))
    }

    pub(crate) fn edit_markup(&mut self, params: &Params) -> ApiResult {
        let markup = inline_keyboard(params)?;
        let message = self.editable(params)?;
        if message.json.get("reply_markup") == markup.as_ref() {
            return Err(not_modified());
        }
        Ok(message.edited(markup))
    }

    pub(crate) fn delete(&mut self, params: &Params) -> ApiResult {
        let id = params.number("message_id").unwrap_or_default();
        let message = self
            .chat(params)?
            .messages
            .get_mut(&id)
            .filter(|message| !message.is_deleted);
        message
            .ok_or_else(|| ApiError::bad("message to delete not found"))?
            .is_deleted = true;
        Ok(json!(true))
    }

    pub(crate) fn chat_action(&mut self, params: &Params) -> ApiResult {
        let chat = self.chat(params)?;
        thread(chat, params)?;
        if ACTIONS.contains(&params.text("action")) {
            Ok(json!(true))
        } else {
            Err(ApiError::bad("wrong parameter action in request"))
        }
    }

    pub(crate) fn react(&mut self, params: &Params) -> ApiResult {
        let reactions = params
            .json("reaction")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let emoji = reactions
            .iter()
            .filter_map(|reaction| reaction.get("emoji")?.as_str())
            .map(str::to_owned);
        let emoji: Vec<String> = emoji.collect();
        let id = params.number("message_id").unwrap_or_default();
        let message = self
            .chat(params)?
            .messages
            .get_mut(&id)
            .filter(|message| !message.is_deleted);
        let message = message.ok_or_else(|| ApiError::bad("message to react not found"))?;
        let known = |emoji: &String| REACTIONS.split(' ').any(|known| known == emoji);
        if emoji.len() != reactions.len() || !emoji.iter().all(known) {
            return Err(ApiError::bad("REACTION_INVALID"));
        }
        if emoji.len() > 1 {
            return Err(ApiError::bad("REACTIONS_TOO_MANY"));
        }
        message.reactions = emoji;
        Ok(json!(true))
    }
}

impl StoredMessage {
    fn edited(&mut self, markup: Option<Value>) -> Value {
        set(&mut self.json, "edit_date", now());
        match (markup, self.json.as_object_mut()) {
            (Some(markup), _) => set(&mut self.json, "reply_markup", markup),
            (None, Some(map)) => drop(map.remove("reply_markup")),
            (None, None) => {}
        }
        self.json.clone()
    }
}

/// Returns a message without content and id.
fn draft(chat: &StoredChat, params: &Params) -> Result<StoredMessage, ApiError> {
    let mut json = json!({"from": bot_json(), "chat": chat.json, "date": now()});
    if let Some(thread) = thread(chat, params)? {
        set(&mut json, "message_thread_id", thread);
        set(&mut json, "is_topic_message", true);
    }
    let reply = params.json("reply_parameters");
    let reply_to = reply.and_then(|reply| reply.get("message_id")?.as_i64());
    if let Some(reply_to) = reply_to.or_else(|| params.number("reply_to_message_id")) {
        let may_miss = reply.and_then(|reply| reply.get("allow_sending_without_reply")?.as_bool());
        match chat.message(reply_to) {
            Some(original) => set(&mut json, "reply_to_message", original.quoted()),
            None if may_miss.unwrap_or_else(|| params.flag("allow_sending_without_reply")) => {}
            None => return Err(ApiError::bad("message to be replied not found")),
        }
    }
    Ok(StoredMessage::new(json))
}

pub(crate) fn thread(chat: &StoredChat, params: &Params) -> Result<Option<i64>, ApiError> {
    let thread = params.number("message_thread_id");
    match thread {
        Some(thread) if !chat.threads.contains(&thread) => {
            Err(ApiError::bad("message thread not found"))
        }
        Some(thread) if chat.closed_threads.contains(&thread) => Err(ApiError::bad("TOPIC_CLOSED")),
        _ => Ok(thread),
    }
}

pub(crate) fn formatted(
    params: &Params,
    text: &str,
    entities: &str,
) -> Result<Formatted, ApiError> {
    let source = params.text(text);
    match params.text("parse_mode") {
        "" => {
            let given = params
                .json(entities)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            Ok(Formatted {
                entities: given,
                ..html::plain(source)
            })
        }
        mode if mode.eq_ignore_ascii_case("html") => html::parse(source)
            .map_err(|problem| ApiError::bad(format!("can't parse entities: {problem}"))),
        _ => Err(ApiError::bad("unsupported parse_mode")),
    }
}

/// Returns the inline keyboard of a call; other keyboards are not part of the message.
fn inline_keyboard(params: &Params) -> Result<Option<Value>, ApiError> {
    let Some(rows) = params
        .json("reply_markup")
        .and_then(|markup| markup.get("inline_keyboard"))
    else {
        return Ok(None);
    };
    let buttons: Vec<&Value> = rows
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten()
        .collect();
    for button in &buttons {
        let text = |key: &str| button.get(key).and_then(Value::as_str);
        if text("text").is_none_or(str::is_empty) {
            return Err(ApiError::bad(
                "can't parse inline keyboard button: Field \"text\" must be of type String",
            ));
        }
        if text("callback_data").is_some_and(|data| !(1..=64).contains(&data.len())) {
            return Err(ApiError::bad("BUTTON_DATA_INVALID"));
        }
        if button.as_object().is_some_and(|button| button.len() < 2) {
            let problem = "Text buttons are unallowed in the inline keyboard";
            return Err(ApiError::bad(format!(
                "can't parse inline keyboard button: {problem}"
            )));
        }
    }
    Ok(if buttons.is_empty() {
        None
    } else {
        Some(json!({"inline_keyboard": rows}))
    })
}

fn not_modified() -> ApiError {
    ApiError::bad(
        "message is not modified: specified new message content and reply markup are exactly the same as a current \
         content and reply markup of the message",
    )
}
