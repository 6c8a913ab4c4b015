//! Telegram's steps of the intake.

use std::sync::atomic::AtomicUsize;

use nanobot_channel::{Admission, ChannelContext, ChannelName, ChatId, DeliveryContext};
use nanobot_channel_kit::attachment::Attachment;
use nanobot_channel_kit::intake::IntakeSource;
use teloxide::payloads::SendMessage;

use crate::attachment::{self, FetchError};
use crate::candidate::{CandidateMessage, TelegramOrigin};
use crate::channel::Telegram;
use crate::error::Refusal;
use crate::outbound::send_message;
use crate::reaction::reactable;
use crate::target::SendTarget;

impl IntakeSource for Telegram {
    type Origin = TelegramOrigin;
    type Refusal = Refusal;
    const WAITING_NOTICE: &'static str = "messages cannot be stored now; Telegram keeps them";

    fn name(&self) -> &ChannelName {
        &self.base.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError> {
        // The semaphore is never closed, so there is always a permit.
        let _permit = self.downloads.acquire().await.ok();
        attachment::fetch(&self.api, file, context).await
    }

    async fn send_notice(&self, candidate: &CandidateMessage, text: String) {
        self.notify(&candidate.chat, &text).await;
    }

    fn on_delivered(&self, candidate: &CandidateMessage, admission: Admission) {
        match (&candidate.origin, admission) {
            (TelegramOrigin::Message, Admission::Accepted) => {
                if let Some(message) = reactable(&candidate.chat, candidate.id.as_str()) {
                    let (chat, delivery) = (&candidate.chat, &candidate.delivery);
                    let background = &self.base.background;
                    self.reactions.begin(chat, delivery, message, background);
                }
            }
            (
                TelegramOrigin::Press { id, chat, message },
                Admission::Accepted | Admission::Duplicate,
            ) => {
                self.acknowledge(id.clone(), *chat, *message);
            }
            _ => {}
        }
    }

    fn waiting(&self) -> Option<&AtomicUsize> {
        Some(&self.waiting_messages)
    }
}

impl Telegram {
    /// Sends a notice of the channel itself.
    pub(crate) async fn notify(&self, chat: &ChatId, text: &str) {
        let Ok(target) = SendTarget::new(chat, &DeliveryContext::default()) else {
            return;
        };
        let target = self.migrations.follow(&target);
        let message = SendMessage::new(target.recipient(), text);
        if let Err(error) = send_message(&self.api, message, &target).await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }
}
