//! The steps of the intake that are Discord's own.

use nanobot_channel::{Admission, ChannelContext, ChannelName, DeliveryContext};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::Attachment;
use nanobot_channel_kit::intake::{self, Next, Source};
use serenity::builder::CreateMessage;

use crate::attachment::{self, FetchError};
use crate::candidate::{Candidate, Heard};
use crate::channel::DiscordChannel;
use crate::error::Refusal;
use crate::place::Place;

/// The channel, as the intake sees it.
#[derive(Debug)]
struct DiscordSource<'a>(&'a DiscordChannel);

impl Source for DiscordSource<'_> {
    type Origin = Heard;
    type Refusal = Refusal;

    fn name(&self) -> &ChannelName {
        &self.0.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError> {
        attachment::fetch(&self.0.api, file, context.media.limit()).await
    }

    fn not_kept(&self, file: &Attachment, error: &FetchError) -> String {
        attachment::not_kept(file, error)
    }

    async fn tell(&self, candidate: &Candidate, text: String) {
        // A command was answered with the text already.
        if candidate.origin.message.is_none() {
            return;
        }
        let Ok(place) = Place::new(&candidate.chat, &DeliveryContext::default()) else {
            return;
        };
        let message = CreateMessage::new().content(text);
        if let Err(error) = self.0.create_message(&place, message).await {
            tracing::warn!(channel = %self.0.name, %error, "a notice could not be sent");
        }
    }

    async fn allowed(&self, candidate: &Candidate, context: &ChannelContext) -> Option<String> {
        let Heard {
            channel,
            guild,
            number,
            ..
        } = candidate.origin;
        if self.0.marks.add(&channel, guild, number.saturating_sub(1)) {
            self.0.marks.write(context.notes.as_ref()).await;
        }
        None
    }

    /// Shows that a message was read. Commands have their own answer.
    fn delivered(&self, candidate: &Candidate, admission: Admission) {
        if let (Some(message), Ok(place), Admission::Accepted) = (
            candidate.origin.message,
            Place::new(&candidate.chat, &candidate.delivery),
            admission,
        ) {
            self.0.react(place.channel(), message);
        }
    }
}

impl DiscordChannel {
    /// Takes a candidate in.
    pub(crate) async fn take(
        &self,
        candidate: &Candidate,
        handling: Option<Handling<'_>>,
        context: &ChannelContext,
    ) -> Next {
        intake::take(&DiscordSource(self), candidate, handling, context).await
    }
}
