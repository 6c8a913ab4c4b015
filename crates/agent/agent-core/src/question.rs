//! Shows questions about calls in the chats that they are about.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_approvals::{Asker, OpenQuestion};
use nanobot_types::{OutboundKey, OutboundKind, OutboundMessage, OutboundSlot};

use crate::Outbox;

/// Sends questions through an outbox, as messages with buttons.
#[derive(Clone, Debug)]
pub struct OutboxAsker(Arc<dyn Outbox>);

impl OutboxAsker {
    /// Creates an asker. The questions have the kind [`OutboundKind::Question`].
    #[must_use]
    pub fn new(outbox: Arc<dyn Outbox>) -> Self {
        Self(outbox)
    }
}

#[async_trait]
impl Asker for OutboxAsker {
    async fn show(&self, question: &OpenQuestion) -> Result<(), String> {
        let slot = OutboundSlot::Question(question.binding().slot());
        let key = OutboundKey::new(question.trace.clone(), slot);
        let (address, text) = (question.address.clone(), question.text.clone());
        let message = OutboundMessage {
            buttons: question.buttons(),
            ..OutboundMessage::to(address, key, OutboundKind::Question, text)
        };
        let sent = self.0.enqueue(message).await;
        sent.map_err(|error| error.to_string())
    }
}
