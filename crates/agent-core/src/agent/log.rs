//! The end of a session log that a turn writes to.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_session::{Entry, MessageEntry, Seq, SessionError, SessionStore};
use nanobot_types::{ChannelName, ChatId, ChatMessage, SessionKey};

use crate::engine::{Journal, TurnFacts};
use crate::message_tool::{self, MessageTool};

/// How often an append is tried when other processes write to the same session.
const TRIES: u32 = 8;

/// Appends to one session, and notices when the `message` tool answered its chat.
pub(super) struct SessionLog {
    store: Arc<dyn SessionStore>,
    session: SessionKey,
    channel: ChannelName,
    chat_id: ChatId,
    head: Seq,
    answered_here: bool,
}

impl SessionLog {
    pub(super) fn new(store: Arc<dyn SessionStore>, facts: &TurnFacts, head: Seq) -> Self {
        Self {
            store,
            session: facts.session.clone(),
            channel: facts.channel.clone(),
            chat_id: facts.chat_id.clone(),
            head,
            answered_here: false,
        }
    }

    /// Appends behind whatever is there: another process may have written to the session, and a
    /// step that was taken has to be recorded all the same.
    pub(super) async fn append(&mut self, entries: Vec<Entry>) -> Result<(), SessionError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.store.append(&self.session, self.head, entries.clone()).await {
                Ok(head) => {
                    self.head = head;
                    return Ok(());
                }
                Err(SessionError::Moved { actual, .. }) if tries < TRIES => self.head = actual,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the `message` tool wrote to the turn's own chat since a person last said something.
    pub(super) fn answered_here(&self) -> bool {
        self.answered_here
    }

    /// Takes note of a step.
    pub(super) fn note(&mut self, message: &ChatMessage) {
        let result = match message {
            // Whatever was sent before it did not answer this one.
            ChatMessage::User(_) => {
                self.answered_here = false;
                return;
            }
            ChatMessage::Tool(result) => result,
            ChatMessage::System { .. } | ChatMessage::Assistant(_) => return,
        };
        let is_message = result.name.as_ref().is_some_and(|name| name.as_str() == MessageTool::NAME);
        if is_message && message_tool::reached(&message.text(), &self.channel, &self.chat_id) {
            self.answered_here = true;
        }
    }
}

#[async_trait]
impl Journal for SessionLog {
    async fn record(&mut self, messages: Vec<MessageEntry>) -> Result<(), SessionError> {
        for entry in &messages {
            self.note(&entry.message);
        }
        self.append(messages.into_iter().map(Entry::Message).collect()).await
    }
}
