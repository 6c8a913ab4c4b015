//! Reactions to messages that are worked on, and the one at the end of the turn.

use std::sync::Arc;

use nanobot_channel::OutboundMessage;
use nanobot_channel_kit::ReactionEmoji;
use slack_morphism::api::{SlackApiReactionsAddRequest, SlackApiReactionsRemoveRequest};
use slack_morphism::{SlackChannelId, SlackReactionName, SlackTs};

use crate::SlackConfig;
use crate::api::{Api, NoContent};
use crate::error::{CallError, Refusal};

/// Calls of the Web API that change reactions.
#[derive(Debug)]
pub(crate) struct SlackReactor(pub(crate) Arc<Api>);

/// Returns the emoji of a channel.
pub(crate) fn emoji(config: &SlackConfig) -> ReactionEmoji {
    ReactionEmoji {
        received: config.react_emoji.clone(),
        done: config.done_emoji.clone(),
        ..ReactionEmoji::default()
    }
}

impl nanobot_channel_kit::Reactor for SlackReactor {
    type Message = (SlackChannelId, SlackTs);
    type Refusal = Refusal;

    async fn add(&self, (chat, ts): &Self::Message, emoji: &str) -> Result<(), CallError> {
        let name = SlackReactionName::new(emoji.to_owned());
        let request = SlackApiReactionsAddRequest::new(chat.clone(), name, ts.clone());
        ignore_already_done(self.0.call("reactions.add", &request).await)
    }

    async fn remove(&self, (chat, ts): &Self::Message, emoji: &str) -> Result<(), CallError> {
        let name = SlackReactionName::new(emoji.to_owned());
        let request = SlackApiReactionsRemoveRequest::new(name)
            .with_channel(chat.clone())
            .with_timestamp(ts.clone());
        ignore_already_done(self.0.call("reactions.remove", &request).await)
    }

    fn answered_message(&self, end: &OutboundMessage) -> Option<Self::Message> {
        let ts = end.delivery.reply_to.as_ref()?.to_string();
        let chat = SlackChannelId::new(end.chat_id.to_string());
        Some((chat, SlackTs::new(ts)))
    }
}

fn ignore_already_done(outcome: Result<NoContent, CallError>) -> Result<(), CallError> {
    match outcome {
        Err(error) if !error.is(Refusal::is_already_done) => Err(error),
        _ => Ok(()),
    }
}
