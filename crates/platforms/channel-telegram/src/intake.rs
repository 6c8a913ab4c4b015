//! The steps of the intake that are Telegram's own.

use std::sync::atomic::AtomicUsize;

use nanobot_channel::{Admission, ChannelContext, ChannelName, ChatId, DeliveryContext};
use nanobot_channel_kit::attachment::Attachment;
use nanobot_channel_kit::intake::Source;
use teloxide::payloads::SendMessage;

use crate::attachment::{self, FetchError};
use crate::candidate::{Candidate, Origin};
use crate::channel::TelegramChannel;
use crate::error::Refusal;
use crate::outbound::send_message;
use crate::place::Place;

/// The channel, as the intake sees it.
#[derive(Debug)]
pub(crate) struct TelegramSource<'a>(pub(crate) &'a TelegramChannel);

impl Source for TelegramSource<'_> {
    type Origin = Origin;
    type Refusal = Refusal;
    const WAITING: &'static str = "messages cannot be stored now; Telegram keeps them";

    fn name(&self) -> &ChannelName {
        &self.0.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError> {
        attachment::fetch(&self.0.api, file, context).await
    }

    async fn tell(&self, candidate: &Candidate, text: String) {
        self.0.tell(&candidate.chat, &text).await;
    }

    fn delivered(&self, candidate: &Candidate, admission: Admission) {
        let channel = self.0;
        match (&candidate.origin, admission) {
            (Origin::Message, Admission::Accepted) => channel.react(
                &candidate.chat,
                Some(&candidate.id),
                channel.config.reaction(),
            ),
            (Origin::Press { id, chat, message }, Admission::Accepted | Admission::Duplicate) => {
                channel.acknowledge(id.clone(), *chat, *message);
            }
            _ => {}
        }
    }

    fn refused(&self) -> Option<&AtomicUsize> {
        Some(&self.0.refused)
    }
}

impl TelegramChannel {
    /// Sends a notice of the channel's own.
    pub(crate) async fn tell(&self, chat: &ChatId, text: &str) {
        let Ok(place) =
            Place::new(chat, &DeliveryContext::default()).map(|place| self.moves.follow(&place))
        else {
            return;
        };
        if let Err(error) =
            send_message(&self.api, SendMessage::new(place.recipient(), text), &place).await
        {
            tracing::warn!(channel = %self.name, %error, "a notice could not be sent");
        }
    }
}
