//! The last exchange of a conversation: a person's message and everything after it.

use nanobot_types::{ChatMessage, MediaRef, MessageId, ToolCall};

use crate::replay::is_command;
use crate::{Entry, MessageEntry, Record, Seq, SessionView, visible_text};

/// The last message of a person that the model still sees, and the messages after it.
#[derive(Clone, Debug, PartialEq)]
pub struct LastExchange {
    /// Position of its first message.
    pub from: Seq,
    /// Its messages, in order. The first one is a person's.
    pub messages: Vec<MessageEntry>,
}

impl LastExchange {
    /// Finds the exchange in a view that was read from the cursor. Messages that were steered into
    /// a turn belong to the exchange of the message that began it. Returns `None` if no message of
    /// a person follows the cursor.
    #[must_use]
    pub fn of(view: &SessionView) -> Option<Self> {
        let records = view.effective_records();
        let messages: Vec<(Seq, &MessageEntry)> = records
            .iter()
            .filter(|record| record.seq >= view.cursor)
            .filter_map(|record| match &record.entry {
                Entry::Message(entry) if !is_command(entry) => Some((record.seq, entry)),
                _ => None,
            })
            .collect();
        let last = messages.iter().rposition(|(_, entry)| is_user(entry))?;
        let inbound = messages
            .get(last)
            .and_then(|(_, entry)| entry.inbound.as_ref());
        let turn = inbound.map(|inbound| messages_of_turn(&records, inbound));
        let is_of_turn = |entry: &MessageEntry| {
            let inbound = entry.inbound.as_ref();
            inbound.is_some_and(|id| turn.as_ref().is_some_and(|turn| turn.contains(&id)))
        };
        let first = messages
            .iter()
            .take(last)
            .position(|(_, entry)| is_user(entry) && is_of_turn(entry))
            .unwrap_or(last);
        let exchange = messages.get(first..)?;
        Some(Self {
            from: exchange.first()?.0,
            messages: exchange.iter().map(|(_, entry)| (*entry).clone()).collect(),
        })
    }

    /// Returns the text that the person sent. Several messages of one turn become paragraphs.
    #[must_use]
    pub fn asked(&self) -> String {
        let texts = self.messages.iter().filter(|entry| is_user(entry));
        let texts: Vec<String> = texts.map(|entry| visible_text(&entry.message)).collect();
        texts.join("\n\n")
    }

    /// Returns the files that the person attached.
    #[must_use]
    pub fn media(&self) -> Vec<MediaRef> {
        let mut media = Vec::new();
        for entry in &self.messages {
            if let ChatMessage::User(user) = &*entry.message {
                media.extend(user.media.iter().cloned());
            }
        }
        media
    }

    /// Returns the text of the final answer, if there is one.
    #[must_use]
    pub fn reply(&self) -> Option<String> {
        let answers = self.messages.iter().rev();
        let mut texts = answers
            .filter(|entry| matches!(*entry.message, ChatMessage::Assistant(_)))
            .map(|entry| visible_text(&entry.message));
        texts.find(|text| !text.trim().is_empty())
    }

    /// Returns the tool calls of the exchange, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.messages
            .iter()
            .flat_map(|entry| match &*entry.message {
                ChatMessage::Assistant(assistant) => assistant.tool_calls.as_slice(),
                _ => &[],
            })
    }
}

fn is_user(entry: &MessageEntry) -> bool {
    matches!(*entry.message, ChatMessage::User(_))
}

/// Returns the journal ids of the turn that took in a message; only that id if the turn has not
/// ended.
fn messages_of_turn<'a>(records: &[&'a Record], inbound: &'a MessageId) -> Vec<&'a MessageId> {
    let end = records.iter().rev().find_map(|record| match &record.entry {
        Entry::TurnEnded(end) if end.inbound.contains(inbound) => {
            Some(end.inbound.iter().collect())
        }
        _ => None,
    });
    end.unwrap_or_else(|| vec![inbound])
}
