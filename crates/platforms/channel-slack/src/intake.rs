//! The steps of the intake that are Slack's own.

use std::sync::Arc;

use nanobot_channel::{Admission, ChannelContext, ChannelName, SessionKey, Value};
use nanobot_channel_kit::Handling;
use nanobot_channel_kit::attachment::{Attachment, FetchError};
use nanobot_channel_kit::intake::{self, Next, Source};
use serde_json::json;
use tokio::time::Instant;

use crate::api::Done;
use crate::attachment;
use crate::candidate::{Candidate, Origin, heard_in, said};
use crate::channel::SlackChannel;
use crate::error::Refusal;
use crate::outbound::EDIT_LIMIT;
use crate::text::{escaped, head};

/// An envelope, or a catch-up, that was dealt with.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The connection it came through.
    pub(crate) connection: u64,
    /// The envelope to acknowledge, if it came in one.
    pub(crate) envelope: Option<String>,
    pub(crate) received: Instant,
    pub(crate) next: Next,
}

/// The channel, as the intake sees it.
#[derive(Debug)]
struct SlackSource<'a>(&'a SlackChannel);

impl Source for SlackSource<'_> {
    type Origin = Origin;
    type Refusal = Refusal;
    const WAITING: &'static str = "messages cannot be stored now; they are kept and offered again";

    fn name(&self) -> &ChannelName {
        &self.0.name
    }

    async fn fetch(
        &self,
        file: &Attachment,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError<Refusal>> {
        attachment::fetch(&self.0.api, file, context.media.limit()).await
    }

    fn not_kept(&self, file: &Attachment, _error: &FetchError<Refusal>) -> String {
        attachment::not_kept(file)
    }

    async fn tell(&self, candidate: &Candidate, text: String) {
        let (chat, delivery) = (&candidate.chat, &candidate.delivery);
        if let Err(error) = self.0.say(chat, delivery, &escaped(&text)).await {
            tracing::warn!(channel = %self.0.name, %error, "a notice could not be sent");
        }
    }

    async fn allowed(&self, candidate: &Candidate, _context: &ChannelContext) -> Option<String> {
        for (place, ts) in heard_in(candidate) {
            self.0.marks.add(&place, (), ts);
        }
        self.0.thread_context(candidate).await
    }

    fn delivered(&self, candidate: &Candidate, admission: Admission) {
        if admission != Admission::NotAllowed {
            self.0.note_context(candidate);
        }
        if admission == Admission::Accepted {
            self.0.begin_reaction(candidate);
            if let Some((message, label)) = &candidate.origin.pressed {
                self.0.show_choice(candidate.chat.as_str(), message, label);
            }
        }
    }
}

impl SlackChannel {
    /// Deals with a candidate, unless that was done before.
    pub(crate) async fn take(
        &self,
        event: &str,
        mut candidate: Candidate,
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
            thread.map(|thread| SessionKey::from(format!("{}:{chat}:{thread}", self.name)));
        let next = intake::take(&SlackSource(self), &candidate, Some(handling), context).await;
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

    /// Puts the choice in place of the buttons, without waiting for it.
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
        let (api, name) = (Arc::clone(&self.api), self.name.clone());
        self.in_background(async move {
            if let Err(error) = api.call::<_, Done>("chat.update", &update).await {
                tracing::debug!(channel = %name, %error, "a choice could not be shown");
            }
        });
    }
}
