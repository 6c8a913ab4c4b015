//! Where a draft is shown on Discord.

use nanobot_channel::ChannelError;
use nanobot_channel_kit::DraftPlace;
use serenity::builder::{CreateMessage, EditMessage};
use serenity::model::id::MessageId;

use crate::channel::{DiscordChannel, TEXT_LIMIT};
use crate::place::Place;

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
        let id = self.channel.create_message(&self.place, CreateMessage::new().content(text)).await?;
        Ok(Some(id))
    }

    async fn edit(&self, message: &MessageId, text: &str) -> Result<(), ChannelError> {
        Ok(self.channel.edit_message(&self.place, *message, EditMessage::new().content(text)).await?)
    }
}
