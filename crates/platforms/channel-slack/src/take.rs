//! Takes a candidate in: access first, then the message, then the ledger, then the reaction.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{
    AccessDecision, Admission, ChannelContext, ChatKind, DeliveryContext, Value,
};
use nanobot_channel_kit::{Handling, backoff};
use serde_json::json;
use tokio::time::Instant;

use crate::api::Done;
use crate::channel::SlackChannel;
use crate::inbound::{Candidate, Identity};
use crate::outbound::EDIT_LIMIT;
use crate::text::{escaped, head};

const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// What follows an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It was dealt with.
    Forget,
    /// The assistant is going down: it stays.
    Stop,
}

/// An envelope, or what was missed, that was dealt with.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The connection it came through.
    pub(crate) connection: u64,
    /// What to acknowledge, when it came in one.
    pub(crate) envelope: Option<String>,
    pub(crate) received: Instant,
    pub(crate) next: Next,
}

impl SlackChannel {
    /// Deals with a candidate, unless that was done before. Its try is over when it was read.
    pub(crate) async fn take(
        &self,
        me: &Identity,
        event: String,
        candidate: Candidate,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let mut handling = Some(handling);
        let next = self
            .take_new(me, event, candidate, &mut handling, context)
            .await;
        end(&mut handling).await;
        next
    }

    async fn take_new(
        &self,
        me: &Identity,
        event: String,
        candidate: Candidate,
        handling: &mut Option<Handling<'_>>,
        context: &ChannelContext,
    ) -> Next {
        let names = [
            format!("{}/{}", candidate.chat, candidate.id),
            format!("event/{event}"),
        ];
        let is_known = |name: &String| !name.ends_with('/') && self.recent().contains(name);
        if names.iter().any(is_known) {
            return Next::Forget;
        }
        let said = candidate.said();
        let next = self.take_in(me, candidate, handling, context).await;
        if next == Next::Forget {
            for name in names {
                self.recent().insert(name);
            }
            if let Some((place, ts)) = said {
                self.chats.deal_with(&place, &ts);
            }
        }
        next
    }

    async fn take_in(
        &self,
        me: &Identity,
        candidate: Candidate,
        handling: &mut Option<Handling<'_>>,
        context: &ChannelContext,
    ) -> Next {
        if !self.may_talk(&candidate, context).await {
            return Next::Forget;
        }
        for (place, ts) in candidate.heard_in() {
            self.chats.hear(&place, &ts);
        }
        let message = self.compose(me, &candidate, context).await;
        // It was read, so whatever happens next is not its fault.
        end(handling).await;
        let mut tries = 0_u32;
        loop {
            match context
                .intake
                .deliver(message.clone(), &candidate.arrival)
                .await
            {
                Admission::TryLater => {
                    context
                        .progress
                        .degraded("messages cannot be stored now; they are kept and offered again");
                    tokio::time::sleep(backoff(FIRST_PAUSE, tries)).await;
                    tries = tries.saturating_add(1);
                }
                Admission::ShuttingDown => return Next::Stop,
                Admission::Accepted => {
                    self.told_threads.insert(&candidate);
                    self.begin_reaction(&candidate);
                    if let Some((message, label)) = &candidate.pressed {
                        self.show_choice(candidate.chat.as_str(), message, label);
                    }
                    return Next::Forget;
                }
                Admission::Duplicate => {
                    self.told_threads.insert(&candidate);
                    return Next::Forget;
                }
                Admission::NotAllowed => return Next::Forget,
            }
        }
    }

    /// Asks who decides, and passes on what a stranger in a direct chat shall read.
    async fn may_talk(&self, candidate: &Candidate, context: &ChannelContext) -> bool {
        match context
            .access
            .check(&candidate.sender, &candidate.chat, &candidate.arrival)
            .await
        {
            AccessDecision::Allowed => true,
            AccessDecision::Denied => false,
            AccessDecision::Ask(text) => {
                if candidate.arrival.kind == ChatKind::Direct {
                    let delivery = DeliveryContext {
                        thread: candidate.thread.clone(),
                        ..DeliveryContext::default()
                    };
                    if let Err(error) = self.say(&candidate.chat, &delivery, &escaped(&text)).await
                    {
                        tracing::warn!(channel = %self.name, %error, "a notice could not be sent");
                    }
                }
                false
            }
        }
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

/// Ends the try of what was read, if that was not done.
async fn end(handling: &mut Option<Handling<'_>>) {
    if let Some(handling) = handling.take() {
        handling.end().await;
    }
}
