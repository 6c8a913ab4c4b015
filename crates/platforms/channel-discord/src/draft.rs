//! Where a draft is shown on Discord.

use std::sync::Arc;

use nanobot_channel::{ChannelContext, ChannelError, Value};
use nanobot_channel_kit::DraftPlace;
use serde::de::IgnoredAny;
use serde_json::json;
use serenity::builder::{CreateMessage, EditMessage};
use serenity::model::id::{ChannelId, MessageId};

use crate::api::Body;
use crate::channel::{DiscordChannel, TEXT_LIMIT};
use crate::error::CallError;
use crate::place::Place;
use crate::route::Route;

/// A place, and what it is written to with.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) channel: DiscordChannel,
    pub(crate) place: Place,
}

impl DraftPlace for Draft {
    type Message = MessageId;

    fn visible(&self, text: &str) -> String {
        text.chars().take(TEXT_LIMIT).collect()
    }

    async fn begin(&self, text: &str) -> Result<Option<MessageId>, ChannelError> {
        let id = self
            .channel
            .create_message(&self.place, CreateMessage::new().content(text))
            .await?;
        Ok(Some(id))
    }

    async fn edit(&self, message: &MessageId, text: &str) -> Result<(), ChannelError> {
        Ok(self
            .channel
            .edit_message(&self.place, *message, EditMessage::new().content(text))
            .await?)
    }

    async fn remove(&self, message: &MessageId) -> Result<(), ChannelError> {
        let route = Route::delete_message(self.place.channel(), *message);
        self.channel
            .api
            .call::<IgnoredAny>(&route, Body::Empty)
            .await?;
        Ok(())
    }

    fn trace(&self, message: &MessageId) -> Option<Value> {
        Some(json!((self.place.channel(), message)))
    }
}

impl DiscordChannel {
    /// Notes drafts, and deletes those that a kill left.
    pub(crate) async fn take_away_drafts(&self, context: &ChannelContext) {
        // A token begins with the bot's id, and so does the next one after a reset.
        let account = self
            .api
            .token
            .expose()
            .split_once('.')
            .map_or("", |(account, _)| account);
        let api = Arc::clone(&self.api);
        let delete = move |(channel, message): (ChannelId, MessageId)| {
            let api = Arc::clone(&api);
            async move {
                let route = Route::delete_message(channel, message);
                api.call::<IgnoredAny>(&route, Body::Empty)
                    .await
                    .map(drop)
                    .map_err(CallError::repeatable)
            }
        };
        self.drafts.recover(context, account, delete).await;
    }
}
