//! Slack's steps of the intake.

use nanobot_channel::{Admission, ChannelContext, ChannelName, SessionKey};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::{self, IntakeSource, Next, Piece};
use slack_morphism::{SlackChannelId, SlackTs};

use crate::attachment;
use crate::candidate::{CandidateMessage, SlackOrigin, initial_marks, message_mark};
use crate::channel::Slack;
use crate::error::Refusal;
use crate::text::escaped;

impl IntakeSource for Slack {
    type Origin = SlackOrigin;
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
        let (chat, delivery) = (&candidate.chat, &candidate.delivery);
        if let Err(error) = self.notify(chat, delivery, &escaped(&text)).await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }

    async fn on_allowed(
        &self,
        candidate: &CandidateMessage,
        _context: &ChannelContext,
    ) -> Vec<Piece> {
        for (place, ts) in initial_marks(candidate) {
            self.marks.add(&place, (), ts);
        }
        let earlier = self.thread_context(candidate).await;
        earlier.map(Piece::Text).into_iter().collect()
    }

    fn on_delivered(&self, candidate: &CandidateMessage, admission: Admission) {
        if admission != Admission::NotAllowed {
            self.note_context(candidate);
        }
        if admission != Admission::Accepted {
            return;
        }
        let (chat, delivery) = (&candidate.chat, &candidate.delivery);
        if let Some(ts) = &candidate.origin.message {
            let message = (
                SlackChannelId::new(chat.to_string()),
                SlackTs::new(ts.clone()),
            );
            let background = &self.base.background;
            self.reactions.begin(chat, delivery, message, background);
        }
        if let Some((message, label)) = &candidate.origin.pressed {
            self.show_choice(chat.as_str(), message, label);
        }
    }
}

impl Slack {
    /// Handles a candidate, unless it is known.
    pub(crate) async fn handle_candidate(
        &self,
        event: &str,
        mut candidate: CandidateMessage,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let (chat, id) = (&candidate.chat, &candidate.id);
        let names = [format!("{chat}/{id}"), format!("event/{event}")];
        let is_known = |name: &String| !name.ends_with('/') && self.recent().contains(name);
        if names.iter().any(is_known) {
            handling.end().await;
            return Next::Confirm;
        }
        let thread = candidate.delivery.thread.as_ref();
        candidate.session =
            thread.map(|thread| SessionKey::from(format!("{}:{chat}:{thread}", self.base.name)));
        let next = intake::accept(self, &candidate, Some(handling), context).await;
        if next == Next::Confirm {
            for name in names {
                self.recent().insert(name);
            }
            if let Some((place, ts)) = message_mark(&candidate) {
                self.marks.mark_handled(&place, &ts);
            }
        }
        next
    }
}
