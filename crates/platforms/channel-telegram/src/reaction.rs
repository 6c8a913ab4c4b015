//! The reaction to a message that is worked on; Telegram allows one per bot and message.

use std::sync::Arc;

use nanobot_channel::{ChatId, OutboundMessage};
use nanobot_channel_kit::ReactionEmoji;
use serde::de::IgnoredAny;
use teloxide::payloads::{SetMessageReaction, SetMessageReactionSetters as _};
use teloxide::types::{ChatId as TelegramChat, MessageId, ReactionType};

use crate::TelegramConfig;
use crate::api::Api;
use crate::error::{CallError, Refusal};

/// Calls of the Bot API that change reactions.
#[derive(Debug)]
pub(crate) struct TelegramReactor(pub(crate) Arc<Api>);

/// Returns the address of a message; `None` for what is no message, such as a press of a button.
pub(crate) fn reactable(chat: &ChatId, message: &str) -> Option<(TelegramChat, MessageId)> {
    let chat = chat.as_str().parse().ok()?;
    Some((TelegramChat(chat), MessageId(message.parse().ok()?)))
}

/// Returns the emoji of a channel.
pub(crate) fn emoji(config: &TelegramConfig) -> ReactionEmoji {
    ReactionEmoji {
        received: config.react_emoji.trim().to_owned(),
        ..ReactionEmoji::default()
    }
}

impl TelegramReactor {
    async fn set(
        &self,
        (chat, message): (TelegramChat, MessageId),
        emoji: Option<&str>,
    ) -> Result<(), CallError> {
        let reaction = emoji.map(|emoji| ReactionType::Emoji {
            emoji: emoji.to_owned(),
        });
        let request = SetMessageReaction::new(chat, message).reaction(reaction);
        self.0.call::<_, IgnoredAny>(&request).await.map(drop)
    }
}

impl nanobot_channel_kit::Reactor for TelegramReactor {
    type Message = (TelegramChat, MessageId);
    type Refusal = Refusal;

    async fn add(&self, message: &Self::Message, emoji: &str) -> Result<(), CallError> {
        self.set(*message, Some(emoji)).await
    }

    async fn remove(&self, message: &Self::Message, _emoji: &str) -> Result<(), CallError> {
        self.set(*message, None).await
    }

    fn answered_message(&self, end: &OutboundMessage) -> Option<Self::Message> {
        reactable(&end.chat_id, end.delivery.reply_to.as_ref()?.as_str())
    }
}
