//! WeCom's steps of the intake.

use nanobot_channel::{ChannelContext, ChannelName};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::{self, IntakeSource, Next};

use crate::attachment;
use crate::candidate::CandidateMessage;
use crate::channel::WeCom;
use crate::error::Refusal;

impl IntakeSource for WeCom {
    type Origin = ();
    type Refusal = Refusal;
    const WAITING_NOTICE: &'static str =
        "messages cannot be stored now; they are kept and offered again";

    fn name(&self) -> &ChannelName {
        &self.base.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError<Refusal>> {
        attachment::fetch(&self.gateway, &self.names, file, context.media.limit()).await
    }

    async fn send_notice(&self, candidate: &CandidateMessage, text: String) {
        if let Err(error) = self
            .notify(&candidate.chat, &candidate.delivery, &text)
            .await
        {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }
}

impl WeCom {
    /// Handles a candidate, unless it is known.
    pub(crate) async fn handle_candidate(
        &self,
        candidate: CandidateMessage,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let name = candidate.id.to_string();
        if self.recent().contains(&name) {
            handling.end().await;
            return Next::Confirm;
        }
        let context = self.names.wrap(context);
        let next = intake::accept(self, &candidate, Some(handling), &context).await;
        if next == Next::Confirm {
            self.recent().insert(name);
        }
        next
    }
}
