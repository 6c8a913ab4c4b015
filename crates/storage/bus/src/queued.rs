//! Properties that a ledger needs of a message: its queue, its consumer and its identity.

use nanobot_types::{ChannelName, InboundMessage, MessageId, OutboundMessage};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{LedgerEntry, Queue};

/// A message carried by one of the two queues.
pub trait Queued: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The queue.
    const QUEUE: Queue;

    /// Makes sure that the message has a name. Called once, when it is accepted.
    fn complete(&mut self);

    /// Returns the identity of the message within its queue: two messages with the same name are
    /// the same message. Injective over the fields that identify it.
    fn name(&self) -> String;

    /// Returns the channel whose subscription receives it; `None` for inbound messages, which have
    /// one consumer for all channels.
    fn consumer(&self) -> Option<&ChannelName>;

    /// Puts the message into its field of a ledger entry.
    fn show_in(self, entry: &mut LedgerEntry);
}

impl Queued for InboundMessage {
    const QUEUE: Queue = Queue::Inbound;

    fn complete(&mut self) {
        self.id
            .get_or_insert_with(|| MessageId::from(uuid::Uuid::new_v4().to_string()));
    }

    fn name(&self) -> String {
        serde_json::json!([self.channel, self.chat_id, self.id]).to_string()
    }

    fn consumer(&self) -> Option<&ChannelName> {
        None
    }

    fn show_in(self, entry: &mut LedgerEntry) {
        entry.inbound = Some(self);
    }
}

impl Queued for OutboundMessage {
    const QUEUE: Queue = Queue::Outbound;

    fn complete(&mut self) {}

    fn name(&self) -> String {
        self.key.to_string()
    }

    fn consumer(&self) -> Option<&ChannelName> {
        Some(&self.channel)
    }

    fn show_in(self, entry: &mut LedgerEntry) {
        entry.outbound = Some(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(channel: &str, chat: &str, id: Option<&str>) -> InboundMessage {
        let mut message = InboundMessage::text(channel, "7", chat, "hi");
        message.id = id.map(MessageId::from);
        message
    }

    #[test]
    fn names_separate_channel_chat_and_id() {
        assert_eq!(named("a", "b:c", Some("d")).name(), r#"["a","b:c","d"]"#);
        assert_ne!(
            named("a", "b:c", Some("d")).name(),
            named("a:b", "c", Some("d")).name()
        );
    }

    #[test]
    fn missing_message_id_is_generated() {
        let mut messages = [
            named("a", "b", None),
            named("a", "b", None),
            named("a", "b", Some("42")),
        ];
        messages.iter_mut().for_each(Queued::complete);
        let [first, second, third] = messages.map(|message| message.id);
        assert!(first.is_some());
        assert_ne!(first, second);
        assert_eq!(third, Some("42".into()));
    }
}
