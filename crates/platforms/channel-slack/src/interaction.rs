//! Presses of buttons.
//!
//! Decision: a button carries its label, so that a press is understood after any restart. Once a
//! press is durable, the choice replaces the buttons.

use std::sync::Arc;

use nanobot_channel::Value;
use nanobot_channel_kit::intake::Piece;
use serde_json::json;

use crate::api::NoContent;
use crate::candidate::{CandidateMessage, chat_kind, empty_candidate};
use crate::channel::Slack;
use crate::outbound::EDIT_LIMIT;
use crate::text::{escaped, head};
use crate::wire::Interaction;

/// Prefix of the ids of the channel's buttons.
pub(crate) const BUTTON_PREFIX: &str = "choice-";

/// Reads a press of a button. `None` when the button is not one of ours.
pub(crate) fn interaction_candidate(interaction: Interaction) -> Option<CandidateMessage> {
    let Interaction {
        kind,
        user,
        channel,
        message,
        actions,
    } = interaction;
    let action = actions.into_iter().next()?;
    if kind != "block_actions"
        || action.kind != "button"
        || !action.action_id.starts_with(BUTTON_PREFIX)
    {
        return None;
    }
    let label = action.value.filter(|label| !label.is_empty())?;
    if user.id.is_empty() || channel.id.is_empty() || action.action_ts.is_empty() {
        return None;
    }
    let kind = chat_kind(None, &channel.id);
    let thread = message
        .get("thread_ts")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let facts = json!({"type": "block_actions", "user": user.id, "channel": channel.id, "ts": action.action_ts});
    let mut candidate = empty_candidate(user.id, channel.id, kind, action.action_ts, thread, facts);
    candidate.pieces = vec![Piece::Text(label.clone())];
    candidate.origin.pressed = Some((message, label));
    Some(candidate)
}

impl Slack {
    /// Replaces the buttons by the choice, in the background.
    pub(crate) fn show_choice(&self, chat: &str, message: &Value, label: &str) {
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
