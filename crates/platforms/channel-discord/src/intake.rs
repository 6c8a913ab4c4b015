//! Discord's steps of the intake.

use nanobot_channel::{Admission, ChannelContext, ChannelName, DeliveryContext};
use nanobot_channel_kit::attachment::Attachment;
use nanobot_channel_kit::intake::{IntakeSource, Piece};
use serenity::builder::CreateMessage;

use crate::attachment::{self, FetchError};
use crate::candidate::{CandidateMessage, DiscordOrigin};
use crate::channel::Discord;
use crate::error::Refusal;
use crate::outbound::create_message;
use crate::target::SendTarget;

impl IntakeSource for Discord {
    type Origin = DiscordOrigin;
    type Refusal = Refusal;

    fn name(&self) -> &ChannelName {
        &self.base.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError> {
        attachment::fetch(&self.api, file, context.media.limit()).await
    }

    fn failure_marker(&self, file: &Attachment, error: &FetchError) -> String {
        attachment::failure_marker(file, error)
    }

    async fn send_notice(&self, candidate: &CandidateMessage, text: String) {
        // The response to a command holds the text already.
        if candidate.origin.message.is_none() {
            return;
        }
        let Ok(target) = SendTarget::new(&candidate.chat, &DeliveryContext::default()) else {
            return;
        };
        let message = CreateMessage::new().content(text);
        if let Err(error) = create_message(&self.api, &target, message).await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }

    async fn on_allowed(
        &self,
        candidate: &CandidateMessage,
        context: &ChannelContext,
    ) -> Vec<Piece> {
        let DiscordOrigin {
            channel,
            guild,
            number,
            ..
        } = candidate.origin;
        if self.marks.add(&channel, guild, number.saturating_sub(1)) {
            self.marks.write(context.notes.as_ref()).await;
        }
        Vec::new()
    }

    /// Sets the reaction to a message. Commands have their own response.
    fn on_delivered(&self, candidate: &CandidateMessage, admission: Admission) {
        let DiscordOrigin {
            channel, message, ..
        } = candidate.origin;
        if let (Some(message), Admission::Accepted) = (message, admission) {
            let (chat, delivery) = (&candidate.chat, &candidate.delivery);
            let background = &self.base.background;
            self.reactions
                .begin(chat, delivery, (channel, message), background);
        }
    }
}
