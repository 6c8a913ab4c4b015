//! Sends finished parts: files first, then the text, into the draft when there is one.

use nanobot_channel::{ChannelError, MessageId, OutboundMessage, OutboundPart, Sent};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use teloxide::payloads::{EditMessageText, EditMessageTextSetters as _, SendMessage, SendMessageSetters as _};
use teloxide::types::{MessageId as TelegramMessage, ParseMode};

use crate::api::Api;
use crate::channel::TelegramChannel;
use crate::error::CallError;
use crate::place::Place;
use crate::upload::{UploadError, name_of, send_file};

impl TelegramChannel {
    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let message = &part.message;
        let mut place = Place::new(&message.chat_id, &message.delivery)?;
        if self.config.reply_to_message && part.index == 0 {
            place = place.quoting(&message.delivery);
        }
        match self.send_to(part, &place).await {
            Err(Failure::Moved(chat)) => self.send_to(part, &place.moved_to(chat)).await,
            outcome => outcome,
        }
        .map_err(Failure::into_channel_error)
    }

    async fn send_to(&self, part: &OutboundPart, place: &Place) -> Result<Sent, Failure> {
        let mut last = None;
        if part.index == 0 {
            last = self.send_files(&part.message, place).await?;
        }
        if !part.plain.trim().is_empty() {
            last = self.send_text(part, place).await?;
        }
        if part.index == 0 {
            self.attempts.forget(&part.message.key);
        }
        Ok(Sent { message_id: last.map(|id| MessageId::from(id.0.to_string())) })
    }

    async fn send_files(&self, message: &OutboundMessage, place: &Place) -> Result<Option<TelegramMessage>, Failure> {
        let mut last = None;
        let sent = self.attempts.files_sent(&message.key);
        for (index, media) in message.media.iter().enumerate().skip(sent) {
            last = match send_file(&self.api, place, media).await {
                Ok(id) => id,
                Err(UploadError::Call(error)) if !is_about_the_file(&error) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(channel = %self.name, %error, file = name_of(media), "a file could not be sent");
                    let note = format!("[Failed to send: {}]", name_of(media));
                    send_message(&self.api, SendMessage::new(place.recipient(), note), place).await?
                }
            };
            self.attempts.remember(&message.key, index + 1);
        }
        Ok(last)
    }

    async fn send_text(&self, part: &OutboundPart, place: &Place) -> Result<Option<TelegramMessage>, Failure> {
        let (html, plain) = with_buttons(part);
        let stream = part.message.completes.as_ref().filter(|_| part.index == 0);
        if let Some(stream) = stream
            && let Some(draft) = self.drafts.claim(stream).await
            && self.edit(place, draft, &html, &plain).await?
        {
            return Ok(Some(draft));
        }
        let message = SendMessage::new(place.recipient(), html).parse_mode(ParseMode::Html);
        match send_message(&self.api, message, place).await {
            Err(error) if error.is_about_markup() => {
                tracing::debug!(channel = %self.name, %error, "markup was refused; the text goes plain");
                Ok(send_message(&self.api, SendMessage::new(place.recipient(), plain), place).await?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Turns a draft into the reply. `false` when there is no such message (any more).
    async fn edit(&self, place: &Place, draft: TelegramMessage, html: &str, plain: &str) -> Result<bool, Failure> {
        let edit = EditMessageText::new(place.recipient(), draft, html).parse_mode(ParseMode::Html);
        let mut outcome = self.api.call::<_, IgnoredAny>(&edit).await;
        if outcome.as_ref().is_err_and(CallError::is_about_markup) {
            outcome = self.api.call(&EditMessageText::new(place.recipient(), draft, plain)).await;
        }
        match outcome {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_modified() => Ok(true),
            Err(error) if error.is_not_editable() => Ok(false),
            Err(error) => Err(Failure::Edit(error)),
        }
    }
}

/// Sends a text to a place. `None` when Telegram took it but its answer names no message.
pub(crate) async fn send_message(
    api: &Api,
    mut message: SendMessage,
    place: &Place,
) -> Result<Option<TelegramMessage>, CallError> {
    message.message_thread_id = place.thread();
    message.reply_parameters = place.reply_parameters();
    let answer: Box<RawValue> = api.call(&message).await?;
    Ok(serde_json::from_str(answer.get()).ok())
}

/// The text in both forms; the last part also says what the choices are.
fn with_buttons(part: &OutboundPart) -> (String, String) {
    let (mut html, mut plain) = (part.text.clone(), part.plain.clone());
    if part.index + 1 == part.count && !part.message.buttons.is_empty() {
        let rows = part
            .message
            .buttons
            .iter()
            .map(|row| row.iter().map(|button| format!("[{}]", button.label)).collect::<Vec<_>>().join(" "));
        let choices = rows.collect::<Vec<_>>().join("\n");
        html = format!("{html}\n\n{}", escaped(&choices));
        plain = format!("{plain}\n\n{choices}");
    }
    (html, plain)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether a refusal means the file alone, so that the rest of the message can go.
fn is_about_the_file(error: &CallError) -> bool {
    matches!(ChannelError::from(error.clone()), ChannelError::Refused(_) | ChannelError::TooLarge(_))
}

/// Why a part did not go.
#[derive(Debug)]
enum Failure {
    /// The chat has another id now.
    Moved(i64),
    /// Doing it again might do it twice.
    Send(CallError),
    /// Doing it again does no harm.
    Edit(CallError),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { migrated_to: Some(chat), .. } => Self::Moved(chat),
            other => Self::Send(other),
        }
    }
}

impl Failure {
    fn into_channel_error(self) -> ChannelError {
        match self {
            Self::Moved(chat) => ChannelError::NotFound(format!("the chat has moved to {chat}")),
            Self::Send(error) => error.into(),
            Self::Edit(error) => error.repeatable(),
        }
    }
}
