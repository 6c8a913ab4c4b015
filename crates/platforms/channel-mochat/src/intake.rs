//! Mochat's steps of the intake. Its messages have no files.

use nanobot_channel::{ChannelContext, ChannelName};
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::IntakeSource;

use crate::candidate::CandidateMessage;
use crate::channel::Mochat;
use crate::error::Refusal;

impl IntakeSource for Mochat {
    type Origin = ();
    type Refusal = Refusal;
    const WAITING_NOTICE: &'static str =
        "messages cannot be stored now; they are kept and offered again";

    fn name(&self) -> &ChannelName {
        &self.base.name
    }

    async fn fetch(
        &self,
        _file: &Attachment,
        _context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError<Refusal>> {
        Err(FetchError::NoAddress("messages of Mochat have no files"))
    }

    async fn send_notice(&self, candidate: &CandidateMessage, text: String) {
        if let Err(error) = self.notify(&candidate.chat, &text).await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }
}
