//! Sends finished parts: files first, then the text, into the draft when there is one.
//!
//! Every message of the ledger carries an enforced nonce made of its key: for some minutes, Discord
//! drops a second one with the same nonce and answers with the first. A message that may be lost
//! has no key, and so no nonce and no quote.

use nanobot_channel::{ChannelError, MessageId as SentId, OutboundPart, Sent};
use nanobot_channel_kit::Platform as _;
use nanobot_channel_kit::upload::{file_name, is_url};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serenity::builder::{
    CreateActionRow, CreateAllowedMentions, CreateButton, CreateMessage, EditMessage,
};
use serenity::model::application::ButtonStyle;
use serenity::model::channel::Nonce;
use serenity::model::id::MessageId;
use sha2::{Digest as _, Sha256};

use crate::api::{Api, Body};
use crate::channel::Discord;
use crate::error::{CallError, Refusal};
use crate::route::Route;
use crate::target::SendTarget;
use crate::upload::{UploadError, form};

/// Most rows of buttons of a message, and most buttons of a row.
const MAX_BUTTONS: usize = 5;
/// Limit of a button's label, in characters.
const MAX_LABEL_LENGTH: usize = 80;

/// The used fields of a created message.
#[derive(Debug, Deserialize)]
struct Created {
    id: MessageId,
}

impl Discord {
    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let message = &part.message;
        let mut target = SendTarget::new(&message.chat_id, &message.delivery)?;
        let mut last = None;
        if part.index == 0 {
            if self.config.reply_to_message && message.kind.is_durable() {
                target = target.quoting(&message.delivery);
            }
            for (index, media) in message.media.iter().enumerate() {
                let file = with_nonce(CreateMessage::new(), part, &format!("/file/{index}"));
                last = Some(self.send_file(&target, media, file).await?);
                target = target.without_quote();
            }
        }
        let rows = button_rows(part);
        if !part.text.trim().is_empty() || !rows.is_empty() {
            last = Some(self.send_text(part, &target, rows).await?);
        }
        Ok(Sent {
            message_id: last.map(|id| SentId::from(id.to_string())),
        })
    }

    async fn send_file(
        &self,
        target: &SendTarget,
        media: &nanobot_channel::MediaRef,
        message: CreateMessage,
    ) -> Result<MessageId, ChannelError> {
        if is_url(media) {
            return Ok(create_message(&self.api, target, message.content(&media.location)).await?);
        }
        let uploaded = match form(
            media,
            to_json(&with_mentions_and_quote(message.clone(), target)),
        )
        .await
        {
            Ok(form) => post(&self.api, target, Body::Form(form))
                .await
                .map_err(UploadError::Call),
            Err(error) => Err(error),
        };
        let error = match uploaded.map_err(UploadError::into_call) {
            Ok(id) => return Ok(id),
            Err(Ok(error)) => return Err(error.into()),
            Err(Err(error)) => error,
        };
        let file = file_name(media);
        tracing::warn!(channel = %self.base.name, %error, file, "a file could not be sent");
        let note = format!("[attachment: {file} - send failed]");
        Ok(create_message(&self.api, target, message.content(note)).await?)
    }

    async fn send_text(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        rows: Vec<CreateActionRow>,
    ) -> Result<MessageId, ChannelError> {
        if let Some(draft) = self.claim_draft(part).await {
            let edit = EditMessage::new()
                .content(&part.text)
                .components(rows.clone());
            match edit_message(&self.api, target, draft, edit).await {
                Ok(()) => return Ok(draft),
                // The draft was deleted: the reply is a message of its own.
                Err(error) if error.is(Refusal::is_message_gone) => {}
                Err(error) => return Err(error.repeatable()),
            }
        }
        let message = with_nonce(CreateMessage::new().content(&part.text), part, "");
        let message = if rows.is_empty() {
            message
        } else {
            message.components(rows)
        };
        Ok(create_message(&self.api, target, message).await?)
    }
}

/// Creates a message that mentions only the users it names.
pub(crate) async fn create_message(
    api: &Api,
    target: &SendTarget,
    message: CreateMessage,
) -> Result<MessageId, CallError> {
    let body = Body::Json(to_json(&with_mentions_and_quote(message, target)));
    post(api, target, body).await
}

async fn post(api: &Api, target: &SendTarget, body: Body) -> Result<MessageId, CallError> {
    let route = Route::create_message(target.channel_id());
    let created: Created = api.call(&route, body).await?;
    Ok(created.id)
}

/// Edits a message of the bot.
pub(crate) async fn edit_message(
    api: &Api,
    target: &SendTarget,
    id: MessageId,
    edit: EditMessage,
) -> Result<(), CallError> {
    let edit = to_json(&edit.allowed_mentions(allowed_mentions()));
    let route = Route::edit_message(target.channel_id(), id);
    let edited = api.call::<IgnoredAny>(&route, Body::Json(edit)).await;
    edited.map(drop)
}

/// Returns the JSON of a request's body.
pub(crate) fn to_json(body: &impl Serialize) -> Value {
    serde_json::to_value(body).unwrap_or_default()
}

fn with_mentions_and_quote(message: CreateMessage, target: &SendTarget) -> CreateMessage {
    let message = message.allowed_mentions(allowed_mentions());
    match target.reference() {
        Some(reference) => message.reference_message(reference),
        None => message,
    }
}

/// Allows mentions of users, but not of everyone, of roles or of the quoted author.
fn allowed_mentions() -> CreateAllowedMentions {
    CreateAllowedMentions::new()
        .all_users(true)
        .replied_user(false)
}

/// Adds the nonce of this piece of a part.
fn with_nonce(message: CreateMessage, part: &OutboundPart, piece: &str) -> CreateMessage {
    let key = format!("{}{piece}", part.idempotency_key());
    with_nonce_of(message, &key)
}

/// Adds the nonce of a key.
pub(crate) fn with_nonce_of(message: CreateMessage, key: &str) -> CreateMessage {
    message.nonce(Nonce::String(nonce(key))).enforce_nonce(true)
}

/// Returns a digest of a key in the 25 characters of a nonce.
fn nonce(key: &str) -> String {
    let mut nonce: String = Sha256::digest(key.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    nonce.truncate(25);
    nonce
}

/// Returns the choices below the last part, as far as Discord accepts them as buttons.
fn button_rows(part: &OutboundPart) -> Vec<CreateActionRow> {
    if part.index + 1 < part.count {
        return Vec::new();
    }
    let rows = part
        .message
        .buttons
        .iter()
        .filter(|row| !row.is_empty())
        .take(MAX_BUTTONS)
        .enumerate();
    let rows = rows.map(|(number, row)| {
        let buttons = row
            .iter()
            .take(MAX_BUTTONS)
            .enumerate()
            .map(|(place, button)| {
                let label: String = button.label.chars().take(MAX_LABEL_LENGTH).collect();
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
    fn nonce_is_a_bounded_digest_of_the_key() {
        let nonces = ["turn/0/0", "turn/0/1", "turn/0/0/file/0"].map(nonce);
        assert!(nonces.iter().all(|nonce| nonce.len() == 25), "{nonces:?}");
        assert_eq!(nonces[0], nonce("turn/0/0"));
        assert!(nonces[0] != nonces[1] && nonces[1] != nonces[2] && nonces[0] != nonces[2]);
    }
}
