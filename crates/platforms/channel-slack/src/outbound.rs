//! Sends finished parts: files first, then the text, into the draft when there is one.
//!
//! Every message carries the key of its part as message metadata, by which it can be found.

use std::collections::HashMap;
use std::sync::Arc;

use nanobot_channel::{
    ChannelError, ChatId, DeliveryContext, MediaRef, MessageId, OutboundPart, Sent,
};
use nanobot_channel_kit::upload::name_of;
use serde::Deserialize;
use slack_morphism::api::{
    SlackApiChatDeleteRequest, SlackApiChatPostMessageRequest, SlackApiChatUpdateRequest,
};
use slack_morphism::{SlackMessageContent, SlackMessageMetadata, SlackTs};

use crate::api::{Api, Done};
use crate::blocks::{SECTION_LIMIT, in_words, with_buttons, with_table};
use crate::channel::SlackChannel;
use crate::doubt::{Attempt, Step};
use crate::error::{CallError, Refusal};
use crate::place::Place;
use crate::text::{escaped, head};
use crate::upload::{address_of, send_file};

/// How much text an edit takes, in code points; a new message takes ten times as much.
pub(crate) const EDIT_LIMIT: usize = 4000;
/// The name of our metadata.
pub(crate) const METADATA: &str = "nanobot_part";
/// What Slack says about a message it took.
#[derive(Debug, Deserialize)]
pub(crate) struct Posted {
    pub(crate) ts: Option<String>,
}

impl SlackChannel {
    /// Says something on the channel's own behalf.
    pub(crate) async fn say(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
        text: &str,
    ) -> Result<(), ChannelError> {
        let place = self.place(chat, delivery).await?;
        post(
            &self.api,
            &place,
            named(
                SlackMessageContent::new().with_text(text.to_owned()),
                "notice",
            ),
        )
        .await?;
        Ok(())
    }

    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let place = self
            .place(&part.message.chat_id, &part.message.delivery)
            .await?;
        let key = part.idempotency_key();
        let ts = self.send_steps(part, &place, &key).await?;
        self.attempts.forget(&key);
        Ok(Sent {
            message_id: ts.map(MessageId::from),
        })
    }

    /// Does what is not done yet: each file is a step, and so is each text.
    async fn send_steps(
        &self,
        part: &OutboundPart,
        place: &Place,
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
            let (done, last) = self.steps_done(place, part, &steps, attempt.done).await?;
            (attempt, found) = (
                Attempt {
                    done,
                    is_open: false,
                },
                last,
            );
            self.attempts.remember(key, attempt);
        }
        for (number, file) in media.iter().enumerate().skip(attempt.done) {
            let name = file_name(key, number);
            if let Some(text) = self.send_media(place, file).await? {
                let content = SlackMessageContent::new().with_text(text);
                self.post_once(place, content, &name, key, &mut attempt)
                    .await?;
            }
            attempt = Attempt {
                done: attempt.done + 1,
                is_open: false,
            };
            self.attempts.remember(key, attempt);
        }
        let sent = match self.send_texts(part, place, key, texts, &mut attempt).await {
            Err(error) if error.is(Refusal::is_about_blocks) && !part.blocks.is_empty() => {
                tracing::warn!(channel = %self.name, %error, "a table was refused; it is sent as text");
                self.send_texts(part, place, key, self::texts(part, false), &mut attempt)
                    .await?
            }
            sent => sent?,
        };
        Ok(sent.or(found))
    }

    /// Sends the texts that are not sent yet. The `ts` of the last one.
    async fn send_texts(
        &self,
        part: &OutboundPart,
        place: &Place,
        key: &str,
        texts: Vec<SlackMessageContent>,
        attempt: &mut Attempt,
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
            let name = text_name(key, number);
            let draft = match part
                .message
                .completes
                .as_ref()
                .filter(|_| part.index == 0 && number == 0)
            {
                Some(stream) => self.drafts.claim(stream).await,
                None => None,
            };
            last = match draft {
                Some(draft) if self.becomes(place, &draft, &content, &name).await? => Some(draft),
                draft => {
                    let posted = self.post_once(place, content, &name, key, attempt).await?;
                    if let Some(draft) = draft {
                        self.take_away(place.clone(), draft);
                    }
                    posted
                }
            };
            *attempt = Attempt {
                done: attempt.done + 1,
                is_open: false,
            };
            self.attempts.remember(key, *attempt);
        }
        Ok(last)
    }

    /// Sends a file. What it cannot send it returns in words.
    async fn send_media(
        &self,
        place: &Place,
        media: &MediaRef,
    ) -> Result<Option<String>, CallError> {
        if let Some(address) = address_of(media) {
            return Ok(Some(format!("<{}>", escaped(address))));
        }
        match send_file(&self.api, place, media).await {
            Ok(()) => Ok(None),
            Err(error) => {
                let error = match error.into_call() {
                    Ok(error) => return Err(error),
                    Err(error) => error,
                };
                let file = name_of(media);
                tracing::warn!(channel = %self.name, %error, file, "a file could not be sent");
                Ok(Some(escaped(&format!("[Failed to send: {file}]"))))
            }
        }
    }

    /// Turns a draft into the reply. `false` when the reply does not fit, or the draft cannot be
    /// edited (any more).
    async fn becomes(
        &self,
        place: &Place,
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
        match update(&self.api, place, draft, named(content, name)).await {
            Ok(()) => Ok(true),
            Err(error) if error.is(Refusal::is_not_editable) => Ok(false),
            // An edit does no harm when it is made twice.
            Err(error) => Err(error.unambiguous()),
        }
    }

    /// Takes away a draft that the reply did not become, without waiting for it.
    fn take_away(&self, place: Place, draft: String) {
        let (api, channel) = (Arc::clone(&self.api), self.name.clone());
        self.in_background(async move {
            if let Err(error) = delete(&api, &place, &draft).await {
                tracing::debug!(%channel, %error, "a draft could not be taken away");
            }
        });
    }
}

/// Sends a new message. Its `ts`, where Slack says it.
pub(crate) async fn post(
    api: &Api,
    place: &Place,
    content: SlackMessageContent,
) -> Result<Option<String>, CallError> {
    let request = SlackApiChatPostMessageRequest::new(place.channel_id(), content)
        .opt_thread_ts(place.thread_ts());
    api.call::<_, Posted>("chat.postMessage", &request)
        .await
        .map(|posted| posted.ts)
}

/// Changes a message.
pub(crate) async fn update(
    api: &Api,
    place: &Place,
    ts: &str,
    content: SlackMessageContent,
) -> Result<(), CallError> {
    let request =
        SlackApiChatUpdateRequest::new(place.channel_id(), content, SlackTs::new(ts.to_owned()));
    api.call::<_, Done>("chat.update", &request).await.map(drop)
}

/// Takes a message away.
pub(crate) async fn delete(api: &Api, place: &Place, ts: &str) -> Result<(), CallError> {
    let request = SlackApiChatDeleteRequest::new(place.channel_id(), SlackTs::new(ts.to_owned()));
    api.call::<_, Done>("chat.delete", &request).await.map(drop)
}

/// The same with a name by which it can be found.
pub(crate) fn named(content: SlackMessageContent, name: &str) -> SlackMessageContent {
    let payload = HashMap::from([("key".to_owned(), name.to_owned())]);
    content
        .with_metadata(SlackMessageMetadata::new(METADATA.to_owned()).with_event_payload(payload))
}

/// The texts of a part: one, and one more for buttons that do not fit below it. With its table as
/// one, it is one message in any case.
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

fn file_name(key: &str, number: usize) -> String {
    format!("{key}/file/{number}")
}

fn text_name(key: &str, number: usize) -> String {
    format!("{key}/{number}")
}

/// The messages that a part is made of. Files that are addresses go as text.
fn steps(key: &str, media: &[MediaRef], texts: usize) -> Vec<Step> {
    let files = media.iter().enumerate().map(|(number, file)| {
        let is_file = address_of(file).is_none();
        Step {
            name: file_name(key, number),
            is_file,
        }
    });
    files
        .chain((0..texts).map(|number| Step {
            name: text_name(key, number),
            is_file: false,
        }))
        .collect()
}
