//! Where a draft is shown on Telegram, and how one that a kill left is deleted there.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, Value};
use nanobot_channel_kit::DraftPlace;
use serde::de::IgnoredAny;
use serde_json::json;
use teloxide::payloads::{DeleteMessage, EditMessageText, SendMessage};
use teloxide::types::{ChatId, MessageId};

use crate::address::utf16_head;
use crate::api::Api;
use crate::channel::{TEXT_LIMIT, TelegramChannel};
use crate::error::CallError;
use crate::outbound::send_message;
use crate::place::Place;

/// Groups take no more than 20 messages a minute, edits included.
const GROUP_INTERVAL: Duration = Duration::from_secs(3);

/// A chat, and what it is written to with.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) api: Arc<Api>,
    pub(crate) place: Place,
}

impl Draft {
    /// How often the chat may be written to, when it is to be no more often than every `interval`.
    pub(crate) fn interval(&self, interval: Duration) -> Duration {
        if self.place.is_private() {
            interval
        } else {
            interval.max(GROUP_INTERVAL)
        }
    }
}

impl DraftPlace for Draft {
    type Message = MessageId;

    fn visible(&self, text: &str) -> String {
        utf16_head(text, TEXT_LIMIT).to_owned()
    }

    async fn begin(&self, text: &str) -> Result<Option<MessageId>, ChannelError> {
        let message = SendMessage::new(self.place.recipient(), text);
        Ok(send_message(&self.api, message, &self.place).await?)
    }

    async fn edit(&self, message: &MessageId, text: &str) -> Result<(), ChannelError> {
        let edit = EditMessageText::new(self.place.recipient(), *message, text);
        self.api.call::<_, IgnoredAny>(&edit).await?;
        Ok(())
    }

    async fn remove(&self, message: &MessageId) -> Result<(), ChannelError> {
        let delete = DeleteMessage::new(ChatId(self.place.chat()), *message);
        self.api.call::<_, IgnoredAny>(&delete).await?;
        Ok(())
    }

    fn trace(&self, message: &MessageId) -> Option<Value> {
        Some(json!([self.place.chat(), message.0]))
    }
}

impl TelegramChannel {
    /// Deletes, beside receiving, the drafts that a kill left.
    pub(crate) async fn recover_drafts(&self, context: &ChannelContext) {
        let api = Arc::clone(&self.api);
        let delete = move |(chat, message): (i64, i32)| {
            let (api, request) = (
                Arc::clone(&api),
                DeleteMessage::new(ChatId(chat), MessageId(message)),
            );
            async move {
                api.call::<_, IgnoredAny>(&request)
                    .await
                    .map(drop)
                    .map_err(CallError::repeatable)
            }
        };
        self.drafts
            .recover(context, self.config.bot_id(), delete)
            .await;
    }
}
