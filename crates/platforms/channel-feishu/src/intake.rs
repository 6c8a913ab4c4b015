//! Feishu's steps of the intake.

use nanobot_channel::{Admission, ChannelContext, ChannelName};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::{self, IntakeSource, Next, Piece};

use crate::attachment;
use crate::candidate::{CandidateMessage, FeishuOrigin};
use crate::channel::Feishu;
use crate::error::Refusal;

impl IntakeSource for Feishu {
    type Origin = FeishuOrigin;
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
        attachment::fetch(&self.api, file, context.media.limit()).await
    }

    fn failure_marker(&self, file: &Attachment, _error: &FetchError<Refusal>) -> String {
        attachment::failure_marker(file)
    }

    async fn send_notice(&self, candidate: &CandidateMessage, text: String) {
        if let Err(error) = self
            .notify(&candidate.chat, &candidate.delivery, &text)
            .await
        {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }

    async fn on_allowed(
        &self,
        candidate: &CandidateMessage,
        _context: &ChannelContext,
    ) -> Vec<Piece> {
        self.references(candidate).await
    }

    fn on_delivered(&self, candidate: &CandidateMessage, admission: Admission) {
        if admission != Admission::Accepted {
            return;
        }
        let (chat, delivery) = (&candidate.chat, &candidate.delivery);
        if let Some(message) = &candidate.origin.message {
            let background = &self.base.background;
            self.reactions
                .begin(chat, delivery, message.clone(), background);
        }
        if let Some((message, label)) = &candidate.origin.pressed {
            self.show_choice(message, label);
        }
    }
}

impl Feishu {
    /// Handles a candidate, unless it is known.
    pub(crate) async fn handle_candidate(
        &self,
        candidate: CandidateMessage,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let name = format!("{}/{}", candidate.chat, candidate.id);
        if self.recent().contains(&name) {
            handling.end().await;
            return Next::Confirm;
        }
        let next = intake::accept(self, &candidate, Some(handling), context).await;
        if next == Next::Confirm {
            self.recent().insert(name);
        }
        next
    }
}
