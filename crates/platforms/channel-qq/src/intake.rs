//! QQ's steps of the intake.

use std::sync::Arc;

use nanobot_channel::{Admission, ChannelContext, ChannelName};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::{self, IntakeSource, Next, Piece};

use crate::attachment;
use crate::budget::{ReplyRequest, ReplySlot};
use crate::candidate::CandidateMessage;
use crate::channel::Qq;
use crate::error::Refusal;
use crate::outgoing::{Outgoing, Reply, reply_number, send_message};
use crate::target::Place;

impl IntakeSource for Qq {
    type Origin = Place;
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
        // A later notice, that they were approved, finds only the bare id.
        self.learn(candidate);
        let sent = self.reply_notice(candidate, &text).await;
        if let Err(error) = sent {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }

    async fn on_allowed(
        &self,
        candidate: &CandidateMessage,
        _context: &ChannelContext,
    ) -> Vec<Piece> {
        self.budget
            .note(candidate.id.as_str(), candidate.chat.as_str());
        self.learn(candidate);
        Vec::new()
    }

    fn on_delivered(&self, candidate: &CandidateMessage, admission: Admission) {
        if admission == Admission::Accepted && !self.config.ack_message.is_empty() {
            self.acknowledge(candidate);
        }
    }
}

impl Qq {
    /// Remembers the place of a chat.
    fn learn(&self, candidate: &CandidateMessage) {
        let (chat, place) = (candidate.chat.as_str(), &candidate.origin);
        self.chats.update(|chats| chats.learn(chat, place));
    }

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
        let next = intake::accept(self, &candidate, Some(handling), context).await;
        if next == Next::Confirm {
            self.recent().insert(name);
        }
        next
    }

    /// Sends the text that a message has arrived, in the background.
    fn acknowledge(&self, candidate: &CandidateMessage) {
        let (api, budget) = (Arc::clone(&self.api), Arc::clone(&self.budget));
        let (place, chat) = (candidate.origin.clone(), candidate.chat.clone());
        let (message, channel) = (candidate.id.clone(), self.base.name.clone());
        let text = Outgoing::Text(self.config.ack_message.clone());
        self.base.background.spawn(async move {
            let number = reply_number(&format!("{message}/ack"));
            let slot = budget.take(&ReplyRequest {
                place: &place,
                chat: chat.as_str(),
                answered: Some(message.as_str()),
                is_lossy: true,
                number,
            });
            let ReplySlot::Reply(message) = slot else {
                return;
            };
            let reply = Reply {
                message: &message,
                number,
            };
            if let Err(error) = send_message(&api, &place, &text, Some(reply)).await {
                tracing::debug!(%channel, %error, "a receipt could not be confirmed");
            }
        });
    }
}
