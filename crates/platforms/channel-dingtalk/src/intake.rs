//! DingTalk's steps of the intake.

use nanobot_channel::{AccessDecision, ChannelContext, ChannelName, ChatKind};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::{self, IntakeSource, Next};

use crate::attachment;
use crate::candidate::CandidateMessage;
use crate::channel::DingTalk;
use crate::error::Refusal;

/// The answer to a private message while private chats are disabled.
const PRIVATE_NOTICE: &str =
    "Private chats are disabled for this assistant. Please mention it in a group.";

impl IntakeSource for DingTalk {
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
        attachment::fetch(&self.api, file, context.media.limit()).await
    }

    fn failure_marker(&self, file: &Attachment, _error: &FetchError<Refusal>) -> String {
        attachment::failure_marker(file)
    }

    async fn send_notice(&self, candidate: &CandidateMessage, text: String) {
        if let Err(error) = self.notify(&candidate.chat, &text).await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }
}

impl DingTalk {
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
        let is_private = candidate.arrival.kind == ChatKind::Direct;
        let next = if is_private && self.config.disable_private_chat {
            handling.end().await;
            self.refuse_private_chat(&candidate, context).await;
            Next::Confirm
        } else {
            intake::accept(self, &candidate, Some(handling), context).await
        };
        if next == Next::Confirm {
            self.recent().insert(name);
        }
        next
    }

    /// Answers a private message of a person with access with a notice. Others notice nothing.
    async fn refuse_private_chat(&self, candidate: &CandidateMessage, context: &ChannelContext) {
        let CandidateMessage {
            sender,
            chat,
            arrival,
            ..
        } = candidate;
        if context.access.check(sender, chat, arrival).await == AccessDecision::Allowed {
            let notice = PRIVATE_NOTICE.to_owned();
            self.send_notice(candidate, notice).await;
        }
    }
}
