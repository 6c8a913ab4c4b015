//! Where a draft is shown on Telegram.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::DraftPlace;
use serde::de::IgnoredAny;
use teloxide::payloads::{EditMessageText, SendMessage};
use teloxide::types::MessageId;

use crate::address::utf16_head;
use crate::api::Api;
use crate::channel::TEXT_LIMIT;
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
        if self.place.is_private() { interval } else { interval.max(GROUP_INTERVAL) }
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
}
