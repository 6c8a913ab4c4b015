//! Reactions to messages that are worked on.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{OutboundMessage, Value};
use nanobot_channel_kit::{ReactionEmoji, Reactor};
use serde_json::json;

use crate::WhatsAppConfig;
use crate::candidate::{MessageOrigin, PARTICIPANT};
use crate::client::Client;
use crate::error::{CallError, Refusal};

/// Time after which reactions are removed, because the end of a turn may not be reported.
const LIMIT: Duration = Duration::from_mins(30);

/// Requests that change reactions.
#[derive(Debug)]
pub(crate) struct BridgeReactor(pub(crate) Arc<Client>);

/// Returns the emoji of a channel.
pub(crate) fn emoji(config: &WhatsAppConfig) -> ReactionEmoji {
    ReactionEmoji {
        received: config.react_emoji.clone(),
        limit: Some(LIMIT),
        ..ReactionEmoji::default()
    }
}

impl BridgeReactor {
    async fn react(&self, message: &MessageOrigin, emoji: &str) -> Result<(), CallError> {
        let MessageOrigin {
            chat,
            participant,
            id,
        } = message;
        let mut react = json!({
            "type": "react", "to": chat, "id": id, "fromBot": false, "emoji": emoji,
        });
        if let (false, Some(members)) = (participant.is_empty(), react.as_object_mut()) {
            members.insert("participant".to_owned(), participant.as_str().into());
        }
        self.0.call(react).await.map(drop)
    }
}

impl Reactor for BridgeReactor {
    type Message = MessageOrigin;
    type Refusal = Refusal;

    async fn add(&self, message: &MessageOrigin, emoji: &str) -> Result<(), CallError> {
        self.react(message, emoji).await
    }

    /// Removes the reaction of the account: there is one for each message.
    async fn remove(&self, message: &MessageOrigin, _emoji: &str) -> Result<(), CallError> {
        self.react(message, "").await
    }

    fn answered_message(&self, end: &OutboundMessage) -> Option<MessageOrigin> {
        let participant = end.delivery.extra.get(PARTICIPANT).and_then(Value::as_str);
        Some(MessageOrigin {
            chat: end.chat_id.as_str().to_owned(),
            participant: participant.unwrap_or_default().to_owned(),
            id: end.delivery.reply_to.as_ref()?.as_str().to_owned(),
        })
    }
}
