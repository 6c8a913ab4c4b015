//! Messages, and the methods that create and change them.

use serde_json::{Value, json};

use crate::account::BOT_USER;
use crate::api::{ApiError, ApiResult};
use crate::blocks;
use crate::model::{SentMessage, StoredMessage};
use crate::params::Params;
use crate::state::SlackState;

/// Maximum length of a text. Longer text is refused; Slack itself truncates it.
const TEXT_LIMIT: usize = 40_000;
/// Maximum length of a text in an edit. Longer text is refused.
const EDIT_LIMIT: usize = 4000;

impl SlackState {
    pub(crate) fn sent(&self) -> Vec<SentMessage> {
        let all = self.sent.iter().filter_map(|(channel, ts)| {
            let message = self.channels.get(channel)?.messages.get(ts)?.clone();
            Some(SentMessage {
                channel: channel.clone(),
                ts: ts.clone(),
                thread: message.thread,
                text: message.text,
                blocks: message.blocks,
                metadata: message.metadata,
                history: message.history,
                is_deleted: message.is_deleted,
                file: message.file,
            })
        });
        all.collect()
    }

    pub(crate) fn reactions(&self, channel: &str, ts: &str) -> Vec<String> {
        let message = self
            .channels
            .get(channel)
            .and_then(|channel| channel.messages.get(ts));
        message
            .map(|message| message.reactions.clone())
            .unwrap_or_default()
    }

    pub(crate) fn post(&mut self, params: &Params) -> ApiResult {
        let channel = self.writable_channel(params.text("channel"))?;
        let (text, blocks) = content(params, TEXT_LIMIT)?;
        let thread = params.given("thread_ts").map(str::to_owned);
        let metadata = metadata(params)?;
        let ts = self.store(
            &channel,
            StoredMessage {
                user: BOT_USER.to_owned(),
                text,
                thread,
                blocks,
                metadata,
                ..StoredMessage::default()
            },
        )?;
        let json = self
            .channels
            .get(&channel)
            .and_then(|known| Some(known.messages.get(&ts)?.json(&ts, true)));
        Ok(json!({"channel": channel, "ts": ts, "message": json}))
    }

    /// Stores a message of the bot.
    pub(crate) fn store(
        &mut self,
        channel: &str,
        message: StoredMessage,
    ) -> Result<String, ApiError> {
        let ts = self.next_ts();
        let known = self
            .channels
            .get_mut(channel)
            .ok_or_else(|| ApiError::new("channel_not_found"))?;
        if let Some(thread) = &message.thread
            && !known.messages.contains_key(thread)
        {
            return Err(ApiError::new("thread_not_found"));
        }
        known.messages.insert(ts.clone(), message);
        self.sent.push((channel.to_owned(), ts.clone()));
        Ok(ts)
    }

    pub(crate) fn update(&mut self, params: &Params) -> ApiResult {
        let channel = self.writable_channel(params.text("channel"))?;
        let (text, blocks) = content(params, EDIT_LIMIT)?;
        let metadata = metadata(params)?;
        let ts = params.text("ts").to_owned();
        let message = self.own(&channel, &ts, "cant_update_message")?;
        let earlier = std::mem::replace(&mut message.text, text.clone());
        message.history.push(earlier);
        message.blocks = blocks;
        if !metadata.is_null() {
            message.metadata = metadata;
        }
        Ok(json!({"channel": channel, "ts": ts, "text": text}))
    }

    pub(crate) fn delete(&mut self, params: &Params) -> ApiResult {
        let channel = self.writable_channel(params.text("channel"))?;
        let ts = params.text("ts").to_owned();
        self.own(&channel, &ts, "cant_delete_message")?.is_deleted = true;
        Ok(json!({"channel": channel, "ts": ts}))
    }

    fn own(
        &mut self,
        channel: &str,
        ts: &str,
        refusal: &str,
    ) -> Result<&mut StoredMessage, ApiError> {
        let known = self
            .channels
            .get_mut(channel)
            .and_then(|known| known.messages.get_mut(ts));
        let message = known
            .filter(|message| !message.is_deleted)
            .ok_or_else(|| ApiError::new("message_not_found"))?;
        if message.user == BOT_USER {
            Ok(message)
        } else {
            Err(ApiError::new(refusal))
        }
    }

    pub(crate) fn react(&mut self, params: &Params, adds: bool) -> ApiResult {
        let channel = self.writable_channel(params.text("channel"))?;
        let name = params.text("name").to_owned();
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+-'".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(ApiError::because("invalid_name", name));
        }
        let known = self.channels.get_mut(&channel);
        let message = known.and_then(|known| known.messages.get_mut(params.text("timestamp")));
        let message = message
            .filter(|message| !message.is_deleted)
            .ok_or_else(|| ApiError::new("message_not_found"))?;
        match (
            message.reactions.iter().position(|known| *known == name),
            adds,
        ) {
            (Some(_), true) => Err(ApiError::new("already_reacted")),
            (None, false) => Err(ApiError::new("no_reaction")),
            (None, true) => {
                message.reactions.push(name);
                Ok(json!({}))
            }
            (Some(place), false) => {
                message.reactions.remove(place);
                Ok(json!({}))
            }
        }
    }
}

fn content(params: &Params, limit: usize) -> Result<(String, Value), ApiError> {
    let text = params.text("text").to_owned();
    let blocks = params.json("blocks").cloned().unwrap_or_default();
    if text.chars().count() > limit {
        return Err(ApiError::new("msg_too_long"));
    }
    if text.is_empty() && blocks.is_null() {
        return Err(ApiError::new("no_text"));
    }
    if !blocks.is_null() {
        blocks::check(&blocks)?;
    }
    Ok((text, blocks))
}

fn metadata(params: &Params) -> Result<Value, ApiError> {
    let Some(metadata) = params.json("metadata") else {
        return Ok(Value::Null);
    };
    let kind = metadata
        .get("event_type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_kind = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_payload = metadata.get("event_payload").is_some_and(Value::is_object);
    if is_kind && is_payload {
        Ok(metadata.clone())
    } else {
        Err(ApiError::new("invalid_metadata_format"))
    }
}
