//! Messages of a panel that are collected until one mentions the agent, or until silence.
//!
//! Decision: in memory only. The position in the panel stays before the oldest of them, so that a
//! restart finds them again in the panel's history. Their number stays below that of a history.

use std::time::Duration;

use nanobot_channel::Value;
use tokio::time::Instant;

use crate::content::content_text;
use crate::wire::ChatMessage;

/// Number and total length of messages with which a collection is full.
const MAX_MESSAGES: usize = 50;
const MAX_BYTES: usize = 64 << 10;

/// The collected messages of a panel, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    messages: Vec<ChatMessage>,
    /// The end of the silence; `None` once it was announced.
    due: Option<Instant>,
}

impl Collection {
    /// Adds a message, and begins to wait for silence anew. `true` if the collection is full.
    pub(crate) fn add(&mut self, message: ChatMessage, silence: Duration) -> bool {
        self.messages.push(message);
        self.due = Some(Instant::now() + silence);
        let lengths = self
            .messages
            .iter()
            .map(|message| content_text(message).len());
        self.messages.len() >= MAX_MESSAGES || lengths.sum::<usize>() >= MAX_BYTES
    }

    /// Replaces the content of a message.
    pub(crate) fn update(&mut self, id: &str, content: Value) {
        if let Some(message) = self.messages.iter_mut().find(|message| message.id == id) {
            message.content = content;
        }
    }

    /// Removes a message. `true` if it was there.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        let count = self.messages.len();
        self.messages.retain(|message| message.id != id);
        self.messages.len() < count
    }

    /// `true` if there is no message.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the messages.
    pub(crate) fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// Returns the end of the silence, unless it was announced.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.messages.is_empty())
    }

    /// Notes that the end of the silence was announced.
    pub(crate) fn announce(&mut self) {
        self.due = None;
    }

    /// `true` if the end of the silence was announced, and no message came since.
    pub(crate) fn is_silent(&self) -> bool {
        self.due.is_none() && !self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, text: &str) -> ChatMessage {
        ChatMessage {
            id: id.to_owned(),
            content: text.into(),
            ..ChatMessage::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_begins_anew_with_each_message() {
        let silence = Duration::from_secs(120);
        let mut collection = Collection::default();
        assert_eq!(collection.due(), None);
        collection.add(message("1", "a"), silence);
        tokio::time::advance(Duration::from_secs(100)).await;
        collection.add(message("2", "b"), silence);
        assert_eq!(collection.due(), Some(Instant::now() + silence));
        collection.announce();
        assert!(collection.is_silent() && collection.due().is_none());
        collection.add(message("3", "c"), silence);
        assert!(!collection.is_silent());
    }

    #[test]
    fn messages_are_changed_and_removed() {
        let silence = Duration::from_secs(1);
        let mut collection = Collection::default();
        collection.add(message("1", "a"), silence);
        collection.add(message("2", "b"), silence);
        collection.update("2", "c".into());
        collection.update("9", "d".into());
        assert!(collection.remove("1") && !collection.remove("1"));
        assert_eq!(collection.messages(), [message("2", "c")]);
        assert!(collection.remove("2") && collection.is_empty());
        assert_eq!(collection.due(), None);
    }

    #[test]
    fn collection_is_bounded_by_number_and_length() {
        let silence = Duration::from_secs(1);
        let mut many = Collection::default();
        let is_full: Vec<bool> = (0..MAX_MESSAGES)
            .map(|number| many.add(message(&number.to_string(), "x"), silence))
            .collect();
        assert_eq!(
            is_full.iter().position(|full| *full),
            Some(MAX_MESSAGES - 1)
        );
        let mut long = Collection::default();
        assert!(!long.add(message("1", "x"), silence));
        assert!(long.add(message("2", &"x".repeat(MAX_BYTES)), silence));
    }
}
