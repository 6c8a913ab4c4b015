//! Sends finished parts: files first, then the text, into the draft when there is one.
//!
//! Every message of the ledger carries a nonce made of its key, and asks Discord to hold to it: a
//! second one with the same nonce is dropped there for some minutes, and answered with the first.
//! What may be lost has no key of its own, hence no nonce, and quotes nothing.

use nanobot_channel::{ChannelError, MessageId as SentId, OutboundPart, Sent};
use nanobot_channel_kit::upload::{is_address, name_of};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serenity::builder::{
    CreateActionRow, CreateAllowedMentions, CreateButton, CreateMessage, EditMessage,
};
use serenity::model::application::ButtonStyle;
use serenity::model::channel::Nonce;
use serenity::model::id::MessageId;
use sha2::{Digest as _, Sha256};

use crate::api::Body;
use crate::channel::DiscordChannel;
use crate::error::{CallError, Refusal};
use crate::place::Place;
use crate::route::Route;
use crate::upload::{UploadError, form};

/// How many rows of buttons a message takes, and how many buttons a row.
const ROWS: usize = 5;
/// How long the text of a button may be, in characters.
const LABEL: usize = 80;

/// What is needed of a message that was made.
#[derive(Debug, Deserialize)]
struct Created {
    id: MessageId,
}

impl DiscordChannel {
    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let message = &part.message;
        let mut place = Place::new(&message.chat_id, &message.delivery)?;
        let mut last = None;
        if part.index == 0 {
            if self.config.reply_to_message && message.kind.is_durable() {
                place = place.quoting(&message.delivery);
            }
            for (index, media) in message.media.iter().enumerate() {
                let file = named(CreateMessage::new(), part, &format!("/file/{index}"));
                last = Some(self.send_file(&place, media, file).await?);
                place = place.without_quote();
            }
        }
        let rows = button_rows(part);
        if !part.text.trim().is_empty() || !rows.is_empty() {
            last = Some(self.send_text(part, &place, rows).await?);
        }
        Ok(Sent {
            message_id: last.map(|id| SentId::from(id.to_string())),
        })
    }

    async fn send_file(
        &self,
        place: &Place,
        media: &nanobot_channel::MediaRef,
        message: CreateMessage,
    ) -> Result<MessageId, ChannelError> {
        if is_address(media) {
            return Ok(self
                .create_message(place, message.content(&media.location))
                .await?);
        }
        let uploaded = match form(media, json_of(&decorated(message.clone(), place))).await {
            Ok(form) => self
                .post(place, Body::Form(form))
                .await
                .map_err(UploadError::Call),
            Err(error) => Err(error),
        };
        let error = match uploaded.map_err(UploadError::into_call) {
            Ok(id) => return Ok(id),
            Err(Ok(error)) => return Err(error.into()),
            Err(Err(error)) => error,
        };
        let file = name_of(media);
        tracing::warn!(channel = %self.name, %error, file, "a file could not be sent");
        let note = format!("[attachment: {file} - send failed]");
        Ok(self.create_message(place, message.content(note)).await?)
    }

    async fn send_text(
        &self,
        part: &OutboundPart,
        place: &Place,
        rows: Vec<CreateActionRow>,
    ) -> Result<MessageId, ChannelError> {
        let stream = part.message.completes.as_ref().filter(|_| part.index == 0);
        if let Some(stream) = stream
            && let Some(draft) = self.drafts.claim(stream).await
        {
            let edit = EditMessage::new()
                .content(&part.text)
                .components(rows.clone());
            match self.edit_message(place, draft, edit).await {
                Ok(()) => return Ok(draft),
                // Somebody took the draft away: the reply is a message of its own.
                Err(error) if error.is(Refusal::is_about_a_lost_message) => {}
                Err(error) => return Err(error.repeatable()),
            }
        }
        let message = named(CreateMessage::new().content(&part.text), part, "");
        let message = if rows.is_empty() {
            message
        } else {
            message.components(rows)
        };
        Ok(self.create_message(place, message).await?)
    }

    /// Makes a message that wakes nobody but those it names.
    pub(crate) async fn create_message(
        &self,
        place: &Place,
        message: CreateMessage,
    ) -> Result<MessageId, CallError> {
        self.post(place, Body::Json(json_of(&decorated(message, place))))
            .await
    }

    async fn post(&self, place: &Place, body: Body) -> Result<MessageId, CallError> {
        let created: Created = self
            .api
            .call(&Route::create_message(place.channel()), body)
            .await?;
        Ok(created.id)
    }

    /// Changes a message of the bot's.
    pub(crate) async fn edit_message(
        &self,
        place: &Place,
        id: MessageId,
        edit: EditMessage,
    ) -> Result<(), CallError> {
        let edit = json_of(&edit.allowed_mentions(mentions()));
        let route = Route::edit_message(place.channel(), id);
        self.api
            .call::<serde::de::IgnoredAny>(&route, Body::Json(edit))
            .await
            .map(drop)
    }
}

/// The JSON of a request's body.
pub(crate) fn json_of(body: &impl Serialize) -> Value {
    serde_json::to_value(body).unwrap_or_default()
}

fn decorated(message: CreateMessage, place: &Place) -> CreateMessage {
    let message = message.allowed_mentions(mentions());
    match place.reference() {
        Some(reference) => message.reference_message(reference),
        None => message,
    }
}

/// People by name, but neither everyone nor roles, nor the one who is quoted.
fn mentions() -> CreateAllowedMentions {
    CreateAllowedMentions::new()
        .all_users(true)
        .replied_user(false)
}

/// A message that is made once, however often this piece of a part is sent.
fn named(message: CreateMessage, part: &OutboundPart, piece: &str) -> CreateMessage {
    if !part.message.kind.is_durable() {
        return message;
    }
    let key = format!("{}{piece}", part.idempotency_key());
    message
        .nonce(Nonce::String(nonce(&key)))
        .enforce_nonce(true)
}

/// A key in the 25 characters that a nonce may have.
fn nonce(key: &str) -> String {
    let mut nonce: String = Sha256::digest(key.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    nonce.truncate(25);
    nonce
}

/// The choices below the last part. What Discord does not take as buttons is left to the text.
fn button_rows(part: &OutboundPart) -> Vec<CreateActionRow> {
    if part.index + 1 < part.count {
        return Vec::new();
    }
    let rows = part
        .message
        .buttons
        .iter()
        .filter(|row| !row.is_empty())
        .take(ROWS)
        .enumerate();
    let rows = rows.map(|(number, row)| {
        let buttons = row.iter().take(ROWS).enumerate().map(|(place, button)| {
            let label: String = button.label.chars().take(LABEL).collect();
            CreateButton::new(format!("choice:{number}:{place}"))
                .label(label)
                .style(ButtonStyle::Secondary)
        });
        CreateActionRow::Buttons(buttons.collect())
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_depends_on_the_whole_key_and_fits() {
        let nonces = ["turn/0/0", "turn/0/1", "turn/0/0/file/0"].map(nonce);
        assert!(nonces.iter().all(|nonce| nonce.len() == 25), "{nonces:?}");
        assert_eq!(nonces[0], nonce("turn/0/0"));
        assert!(nonces[0] != nonces[1] && nonces[1] != nonces[2] && nonces[0] != nonces[2]);
    }
}
