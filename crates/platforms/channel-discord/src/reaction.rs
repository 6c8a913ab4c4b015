//! Reactions to messages that are worked on.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::OutboundMessage;
use nanobot_channel_kit::ReactionEmoji;
use reqwest::Method;
use serde::de::IgnoredAny;
use serenity::model::id::{ChannelId, MessageId};

use crate::DiscordConfig;
use crate::api::{Api, Body};
use crate::error::{CallError, Refusal};
use crate::route::Route;

/// Time after which reactions are removed, because the end of a turn may not be reported.
const LIMIT: Duration = Duration::from_mins(30);

/// Calls of the REST API that change reactions.
#[derive(Debug)]
pub(crate) struct DiscordReactor(pub(crate) Arc<Api>);

/// Returns the emoji of a channel.
pub(crate) fn emoji(config: &DiscordConfig) -> ReactionEmoji {
    ReactionEmoji {
        received: config.read_receipt_emoji.clone(),
        working: config.working_emoji.clone(),
        delay: Duration::from_secs_f64(config.working_emoji_delay),
        done: String::new(),
        limit: Some(LIMIT),
    }
}

impl DiscordReactor {
    async fn call(
        &self,
        method: Method,
        (channel, message): (ChannelId, MessageId),
        emoji: &str,
    ) -> Result<(), CallError> {
        let route = Route::reaction(method, channel, message, emoji);
        let answer = self.0.call::<IgnoredAny>(&route, Body::Empty).await;
        answer.map(drop)
    }
}

impl nanobot_channel_kit::Reactor for DiscordReactor {
    type Message = (ChannelId, MessageId);
    type Refusal = Refusal;

    async fn add(&self, message: &Self::Message, emoji: &str) -> Result<(), CallError> {
        self.call(Method::PUT, *message, emoji).await
    }

    async fn remove(&self, message: &Self::Message, emoji: &str) -> Result<(), CallError> {
        self.call(Method::DELETE, *message, emoji).await
    }

    fn answered_message(&self, _end: &OutboundMessage) -> Option<Self::Message> {
        None
    }
}
