//! Sends finished parts: files first, then the text.
//!
//! Files and texts are messages of their own, under ids that follow from the part. A part whose
//! outcome is unknown is sent again under the same ids, and the bridge does not send a message
//! twice. Version 1 has no ids: there, the outcome stays unknown.

use nanobot_channel::{ChannelError, MediaRef, MessageId, OutboundPart, Sent, Value};
use nanobot_channel_kit::upload::{file_name, is_url};
use serde_json::json;

use crate::candidate::{MessageOrigin, PARTICIPANT, QUOTED};
use crate::channel::WhatsApp;
use crate::error::{CallError, Refusal};
use crate::jid::{Jid, JidKind};
use crate::message_id::message_id;
use crate::upload::{UploadedFile, upload_file};

const UNKNOWN: &str = "a bridge of version 1 does not tell whether this message was sent";

impl WhatsApp {
    /// Sends a notice of the channel itself in reply to a message.
    pub(crate) async fn notify(
        &self,
        origin: &MessageOrigin,
        text: &str,
    ) -> Result<(), ChannelError> {
        let to = target(&origin.chat)?;
        let key = format!("{}/notice", origin.id);
        self.send_message(&to, &key, json!({"text": text})).await?;
        Ok(())
    }

    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let to = target(part.message.chat_id.as_str())?;
        if part.in_doubt && !self.client.is_connected() {
            let why = "there is no connection to the bridge now";
            return Err(ChannelError::Unavailable(why.to_owned()));
        }
        if part.in_doubt && self.client.is_version_1() {
            return Err(ChannelError::Ambiguous(UNKNOWN.to_owned()));
        }
        let key = part.idempotency_key();
        let id = self.send_steps(part, &to, &key).await?;
        self.attempts.forget(&key);
        Ok(Sent {
            message_id: id.map(MessageId::from),
        })
    }

    /// Sends the missing steps: each file is one, and the text. Returns the id of the last message.
    async fn send_steps(
        &self,
        part: &OutboundPart,
        to: &Jid,
        key: &str,
    ) -> Result<Option<String>, CallError> {
        let media = if part.index == 0 {
            part.message.media.as_slice()
        } else {
            &[]
        };
        let mut last = None;
        for (number, file) in media.iter().enumerate().skip(self.attempts.of(key)) {
            let step = format!("{key}/file/{number}");
            last = Some(self.send_file(to, &step, file).await?);
            self.attempts.remember(key, number + 1);
        }
        let Some(text) = part_text(part) else {
            return Ok(last);
        };
        let mut content = json!({"text": text});
        if let (Some(quote), Some(members)) = (quote(part, to), content.as_object_mut()) {
            members.insert("quote".to_owned(), quote);
        }
        self.send_message(to, key, content).await.map(Some)
    }

    /// Sends a file, or a note in its place if it cannot be sent.
    async fn send_file(&self, to: &Jid, key: &str, media: &MediaRef) -> Result<String, CallError> {
        if is_url(media) {
            let link = json!({"text": media.location});
            return self.send_message(to, key, link).await;
        }
        let file = file_name(media);
        let error = match upload_file(&self.client, media).await {
            Ok(uploaded) => match self.send_uploaded(to, key, uploaded).await {
                Err(error) if error.refuses_content() => error.to_string(),
                outcome => return outcome,
            },
            Err(error) => match error.into_call() {
                Ok(error) => return Err(error),
                Err(error) => error.to_string(),
            },
        };
        tracing::warn!(channel = %self.base.name, error, file, "a file could not be sent");
        let note = json!({"text": format!("[Failed to send: {file}]")});
        self.send_message(to, &format!("{key}/note"), note).await
    }

    /// Sends an uploaded file; as a document if it is refused as an image or a video.
    async fn send_uploaded(
        &self,
        to: &Jid,
        key: &str,
        file: UploadedFile,
    ) -> Result<String, CallError> {
        let sent = self.send_message(to, key, file.content()).await;
        match sent {
            Err(error) if file.is_shown() && error.is(Refusal::is_about_the_content) => {
                tracing::debug!(%error, "a file was refused; it is sent as a document");
                let document = file.into_document();
                self.send_message(to, key, document.content()).await
            }
            outcome => outcome,
        }
    }

    /// Sends a message under the id of its key, and returns the id.
    async fn send_message(&self, to: &Jid, key: &str, content: Value) -> Result<String, CallError> {
        let to = to.to_string();
        let id = message_id(&to, key);
        let mut body = json!({"type": "send", "id": id, "to": to});
        if let (Some(members), Value::Object(content)) = (body.as_object_mut(), content) {
            members.extend(content);
        }
        let answer = self.client.call(body).await?;
        if answer.get("repeated") == Some(&Value::Bool(true)) {
            tracing::debug!(id, "a message was sent by an earlier attempt");
        }
        Ok(id)
    }
}

fn target(chat: &str) -> Result<Jid, ChannelError> {
    let unusable = || {
        let why = format!("`{chat}` is no phone number, person or group of WhatsApp");
        ChannelError::NotFound(why)
    };
    Jid::destination(chat).ok_or_else(unusable)
}

/// Returns the message that a reply quotes: in a group, the one that it answers.
fn quote(part: &OutboundPart, to: &Jid) -> Option<Value> {
    let message = &part.message;
    if to.kind != JidKind::Group || part.index > 0 || !message.kind.is_durable() {
        return None;
    }
    let extra = |key: &str| message.delivery.extra.get(key).and_then(Value::as_str);
    Some(json!({
        "id": message.delivery.reply_to.as_ref()?.as_str(),
        "participant": extra(PARTICIPANT)?, "content": extra(QUOTED).unwrap_or_default(),
    }))
}

/// Returns the text of a part with the labels of its buttons below the last one: a choice is made
/// by its words. `None` if it has none.
fn part_text(part: &OutboundPart) -> Option<String> {
    let labels = labels(part);
    let text = match part.plain.trim() {
        "" => "",
        _ => part.text.as_str(),
    };
    let gap = if text.is_empty() || labels.is_empty() {
        ""
    } else {
        "\n\n"
    };
    Some(format!("{text}{gap}{labels}")).filter(|text| !text.is_empty())
}

fn labels(part: &OutboundPart) -> String {
    if part.index + 1 < part.count {
        return String::new();
    }
    let buttons = part.message.buttons.iter().flatten();
    let labels = buttons.map(|button| button.label.trim());
    let labels = labels.filter(|label| !label.is_empty());
    let labels: Vec<String> = labels.map(|label| format!("[{label}]")).collect();
    labels.join(" ")
}
