//! Drafts on Feishu: a card whose text grows (CardKit), and becomes the reply.
//!
//! Decision: a card that cannot be created is not tried again for some minutes. The usual reason is
//! a missing permission, and replies arrive without drafts, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nanobot_channel::markup::ZERO_WIDTH_SPACE;
use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::{DraftPause, DraftPlace};
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::api::{Api, Body, Endpoint};
use crate::card::{GROWING, growing_card};
use crate::channel::TEXT_LIMIT;
use crate::error::{CallError, Refusal};
use crate::outgoing::{Outgoing, send_message, uuid};
use crate::target::SendTarget;

/// The begin of the year 2026, in seconds. Feishu's numbers have 32 bits.
const YEAR_2026: u64 = 1_767_225_600;

/// The place of a draft.
#[derive(Debug)]
pub struct FeishuDraft {
    pub(crate) api: Arc<Api>,
    pub(crate) target: SendTarget,
    pub(crate) pause: Arc<DraftPause>,
}

/// A draft, as the message in the chat and the card in it.
#[derive(Clone, Debug)]
pub struct DraftCard {
    card: String,
    pub(crate) message: String,
    /// Every change of a card has a higher number than the one before.
    sequence: Arc<AtomicU64>,
}

impl DraftCard {
    /// Names a draft of an earlier process by its [locator](DraftPlace::locator).
    pub(crate) fn of_earlier_process(locator: Value) -> Option<Self> {
        let (message, card) = serde_json::from_value(locator).ok()?;
        Some(Self {
            card,
            message,
            sequence: Arc::new(AtomicU64::new(first_sequence(SystemTime::now()))),
        })
    }

    /// Makes a change of the card.
    async fn change<const N: usize>(
        &self,
        api: &Api,
        method: Method,
        path: [&str; N],
        mut body: Value,
    ) -> Result<(), CallError> {
        let sequence = self.sequence.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(members) = body.as_object_mut() {
            members.insert("sequence".to_owned(), sequence.into());
            let key = format!("{}/{sequence}", self.card);
            members.insert("uuid".to_owned(), uuid(&key).into());
        }
        let endpoint = Endpoint::new(method, ["cardkit", "v1", "cards", &self.card]);
        api.call(&endpoint.under(path), Body::Json(body)).await
    }

    async fn write(&self, api: &Api, text: &str) -> Result<(), CallError> {
        let path = ["elements", GROWING, "content"];
        self.change(api, Method::PUT, path, json!({"content": text}))
            .await
    }

    async fn set_growing(&self, api: &Api, is_growing: bool) -> Result<(), CallError> {
        let settings = json!({"config": {"streaming_mode": is_growing}});
        let body = json!({"settings": settings.to_string()});
        self.change(api, Method::PATCH, ["settings"], body).await
    }

    /// Turns the draft into a complete card. Both steps can be repeated.
    pub(crate) async fn complete(&self, api: &Api, card: &Value) -> Result<(), CallError> {
        match self.set_growing(api, false).await {
            Err(CallError::Refused(refusal)) => {
                tracing::debug!(%refusal, "a card was not growing any more");
            }
            ended => ended.map_err(CallError::unambiguous)?,
        }
        let body = json!({"card": {"type": "card_json", "data": card.to_string()}});
        self.change(api, Method::PUT, [], body)
            .await
            .map_err(CallError::unambiguous)
    }

    /// Deletes the message. Succeeds if it is gone.
    pub(crate) async fn delete(&self, api: &Api) -> Result<(), CallError> {
        let endpoint = Endpoint::new(Method::DELETE, ["im", "v1", "messages", &self.message]);
        match api.call(&endpoint, Body::Empty).await {
            Err(error) if error.is(Refusal::is_about_the_answered) => Ok(()),
            outcome => outcome,
        }
    }
}

impl FeishuDraft {
    async fn create(&self, text: &str, key: &str) -> Result<Option<DraftCard>, CallError> {
        #[derive(Deserialize)]
        struct Created {
            card_id: String,
        }
        let endpoint = Endpoint::new(Method::POST, ["cardkit", "v1", "cards"]);
        let body = json!({"type": "card_json", "data": growing_card(text).to_string()});
        let Created { card_id } = self.api.data(&endpoint, Body::Json(body)).await?;
        let content = json!({"type": "card", "data": {"card_id": card_id}});
        let outgoing = Outgoing::new("interactive", &content);
        let id = uuid(key);
        let send = || send_message(&self.api, &self.target, &outgoing, Some(&id));
        // A second message with the same id is dropped, and the first one is named in its place.
        let message = match send().await {
            Err(error) if error.is_ambiguous() => send().await?,
            sent => sent?,
        };
        Ok(message.map(|message| DraftCard {
            card: card_id,
            message,
            sequence: Arc::default(),
        }))
    }
}

impl DraftPlace for FeishuDraft {
    type Message = DraftCard;

    fn visible(&self, text: &str) -> String {
        visible(text)
    }

    fn intent(&self, key: &str) -> Option<Value> {
        let answered = self.target.answered.as_ref();
        let answered = answered.map(|answered| (&answered.message, answered.in_topic));
        Some(json!((&self.target.id, answered, key)))
    }

    async fn begin(&self, text: &str, key: &str) -> Result<Option<DraftCard>, ChannelError> {
        let created = self.create(text, key).await;
        if let Err(error) = &created
            && error.is(|refusal| refusal.is_about_scopes() || refusal.is_about_the_card())
        {
            tracing::info!(%error, "replies are not shown while they are written; the app may need the permission cardkit:card:write");
            self.pause.begin();
        }
        Ok(created?)
    }

    async fn edit(&self, draft: &DraftCard, text: &str) -> Result<(), ChannelError> {
        match draft.write(&self.api, text).await {
            Err(error) if error.is(Refusal::is_about_the_stream) => {
                draft.set_growing(&self.api, true).await?;
                Ok(draft.write(&self.api, text).await?)
            }
            outcome => Ok(outcome?),
        }
    }

    async fn remove(&self, draft: &DraftCard) -> Result<(), ChannelError> {
        Ok(draft.delete(&self.api).await?)
    }

    async fn leave(&self, draft: &DraftCard) -> Result<(), ChannelError> {
        Ok(draft.set_growing(&self.api, false).await?)
    }

    fn locator(&self, draft: &DraftCard) -> Option<Value> {
        Some(json!((&draft.message, &draft.card)))
    }
}

/// Returns a number that is higher than those of an earlier process, which counted from zero, and
/// than those of a process that began a second earlier.
fn first_sequence(now: SystemTime) -> u64 {
    let begin = UNIX_EPOCH + Duration::from_secs(YEAR_2026);
    now.duration_since(begin).unwrap_or_default().as_secs()
}

/// Returns as much of a text as fits into a card. It is shown as Markdown, as far as it goes; tags
/// and images in it are divided, so that an unfinished reply notifies no one.
fn visible(text: &str) -> String {
    let mut shown = String::new();
    let mut last = ' ';
    for c in text.chars() {
        if shown.len() + c.len_utf8() + ZERO_WIDTH_SPACE.len_utf8() > TEXT_LIMIT {
            break;
        }
        let begins_tag = last == '<' && (c.is_ascii_alphabetic() || c == '/');
        if begins_tag || (last == '!' && c == '[') {
            shown.push(ZERO_WIDTH_SPACE);
        }
        shown.push(c);
        last = c;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_text_is_harmless_and_truncated() {
        assert_eq!(
            visible("<at id=all></at> ![x](y) 1 < 2 **b**"),
            "<\u{200b}at id=all><\u{200b}/at> !\u{200b}[x](y) 1 < 2 **b**"
        );
        let long = visible(&"語".repeat(TEXT_LIMIT));
        assert!(
            (TEXT_LIMIT - 8..=TEXT_LIMIT).contains(&long.len()),
            "{}",
            long.len()
        );
    }
}
