//! Sends finished parts: files first, then the text, into the draft when there is one.
//!
//! Every message carries the key of its part as message metadata, by which it is searched.

use std::collections::HashMap;
use std::sync::Arc;

use nanobot_channel::{
    ChannelError, ChatId, DeliveryContext, MediaRef, MessageId, OutboundPart, Sent,
};
use nanobot_channel_kit::Platform as _;
use nanobot_channel_kit::upload::file_name;
use serde::Deserialize;
use slack_morphism::api::{
    SlackApiChatDeleteRequest, SlackApiChatPostMessageRequest, SlackApiChatUpdateRequest,
};
use slack_morphism::{SlackMessageContent, SlackMessageMetadata, SlackTs};

use crate::api::{Api, NoContent};
use crate::blocks::{SECTION_LIMIT, in_words, with_buttons, with_table};
use crate::channel::Slack;
use crate::error::{CallError, Refusal};
use crate::target::SendTarget;
use crate::text::{escaped, head};
use crate::uncertain::{SendProgress, SendStep};
use crate::upload::{address_of, send_file};

/// Limit of an edit's text, in code points; that of a new message is ten times as large.
pub(crate) const EDIT_LIMIT: usize = 4000;
/// The type of the metadata.
pub(crate) const METADATA: &str = "nanobot_part";
/// Slack's answer to a new message.
#[derive(Debug, Deserialize)]
pub(crate) struct Posted {
    pub(crate) ts: Option<String>,
}

impl Slack {
    /// Sends a notice of the channel itself.
    pub(crate) async fn notify(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
        text: &str,
    ) -> Result<(), ChannelError> {
        let target = self.target(chat, delivery).await?;
        post(
            &self.api,
            &target,
            with_key(
                SlackMessageContent::new().with_text(text.to_owned()),
                "notice",
            ),
        )
        .await?;
        Ok(())
    }

    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let target = self
            .target(&part.message.chat_id, &part.message.delivery)
            .await?;
        let key = part.idempotency_key();
        let ts = self.send_steps(part, &target, &key).await?;
        self.attempts.forget(&key);
        Ok(Sent {
            message_id: ts.map(MessageId::from),
        })
    }

    /// Sends the missing steps: each file is one, and each text.
    async fn send_steps(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        key: &str,
    ) -> Result<Option<String>, CallError> {
        let mut attempt = self.attempts.of(key);
        let media = if part.index == 0 {
            part.message.media.as_slice()
        } else {
            &[]
        };
        let texts = texts(part, true);
        let mut found = None;
        if part.in_doubt {
            let steps = steps(key, media, texts.len());
            let (done, last) = self.sent_steps(target, part, &steps, attempt.done).await?;
            (attempt, found) = (
                SendProgress {
                    done,
                    is_open: false,
                },
                last,
            );
            self.attempts.remember(key, attempt);
        }
        for (number, file) in media.iter().enumerate().skip(attempt.done) {
            let name = file_key(key, number);
            if let Some(text) = self.send_media(target, file).await? {
                let content = SlackMessageContent::new().with_text(text);
                self.post_once(target, content, &name, key, &mut attempt)
                    .await?;
            }
            attempt = SendProgress {
                done: attempt.done + 1,
                is_open: false,
            };
            self.attempts.remember(key, attempt);
        }
        let sent = match self
            .send_texts(part, target, key, texts, &mut attempt)
            .await
        {
            Err(error) if error.is(Refusal::is_about_blocks) && !part.blocks.is_empty() => {
                tracing::warn!(channel = %self.base.name, %error, "a table was refused; it is sent as text");
                self.send_texts(part, target, key, self::texts(part, false), &mut attempt)
                    .await?
            }
            sent => sent?,
        };
        Ok(sent.or(found))
    }

    /// Sends the missing texts. Returns the `ts` of the last one.
    async fn send_texts(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        key: &str,
        texts: Vec<SlackMessageContent>,
        attempt: &mut SendProgress,
    ) -> Result<Option<String>, CallError> {
        let files = if part.index == 0 {
            part.message.media.len()
        } else {
            0
        };
        let mut last = None;
        for (number, content) in texts
            .into_iter()
            .enumerate()
            .skip(attempt.done.saturating_sub(files))
        {
            let name = text_key(key, number);
            let draft = match number {
                0 => self.claim_draft(part).await,
                _ => None,
            };
            last = match draft {
                Some(draft) if self.complete_draft(target, &draft, &content, &name).await? => {
                    Some(draft)
                }
                draft => {
                    let posted = self.post_once(target, content, &name, key, attempt).await?;
                    if let Some(draft) = draft {
                        self.delete_draft(target.clone(), draft);
                    }
                    posted
                }
            };
            *attempt = SendProgress {
                done: attempt.done + 1,
                is_open: false,
            };
            self.attempts.remember(key, *attempt);
        }
        Ok(last)
    }

    /// Sends a file. Returns a note if it cannot be sent.
    async fn send_media(
        &self,
        target: &SendTarget,
        media: &MediaRef,
    ) -> Result<Option<String>, CallError> {
        if let Some(address) = address_of(media) {
            return Ok(Some(format!("<{}>", escaped(address))));
        }
        match send_file(&self.api, target, media).await {
            Ok(()) => Ok(None),
            Err(error) => {
                let error = match error.into_call() {
                    Ok(error) => return Err(error),
                    Err(error) => error,
                };
                let file = file_name(media);
                tracing::warn!(channel = %self.base.name, %error, file, "a file could not be sent");
                Ok(Some(escaped(&format!("[Failed to send: {file}]"))))
            }
        }
    }

    /// Turns a draft into the reply. `false` if the reply does not fit, or the draft cannot be
    /// edited (any more).
    async fn complete_draft(
        &self,
        target: &SendTarget,
        draft: &str,
        content: &SlackMessageContent,
        name: &str,
    ) -> Result<bool, CallError> {
        let text = content.text.as_deref().unwrap_or_default();
        let mut content = content.clone();
        if text.chars().count() > EDIT_LIMIT {
            if content.blocks.is_none() {
                return Ok(false);
            }
            // The blocks say it all; the text is for notifications.
            content.text = Some(head(text, EDIT_LIMIT).to_owned());
        }
        match update(&self.api, target, draft, with_key(content, name)).await {
            Ok(()) => Ok(true),
            Err(error) if error.is(Refusal::is_not_editable) => Ok(false),
            // An edit does no harm when it is made twice.
            Err(error) => Err(error.unambiguous()),
        }
    }

    /// Deletes a draft that did not become the reply, in the background.
    fn delete_draft(&self, target: SendTarget, draft: String) {
        let (api, channel) = (Arc::clone(&self.api), self.base.name.clone());
        self.base.background.spawn(async move {
            if let Err(error) = delete(&api, &target, &draft).await {
                tracing::debug!(%channel, %error, "a draft could not be taken away");
            }
        });
    }
}

/// Sends a new message. Returns its `ts`, if Slack reports it.
pub(crate) async fn post(
    api: &Api,
    target: &SendTarget,
    content: SlackMessageContent,
) -> Result<Option<String>, CallError> {
    let request = SlackApiChatPostMessageRequest::new(target.channel_id(), content)
        .opt_thread_ts(target.thread_ts());
    api.call::<_, Posted>("chat.postMessage", &request)
        .await
        .map(|posted| posted.ts)
}

/// Edits a message.
pub(crate) async fn update(
    api: &Api,
    target: &SendTarget,
    ts: &str,
    content: SlackMessageContent,
) -> Result<(), CallError> {
    let request =
        SlackApiChatUpdateRequest::new(target.channel_id(), content, SlackTs::new(ts.to_owned()));
    api.call::<_, NoContent>("chat.update", &request)
        .await
        .map(drop)
}

/// Deletes a message.
pub(crate) async fn delete(api: &Api, target: &SendTarget, ts: &str) -> Result<(), CallError> {
    let request = SlackApiChatDeleteRequest::new(target.channel_id(), SlackTs::new(ts.to_owned()));
    api.call::<_, NoContent>("chat.delete", &request)
        .await
        .map(drop)
}

/// Adds the key of a message as metadata.
pub(crate) fn with_key(content: SlackMessageContent, name: &str) -> SlackMessageContent {
    let payload = HashMap::from([("key".to_owned(), name.to_owned())]);
    content
        .with_metadata(SlackMessageMetadata::new(METADATA.to_owned()).with_event_payload(payload))
}

/// Returns the texts of a part: one, and another for buttons that do not fit below it. A table is
/// always one message.
fn texts(part: &OutboundPart, shows_table: bool) -> Vec<SlackMessageContent> {
    let content = |text: &str| SlackMessageContent::new().with_text(text.to_owned());
    let rows = &part.message.buttons;
    let has_buttons = part.index + 1 == part.count && rows.iter().any(|row| !row.is_empty());
    let has_text = !part.plain.trim().is_empty();
    if shows_table && !part.blocks.is_empty() {
        let rows = if has_buttons { rows.as_slice() } else { &[] };
        return vec![content(&part.text).with_blocks(with_table(&part.blocks, rows))];
    }
    if !has_buttons {
        return if has_text {
            vec![content(&part.text)]
        } else {
            Vec::new()
        };
    }
    let choices = escaped(&in_words(rows));
    if part.text.chars().count() > SECTION_LIMIT {
        return vec![
            content(&part.text),
            content(&choices).with_blocks(with_buttons("", rows)),
        ];
    }
    let text = if has_text {
        format!("{}\n{choices}", part.text)
    } else {
        choices
    };
    vec![content(&text).with_blocks(with_buttons(&part.text, rows))]
}

fn file_key(key: &str, number: usize) -> String {
    format!("{key}/file/{number}")
}

fn text_key(key: &str, number: usize) -> String {
    format!("{key}/{number}")
}

/// Returns the messages of a part. Files with a web address are sent as text.
fn steps(key: &str, media: &[MediaRef], texts: usize) -> Vec<SendStep> {
    let files = media.iter().enumerate().map(|(number, file)| {
        let is_file = address_of(file).is_none();
        SendStep {
            key: file_key(key, number),
            is_file,
        }
    });
    files
        .chain((0..texts).map(|number| SendStep {
            key: text_key(key, number),
            is_file: false,
        }))
        .collect()
}
