//! Reactions to messages that are worked on, and the one at the end of the turn.
//!
//! Feishu removes a reaction by its own id, which is known from adding it. After a restart it is
//! looked up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::OutboundMessage;
use nanobot_channel_kit::ReactionEmoji;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::FeishuConfig;
use crate::api::{Api, Body, Endpoint};
use crate::error::{CallError, Refusal};

/// Number of reactions whose ids are remembered.
const REMEMBERED: usize = 512;

/// Calls of the API that change reactions.
#[derive(Debug)]
pub(crate) struct FeishuReactor {
    pub(crate) api: Arc<Api>,
    /// Messages, emoji and ids, the oldest first.
    added: Mutex<VecDeque<(String, String, String)>>,
}

/// Returns the emoji of a channel.
pub(crate) fn emoji(config: &FeishuConfig) -> ReactionEmoji {
    ReactionEmoji {
        received: config.react_emoji.clone(),
        done: config.done_emoji.clone(),
        ..ReactionEmoji::default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reaction {
    reaction_id: String,
    operator: Operator,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Operator {
    operator_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReactionList {
    items: Vec<Reaction>,
}

impl FeishuReactor {
    pub(crate) fn new(api: Arc<Api>) -> Self {
        Self {
            api,
            added: Mutex::default(),
        }
    }

    fn remember(&self, message: &str, emoji: &str, id: String) {
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        if added.len() >= REMEMBERED {
            added.pop_front();
        }
        added.push_back((message.to_owned(), emoji.to_owned(), id));
    }

    fn take(&self, message: &str, emoji: &str) -> Option<String> {
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        let position = added
            .iter()
            .position(|(known, shown, _)| known == message && shown == emoji)?;
        added.remove(position).map(|(_, _, id)| id)
    }

    /// Looks for the app's own reaction.
    async fn find(&self, message: &str, emoji: &str) -> Result<Option<String>, CallError> {
        let endpoint = Endpoint::new(Method::GET, ["im", "v1", "messages", message, "reactions"])
            .with("reaction_type", emoji);
        let list: ReactionList = self.api.data(&endpoint, Body::Empty).await?;
        let mut items = list.items.into_iter();
        let own = items.find(|reaction| reaction.operator.operator_type == "app");
        Ok(own.map(|reaction| reaction.reaction_id))
    }
}

impl nanobot_channel_kit::Reactor for FeishuReactor {
    type Message = String;
    type Refusal = Refusal;

    async fn add(&self, message: &String, emoji: &str) -> Result<(), CallError> {
        let endpoint = Endpoint::new(Method::POST, ["im", "v1", "messages", message, "reactions"]);
        let body = json!({"reaction_type": {"emoji_type": emoji}});
        let reaction: Reaction = self.api.data(&endpoint, Body::Json(body)).await?;
        self.remember(message, emoji, reaction.reaction_id);
        Ok(())
    }

    async fn remove(&self, message: &String, emoji: &str) -> Result<(), CallError> {
        let id = match self.take(message, emoji) {
            Some(id) => id,
            None => match self.find(message, emoji).await? {
                Some(id) => id,
                None => return Ok(()),
            },
        };
        let path = ["im", "v1", "messages", message, "reactions", &id];
        let endpoint = Endpoint::new(Method::DELETE, path);
        let removed = self.api.call(&endpoint, Body::Empty).await;
        if matches!(&removed, Err(error) if error.retry_after().is_some()) {
            // It is tried again.
            self.remember(message, emoji, id);
        }
        removed
    }

    fn answered_message(&self, end: &OutboundMessage) -> Option<Self::Message> {
        end.delivery.reply_to.as_ref().map(ToString::to_string)
    }
}
