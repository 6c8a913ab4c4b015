//! Slack's steps of the intake.

use std::sync::Arc;

use nanobot_channel::{Admission, ChannelContext, ChannelName, SessionKey, Value};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::{self, IntakeSource, Next};
use serde_json::json;
use slack_morphism::{SlackChannelId, SlackTs};

use crate::api::NoContent;
use crate::attachment;
use crate::candidate::{CandidateMessage, SlackOrigin, heard_in, said};
use crate::channel::Slack;
use crate::error::Refusal;
use crate::outbound::EDIT_LIMIT;
use crate::text::{escaped, head};

impl IntakeSource for Slack {
    type Origin = SlackOrigin;
    type Refusal = Refusal;
    const WAITING: &'static str = "messages cannot be stored now; they are kept and offered again";

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

    fn not_kept(&self, file: &Attachment, _error: &FetchError<Refusal>) -> String {
        attachment::not_kept(file)
    }

    async fn tell(&self, candidate: &CandidateMessage, text: String) {
        let (chat, delivery) = (&candidate.chat, &candidate.delivery);
        if let Err(error) = self.notify(chat, delivery, &escaped(&text)).await {
            tracing::warn!(channel = %self.base.name, %error, "a notice could not be sent");
        }
    }

    async fn allowed(
        &self,
        candidate: &CandidateMessage,
        _context: &ChannelContext,
    ) -> Option<String> {
        for (place, ts) in heard_in(candidate) {
            self.marks.add(&place, (), ts);
        }
        self.thread_context(candidate).await
    }

    fn delivered(&self, candidate: &CandidateMessage, admission: Admission) {
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
    pub(crate) async fn take(
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
        let next = intake::take(self, &candidate, Some(handling), context).await;
        if next == Next::Confirm {
            for name in names {
                self.recent().insert(name);
            }
            if let Some((place, ts)) = said(&candidate) {
                self.marks.dealt_with(&place, &ts);
            }
        }
        next
    }

    /// Replaces the buttons by the choice, in the background.
    fn show_choice(&self, chat: &str, message: &Value, label: &str) {
        let Some(ts) = message.get("ts").and_then(Value::as_str) else {
            return;
        };
        let is_row = |block: &&Value| block.get("type").and_then(Value::as_str) == Some("actions");
        let blocks = message.get("blocks").and_then(Value::as_array);
        let mut blocks: Vec<Value> = blocks
            .into_iter()
            .flatten()
            .filter(|block| !is_row(block))
            .cloned()
            .collect();
        let choice = format!(":heavy_check_mark: {}", escaped(label));
        blocks.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": choice}]}));
        let text = message.get("text").and_then(Value::as_str).unwrap_or(label);
        // The blocks say it all; the text is for notifications.
        let update =
            json!({"channel": chat, "ts": ts, "text": head(text, EDIT_LIMIT), "blocks": blocks});
        let (api, name) = (Arc::clone(&self.api), self.base.name.clone());
        self.base.background.spawn(async move {
            if let Err(error) = api.call::<_, NoContent>("chat.update", &update).await {
                tracing::debug!(channel = %name, %error, "a choice could not be shown");
            }
        });
    }
}
