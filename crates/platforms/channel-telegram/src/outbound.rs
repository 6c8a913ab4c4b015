//! Sends finished parts: files first, then the text, into the draft when there is one.

use nanobot_channel::{
    Button, ChannelError, MediaRef, MessageId, OutboundKind, OutboundPart, Sent,
};
use nanobot_channel_kit::Platform as _;
use nanobot_channel_kit::upload::file_name;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use teloxide::payloads::{
    EditMessageText, EditMessageTextSetters as _, SendMessage, SendMessageSetters as _,
};
use teloxide::types::{InlineKeyboardMarkup, MessageId as TelegramMessage, ParseMode, ReplyMarkup};

use crate::api::Api;
use crate::channel::Telegram;
use crate::error::{CallError, Refusal};
use crate::interaction::keyboard;
use crate::target::SendTarget;
use crate::upload::{UploadError, bundle, send_album, send_file};

impl Telegram {
    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let message = &part.message;
        let mut target = SendTarget::new(&message.chat_id, &message.delivery)?;
        if self.config.reply_to_message && part.index == 0 {
            target = target.quoting(&message.delivery);
        }
        target = self.migrations.follow(&target);
        match self.send_to(part, &target).await {
            Err(SendFailure::Moved(chat)) => {
                if let Err(error) = self.migrations.record(target.chat_id(), chat).await {
                    tracing::warn!(channel = %self.base.name, chat, %error, "it could not be noted that a group has moved");
                }
                self.send_to(part, &SendTarget::chat(chat)).await
            }
            Err(SendFailure::Send(error))
                if error.is(Refusal::is_about_the_topic) && target.thread().is_some() =>
            {
                tracing::warn!(channel = %self.base.name, chat = target.chat_id(), %error, "a topic is gone; its chat gets the message");
                self.send_to(part, &target.without_topic()).await
            }
            outcome => outcome,
        }
        .map_err(SendFailure::into_channel_error)
    }

    async fn send_to(&self, part: &OutboundPart, target: &SendTarget) -> Result<Sent, SendFailure> {
        let mut last = None;
        if part.index == 0 {
            last = self.send_files(part, target).await?;
        }
        let words = self.part_text(part);
        if !words.plain.trim().is_empty() {
            last = self.send_text(part, words, target).await?;
        }
        if part.index == 0 {
            self.attempts.forget(&part.idempotency_key());
        }
        Ok(Sent {
            message_id: last.map(|id| MessageId::from(id.0.to_string())),
        })
    }

    async fn send_files(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
    ) -> Result<Option<TelegramMessage>, SendFailure> {
        let key = part.idempotency_key();
        let mut last = None;
        let mut sent = self.attempts.of(&key);
        while let Some(rest) = part
            .message
            .media
            .get(sent..)
            .filter(|rest| !rest.is_empty())
        {
            let together = rest.get(..bundle(rest)).unwrap_or(rest);
            match self.try_send_album(together, target).await? {
                Album::Sent(id) => {
                    last = id;
                    sent += together.len();
                    self.attempts.remember(&key, sent);
                }
                Album::None => {
                    for media in together {
                        last = self.send_single(media, target).await?;
                        sent += 1;
                        self.attempts.remember(&key, sent);
                    }
                }
            }
        }
        Ok(last)
    }

    async fn try_send_album(
        &self,
        media: &[MediaRef],
        target: &SendTarget,
    ) -> Result<Album, SendFailure> {
        if media.len() < 2 {
            return Ok(Album::None);
        }
        let sent = send_album(&self.api, target, media).await;
        match sent.map_err(UploadError::into_call) {
            Ok(id) => Ok(Album::Sent(id)),
            Err(Ok(error)) => Err(error.into()),
            Err(Err(error)) => {
                tracing::debug!(channel = %self.base.name, %error, "an album goes one by one");
                Ok(Album::None)
            }
        }
    }

    /// Sends one file, or a note that it could not be sent.
    async fn send_single(
        &self,
        media: &MediaRef,
        target: &SendTarget,
    ) -> Result<Option<TelegramMessage>, SendFailure> {
        let sent = send_file(&self.api, target, media).await;
        let error = match sent.map_err(UploadError::into_call) {
            Ok(id) => return Ok(id),
            Err(Ok(error)) => return Err(error.into()),
            Err(Err(error)) => error,
        };
        let file = file_name(media);
        tracing::warn!(channel = %self.base.name, %error, file, "a file could not be sent");
        let note = format!("[Failed to send: {file}]");
        let note = SendMessage::new(target.recipient(), note);
        Ok(send_message(&self.api, note, target).await?)
    }

    /// Returns the text of a part. The last part includes the choices, as buttons or in words.
    fn part_text(&self, part: &OutboundPart) -> PartText {
        let mut words = PartText {
            html: part.text.clone(),
            plain: part.plain.clone(),
            keyboard: None,
        };
        let rows = &part.message.buttons;
        if part.index + 1 != part.count || rows.is_empty() {
            return words;
        }
        // A question of the program itself always has its buttons.
        let is_question = part.message.kind == OutboundKind::Question;
        if self.config.inline_keyboards || is_question {
            words.keyboard = keyboard(rows);
            if !words.plain.trim().is_empty() {
                return words;
            }
        }
        let row = |row: &Vec<Button>| {
            row.iter()
                .map(|button| format!("[{}]", button.label))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let choices = rows.iter().map(row).collect::<Vec<_>>().join("\n");
        words.html = format!("{}\n\n{}", words.html, escaped(&choices))
            .trim_start()
            .to_owned();
        words.plain = format!("{}\n\n{choices}", words.plain)
            .trim_start()
            .to_owned();
        words
    }

    async fn send_text(
        &self,
        part: &OutboundPart,
        words: PartText,
        target: &SendTarget,
    ) -> Result<Option<TelegramMessage>, SendFailure> {
        if let Some(draft) = self.claim_draft(part).await {
            if self.complete_draft(target, draft, &words).await? {
                return Ok(Some(draft));
            }
            self.give_up_draft(part).await?;
        }
        let message = |text: String| {
            let mut message = SendMessage::new(target.recipient(), text);
            message.reply_markup = words.keyboard.clone().map(ReplyMarkup::InlineKeyboard);
            message
        };
        match send_message(
            &self.api,
            message(words.html.clone()).parse_mode(ParseMode::Html),
            target,
        )
        .await
        {
            Err(error) if error.is(Refusal::is_about_markup) => {
                tracing::debug!(channel = %self.base.name, %error, "markup was refused; the text goes plain");
                Ok(send_message(&self.api, message(words.plain.clone()), target).await?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Turns a draft into the reply. `false` if the message does not exist (any more).
    async fn complete_draft(
        &self,
        target: &SendTarget,
        draft: TelegramMessage,
        words: &PartText,
    ) -> Result<bool, SendFailure> {
        let edit = |text: &str| {
            let mut edit = EditMessageText::new(target.recipient(), draft, text);
            edit.reply_markup.clone_from(&words.keyboard);
            edit
        };
        let mut outcome = self
            .api
            .call::<_, IgnoredAny>(&edit(&words.html).parse_mode(ParseMode::Html))
            .await;
        if let Err(error) = &outcome
            && error.is(Refusal::is_about_markup)
        {
            outcome = self.api.call(&edit(&words.plain)).await;
        }
        match outcome {
            Ok(_) => Ok(true),
            Err(error) if error.is(Refusal::is_not_modified) => Ok(true),
            Err(error) if error.is(Refusal::is_not_editable) => Ok(false),
            Err(error) => Err(SendFailure::Edit(error)),
        }
    }
}

/// Sends a text to a target. `None` when Telegram took it but its answer names no message.
pub(crate) async fn send_message(
    api: &Api,
    mut message: SendMessage,
    target: &SendTarget,
) -> Result<Option<TelegramMessage>, CallError> {
    message.message_thread_id = target.thread();
    message.reply_parameters = target.reply_parameters();
    let answer: Box<RawValue> = api.call(&message).await?;
    Ok(parse_message_id(&answer))
}

/// Reads the id in an answer that means success, whatever else it contains.
pub(crate) fn parse_message_id<T: DeserializeOwned>(answer: &RawValue) -> Option<T> {
    serde_json::from_str(answer.get()).ok()
}

/// The outcome of sending an album.
#[derive(Debug)]
enum Album {
    /// It was sent; the last message, if the answer names it.
    Sent(Option<TelegramMessage>),
    /// Its files have to be sent one by one.
    None,
}

/// The text of a part in both forms, and its buttons.
#[derive(Debug)]
struct PartText {
    html: String,
    plain: String,
    keyboard: Option<InlineKeyboardMarkup>,
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The failure of sending a part.
#[derive(Debug)]
enum SendFailure {
    /// The chat has another id.
    Moved(i64),
    /// A repetition might send it twice.
    Send(CallError),
    /// A repetition does no harm.
    Edit(CallError),
}

impl From<CallError> for SendFailure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(Refusal {
                migrated_to: Some(chat),
                ..
            }) => Self::Moved(chat),
            other => Self::Send(other),
        }
    }
}

impl SendFailure {
    fn into_channel_error(self) -> ChannelError {
        match self {
            Self::Moved(chat) => ChannelError::NotFound(format!("the chat has moved to {chat}")),
            Self::Send(error) => error.into(),
            Self::Edit(error) => error.repeatable(),
        }
    }
}
