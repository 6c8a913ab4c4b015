//! WhatsApp's steps of the intake.

use nanobot_channel::{Admission, ChannelContext, ChannelName};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::Attachment;
use nanobot_channel_kit::intake::{self, IntakeSource, Next};
use serde_json::json;

use crate::attachment::{self, FetchError, LOCAL};
use crate::candidate::{CandidateMessage, MessageOrigin};
use crate::channel::WhatsApp;
use crate::error::Refusal;
use crate::local_media;

const NO_SOURCE: &str = "the bridge gives no name for it";

impl IntakeSource for WhatsApp {
    type Origin = MessageOrigin;
    type Refusal = Refusal;
    const WAITING_NOTICE: &'static str =
        "messages cannot be stored now; they wait in the bridge, which repeats them";

    fn name(&self) -> &ChannelName {
        &self.base.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError> {
        let source = file.source.as_deref();
        let source = source.ok_or(FetchError::NoAddress(NO_SOURCE))?;
        let limit = context.media.limit();
        match source.strip_prefix(LOCAL) {
            Some(path) => local_media::read(self.base.data_dir.as_deref(), path, limit).await,
            None => attachment::fetch(&self.client, source, limit).await,
        }
    }

    async fn send_notice(&self, candidate: &CandidateMessage, text: String) {
        if let Err(error) = self.notify(&candidate.origin, &text).await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }

    fn on_delivered(&self, candidate: &CandidateMessage, admission: Admission) {
        if admission == Admission::Accepted && !self.client.is_version_1() {
            let message = candidate.origin.clone();
            let (chat, delivery) = (&candidate.chat, &candidate.delivery);
            self.reactions
                .begin(chat, delivery, message, &self.base.background);
        }
        if self.config.mark_read && admission != Admission::NotAllowed {
            let MessageOrigin {
                chat,
                participant,
                id,
            } = &candidate.origin;
            let mut read = json!({"type": "read", "to": chat, "id": id});
            if let (false, Some(members)) = (participant.is_empty(), read.as_object_mut()) {
                members.insert("participant".to_owned(), participant.as_str().into());
            }
            self.client.tell(read);
        }
    }
}

impl WhatsApp {
    /// Handles a candidate, unless it is known.
    pub(crate) async fn handle_candidate(
        &self,
        candidate: CandidateMessage,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        // Ids are chosen by the senders: one must not hide the message of another.
        let name = format!("{} {} {}", candidate.chat, candidate.sender, candidate.id);
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
