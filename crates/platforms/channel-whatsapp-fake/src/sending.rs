//! What the bot sends: messages, reactions, typing and marks of messages that were read.

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, FORBIDDEN, NOT_FOUND, TOO_LARGE};
use crate::jid;
use crate::model::{KnownMessage, SentFile, SentMessage};
use crate::params::Params;
use crate::route::{MEDIA, MEDIA_KINDS, QUOTE};
use crate::state::WhatsAppState;

impl WhatsAppState {
    /// Returns the chat of a JID that is addressed by the client.
    pub(crate) fn addressed(&self, to: &str) -> Result<String, ApiError> {
        if !jid::is_chat(to) {
            return Err(ApiError::invalid("to is no JID of a chat"));
        }
        let chat = self.canonical(to);
        match self.chats.get(&chat) {
            None => Err(ApiError::because(NOT_FOUND, "no such chat")),
            Some(false) => Err(ApiError::new(FORBIDDEN)),
            Some(true) => Ok(chat),
        }
    }

    /// Sends a message. Nothing is sent again whose id is known.
    pub(crate) fn send_message(&mut self, connection: usize, params: Params<'_>) -> ApiResult {
        let (id, to, text) = (params.text("id"), params.text("to"), params.text("text"));
        if !is_message_id(id) {
            return Err(ApiError::invalid("the form of id"));
        }
        if !jid::is_chat(to) {
            return Err(ApiError::invalid("to is no JID of a chat"));
        }
        if text.encode_utf16().count() > self.text_limit {
            return Err(ApiError::because(TOO_LARGE, "the text").clumsy());
        }
        let quote = self.read_quote(params)?;
        self.check_media(params)?;
        if text.is_empty() && params.object("media").is_none() {
            return Err(ApiError::invalid("neither text nor media"));
        }
        let done =
            |is_repeated| json!({"type": "sent", "to": to, "id": id, "repeated": is_repeated});
        if self.sent_ids.iter().any(|known| known == id) {
            self.check_repetition(id, to, text);
            return Ok(done(true));
        }
        self.link.check()?;
        let chat = self.addressed(to)?;
        let files = self.read_media(connection, params)?;
        self.typing.retain(|typing| *typing != chat);
        // WhatsApp shows a message once, however often its id is sent.
        if self.messages.contains_key(id) {
            self.check_repetition(id, to, text);
        } else {
            self.keep(id, &chat, to, text, quote, files);
        }
        self.sent_ids.push_back(id.to_owned());
        while self.sent_ids.len() > self.id_limit {
            self.sent_ids.pop_front();
        }
        Ok(done(false))
    }

    /// Keeps a message of the bot.
    pub(crate) fn keep(
        &mut self,
        id: &str,
        chat: &str,
        to: &str,
        text: &str,
        quote: Value,
        files: Vec<SentFile>,
    ) {
        let known = KnownMessage {
            chat: chat.to_owned(),
            participant: crate::account::ACCOUNT_LID.to_owned(),
            is_from_bot: true,
            content: text.to_owned(),
        };
        self.messages.insert(id.to_owned(), known);
        self.sent.push(SentMessage {
            id: id.to_owned(),
            chat_id: chat.to_owned(),
            to: to.to_owned(),
            text: text.to_owned(),
            quote,
            files,
        });
    }

    /// Records an id that is used for two messages.
    fn check_repetition(&mut self, id: &str, to: &str, text: &str) {
        let sent = self.sent.iter().find(|sent| sent.id == id);
        if sent.is_none_or(|sent| sent.to != to || sent.text != text) {
            self.complain("send: an id of another message");
        }
    }

    fn read_quote(&mut self, params: Params<'_>) -> Result<Value, ApiError> {
        let Some(quote) = params.object("quote") else {
            return Ok(Value::Null);
        };
        self.check_part("send", "quote", quote, QUOTE)?;
        let participant = quote.text("participant");
        if quote.text("id").is_empty() {
            return Err(ApiError::invalid("quote.id is empty"));
        }
        if !participant.is_empty() && !jid::is_person(participant) {
            return Err(ApiError::invalid("quote.participant is no JID of a person"));
        }
        Ok(Value::Object(quote.0.clone()))
    }

    fn check_media(&mut self, params: Params<'_>) -> Result<(), ApiError> {
        let Some(media) = params.object("media") else {
            return Ok(());
        };
        self.check_part("send", "media", media, MEDIA)?;
        if !MEDIA_KINDS.contains(&media.text("kind")) {
            return Err(ApiError::invalid("media.kind"));
        }
        let mime = media.text("mime").split_once('/');
        if mime.is_none_or(|(kind, rest)| kind.is_empty() || rest.is_empty()) {
            return Err(ApiError::invalid("media.mime"));
        }
        if media.text("kind") == "document" && media.text("name").is_empty() {
            return Err(ApiError::invalid("a document without a name"));
        }
        Ok(())
    }

    fn read_media(&self, connection: usize, params: Params<'_>) -> Result<Vec<SentFile>, ApiError> {
        let Some(media) = params.object("media") else {
            return Ok(Vec::new());
        };
        let file = SentFile {
            kind: media.text("kind").to_owned(),
            mime: media.text("mime").to_owned(),
            name: media.text("name").to_owned(),
            bytes: self.uploaded(connection, media.text("ref"))?,
        };
        Ok(vec![file])
    }

    /// Begins or ends the sign of typing.
    pub(crate) fn type_text(&mut self, params: Params<'_>) -> ApiResult {
        let Ok(chat) = self.addressed(params.text("to")) else {
            return Self::check_target(params);
        };
        self.typing.retain(|typing| *typing != chat);
        if params.flag("active") {
            self.typing.push(chat);
        }
        Ok(Value::Null)
    }

    /// Marks a message as read.
    pub(crate) fn mark_read(&mut self, params: Params<'_>) -> ApiResult {
        Self::check_target(params)?;
        let chat = self.canonical(params.text("to"));
        match self.known(&chat, params) {
            Ok(known) if !known.is_from_bot => self.read.push(params.text("id").to_owned()),
            _ => self.complain("read: no such message of a person in this chat"),
        }
        Ok(Value::Null)
    }

    /// Sets or removes the bot's reaction to a message.
    pub(crate) fn react(&mut self, params: Params<'_>) -> ApiResult {
        self.link.check()?;
        let chat = self.addressed(params.text("to"))?;
        let known = self.known(&chat, params)?;
        if known.is_from_bot != params.flag("fromBot") {
            return Err(ApiError::invalid("fromBot"));
        }
        let (id, emoji) = (params.text("id"), params.text("emoji"));
        if emoji.is_empty() {
            self.reactions.remove(id);
        } else {
            self.reactions.insert(id.to_owned(), emoji.to_owned());
        }
        let id = self.next_id("3EB0");
        Ok(json!({"type": "sent", "to": params.text("to"), "id": id, "repeated": false}))
    }

    /// Returns the message that a frame is about.
    fn known(&self, chat: &str, params: Params<'_>) -> Result<&KnownMessage, ApiError> {
        let known = self.messages.get(params.text("id"));
        let known = known.filter(|known| known.chat == chat);
        let known = known.ok_or_else(|| ApiError::because(NOT_FOUND, "no such message"))?;
        let participant = params.text("participant");
        let needs_participant = jid::is_group(chat) && !known.is_from_bot;
        let named = self.canonical(participant);
        if needs_participant && named != self.canonical(&known.participant) {
            return Err(ApiError::invalid("participant is not the sender"));
        }
        Ok(known)
    }

    /// Refuses a `to` that is no JID. Other targets are not checked.
    fn check_target(params: Params<'_>) -> ApiResult {
        if jid::is_chat(params.text("to")) {
            Ok(Value::Null)
        } else {
            Err(ApiError::invalid("to is no JID of a chat"))
        }
    }
}

/// Returns `true` if the id has the form of those that clients choose.
fn is_message_id(id: &str) -> bool {
    let digits = id.strip_prefix("3EB0").unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    (16..=28).contains(&digits.len()) && digits.bytes().all(is_digit)
}
