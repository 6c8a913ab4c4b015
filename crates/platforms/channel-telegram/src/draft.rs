//! Drafts on Telegram: native ones in private chats, and messages that are edited everywhere else.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::{DraftPlace, DraftPreview};
use serde::de::IgnoredAny;
use serde_json::json;
use teloxide::payloads::{DeleteMessage, EditMessageText, SendMessage};
use teloxide::types::{ChatId, MessageId};

use crate::address::utf16_head;
use crate::api::Api;
use crate::channel::TEXT_LIMIT;
use crate::outbound::send_message;
use crate::preview::Preview;
use crate::target::SendTarget;

/// Interval of edits in groups, which accept 20 messages a minute, edits included.
const GROUP_INTERVAL: Duration = Duration::from_secs(3);

/// The place of a draft.
#[derive(Debug)]
pub struct TelegramDraft {
    pub(crate) api: Arc<Api>,
    pub(crate) target: SendTarget,
    /// `None` where texts are shown in messages.
    pub(crate) preview: Option<Preview>,
}

impl DraftPlace for TelegramDraft {
    type Message = MessageId;

    fn visible(&self, text: &str) -> String {
        utf16_head(text, TEXT_LIMIT).to_owned()
    }

    async fn begin(&self, text: &str, _key: &str) -> Result<Option<MessageId>, ChannelError> {
        let message = SendMessage::new(self.target.recipient(), text);
        Ok(send_message(&self.api, message, &self.target).await?)
    }

    async fn edit(&self, message: &MessageId, text: &str) -> Result<(), ChannelError> {
        let edit = EditMessageText::new(self.target.recipient(), *message, text);
        self.api.call::<_, IgnoredAny>(&edit).await?;
        Ok(())
    }

    async fn remove(&self, message: &MessageId) -> Result<(), ChannelError> {
        let delete = DeleteMessage::new(ChatId(self.target.chat_id()), *message);
        self.api.call::<_, IgnoredAny>(&delete).await?;
        Ok(())
    }

    fn locator(&self, message: &MessageId) -> Option<Value> {
        Some(json!([self.target.chat_id(), message.0]))
    }

    fn interval(&self, configured: Duration) -> Duration {
        if self.target.is_private() {
            configured
        } else {
            configured.max(GROUP_INTERVAL)
        }
    }

    fn preview(&self) -> Option<&dyn DraftPreview> {
        let preview = self.preview.as_ref()?;
        preview.is_accepted().then_some(self)
    }
}
