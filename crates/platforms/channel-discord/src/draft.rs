//! Drafts on Discord.

use std::sync::Arc;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::DraftPlace;
use serde::de::IgnoredAny;
use serde_json::json;
use serenity::builder::{CreateMessage, EditMessage};
use serenity::model::id::MessageId;

use crate::api::{Api, Body};
use crate::channel::TEXT_LIMIT;
use crate::outbound::{create_message, edit_message, with_nonce_of};
use crate::route::Route;
use crate::target::SendTarget;

/// The place of a draft.
#[derive(Debug)]
pub struct DiscordDraft {
    pub(crate) api: Arc<Api>,
    pub(crate) target: SendTarget,
}

impl DraftPlace for DiscordDraft {
    type Message = MessageId;

    fn visible(&self, text: &str) -> String {
        text.chars().take(TEXT_LIMIT).collect()
    }

    fn intent(&self, key: &str) -> Option<Value> {
        Some(json!((self.target.channel_id(), key)))
    }

    async fn begin(&self, text: &str, key: &str) -> Result<Option<MessageId>, ChannelError> {
        let message = with_nonce_of(CreateMessage::new().content(text), key);
        Ok(Some(
            create_message(&self.api, &self.target, message).await?,
        ))
    }

    async fn edit(&self, message: &MessageId, text: &str) -> Result<(), ChannelError> {
        let edit = EditMessage::new().content(text);
        Ok(edit_message(&self.api, &self.target, *message, edit).await?)
    }

    async fn remove(&self, message: &MessageId) -> Result<(), ChannelError> {
        let route = Route::delete_message(self.target.channel_id(), *message);
        self.api.call::<IgnoredAny>(&route, Body::Empty).await?;
        Ok(())
    }

    fn locator(&self, message: &MessageId) -> Option<Value> {
        Some(json!((self.target.channel_id(), message)))
    }
}
