//! Matrix' steps of the intake.

use nanobot_channel::{Admission, ChannelContext, ChannelName, DeliveryContext};
use nanobot_channel_kit::attachment::Attachment;
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::{IntakeSource, Piece};
use reqwest::Method;

use crate::api::Path;
use crate::attachment::{self, FetchError};
use crate::candidate::{CandidateMessage, MatrixOrigin, quoted_text};
use crate::channel::Matrix;
use crate::error::Refusal;
use crate::id::localpart;
use crate::outgoing::{RichText, transaction};
use crate::target::SendTarget;
use crate::wire::{Event, cut};

/// Most of a quoted message that is repeated, in bytes.
const QUOTE_LIMIT: usize = 4000;

impl IntakeSource for Matrix {
    type Origin = MatrixOrigin;
    type Refusal = Refusal;

    fn name(&self) -> &ChannelName {
        &self.base.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError> {
        let limit = context.media.limit().min(self.config.max_media_bytes);
        if limit == 0 || file.size.is_some_and(|size| size > limit) {
            return Err(FetchError::TooLarge { limit });
        }
        attachment::fetch(&self.api, file, limit).await
    }

    fn failure_marker(&self, file: &Attachment, error: &FetchError) -> String {
        attachment::failure_marker(file, error)
    }

    async fn send_notice(&self, candidate: &CandidateMessage, text: String) {
        let Ok(target) = SendTarget::new(&candidate.chat, &DeliveryContext::default()) else {
            return;
        };
        let content = RichText::plain(&text).content(None);
        let transaction = transaction(&format!("notice {}", candidate.id));
        let sent = self
            .outgoing
            .send_message(&target.room, &content, &transaction);
        if let Err(error) = sent.await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }

    async fn on_allowed(
        &self,
        candidate: &CandidateMessage,
        _context: &ChannelContext,
    ) -> Vec<Piece> {
        let quoted = candidate.origin.reply_to.as_deref();
        let Some(event) = quoted.filter(|_| !candidate.origin.is_command) else {
            return Vec::new();
        };
        let quotation = self.quotation(candidate.chat.as_str(), event).await;
        quotation.map(Piece::Text).into_iter().collect()
    }

    fn on_delivered(&self, candidate: &CandidateMessage, admission: Admission) {
        if admission != Admission::Accepted {
            return;
        }
        let message = (candidate.chat.to_string(), candidate.id.to_string());
        self.reactions.begin(
            &candidate.chat,
            &candidate.delivery,
            message.clone(),
            &self.base.background,
        );
        let (room, event) = message;
        self.receipts
            .send(room, event, &self.api, &self.base.background);
    }
}

impl Matrix {
    /// Returns a quoted message, with the name of its author.
    async fn quotation(&self, room: &str, event: &str) -> Option<String> {
        let path = ["_matrix", "client", "v3", "rooms", room, "event", event];
        let quoted = self.api.call(Method::GET, Path::new(&path), None).await;
        let quoted = match quoted {
            Ok(quoted) => Event(quoted),
            Err(error) => {
                tracing::debug!(%error, "a quoted message cannot be read");
                return None;
            }
        };
        if quoted.id() != Some(event) {
            return None;
        }
        let quoted = if quoted.kind() == "m.room.encrypted" {
            let clear = self.encryption.decrypt(room, &quoted.0).await.ok()?;
            quoted.decrypted(&clear.event)
        } else {
            quoted
        };
        let author = quoted.sender()?;
        let whom = if author == self.names().user_id {
            "bot"
        } else {
            localpart(author)
        };
        let text = quoted_text(&quoted)?;
        let shown = cut(&text, QUOTE_LIMIT);
        let end = if shown.len() < text.len() { "..." } else { "" };
        Some(attribute_text("Reply to", whom, &format!("{shown}{end}")))
    }
}
