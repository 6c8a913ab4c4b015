//! The session log as the journal of one turn.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_context::estimate_message;
use nanobot_session::{Entry, MessageEntry, Seq, SessionError, SessionStore, SessionView};
use nanobot_types::{ChannelName, ChatId, ChatMessage, SessionKey};

use crate::consolidation::{Size, has_pending, last_summary};
use crate::engine::{Journal, TurnFacts};
use crate::evidence::{TurnStep, TurnSteps};
use crate::message_tool::{self, MessageTool};

/// Maximum number of attempts to append when other processes write to the same session.
const TRIES: u32 = 8;

/// Appends to one session, and detects when the `message` tool answered its chat.
pub(super) struct SessionLog {
    store: Arc<dyn SessionStore>,
    session: SessionKey,
    channel: ChannelName,
    chat_id: ChatId,
    head: Seq,
    answered_here: bool,
    ran_tools: bool,
    steps: TurnSteps,
    /// The conversation as the turn found it, plus what the turn adds.
    pub(super) conversation: ConversationSize,
}

/// The facts about a conversation that consolidation needs.
#[derive(Debug, Default)]
pub(super) struct ConversationSize {
    /// Summary of the messages that are no longer sent.
    pub(super) summary: Option<String>,
    /// `true` if something is waiting to be summarised.
    pub(super) has_pending: bool,
    /// Tokens of the prompt and the tools.
    pub(super) fixed: usize,
    /// Size of the messages that are still sent.
    pub(super) size: Size,
}

impl ConversationSize {
    /// Reads the facts from a session log; the sizes stay zero.
    pub(super) fn of(view: &SessionView) -> Self {
        Self {
            summary: last_summary(view).map(str::to_owned),
            has_pending: has_pending(view),
            ..Self::default()
        }
    }

    fn grow(&mut self, entries: &[Entry]) {
        for entry in entries {
            if let Entry::Message(entry) = entry {
                self.size.messages += 1;
                self.size.tokens += estimate_message(&entry.sent());
            }
        }
    }
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
            ran_tools: false,
            steps: TurnSteps::default(),
            conversation: ConversationSize::default(),
        }
    }

    /// Notes the steps under way in `steps`.
    pub(super) fn with_steps(self, steps: TurnSteps) -> Self {
        Self { steps, ..self }
    }

    /// Appends at the current head, even if another process moved it: a step that was taken must be
    /// recorded.
    pub(super) async fn append(&mut self, entries: Vec<Entry>) -> Result<(), SessionError> {
        self.conversation.grow(&entries);
        let mut tries = 0;
        loop {
            tries += 1;
            match self
                .store
                .append(&self.session, self.head, entries.clone())
                .await
            {
                Ok(head) => {
                    self.head = head;
                    return Ok(());
                }
                Err(SessionError::Moved { actual, .. }) if tries < TRIES => self.head = actual,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns `true` if the `message` tool wrote to the turn's own chat after the last message of
    /// a person.
    pub(super) fn answered_here(&self) -> bool {
        self.answered_here
    }

    /// Returns `true` if the turn ran tools.
    pub(super) fn ran_tools(&self) -> bool {
        self.ran_tools
    }

    /// Updates the flags for a step.
    pub(super) fn update_flags(&mut self, message: &ChatMessage) {
        let result = match message {
            // Earlier output of the `message` tool does not answer this new message.
            ChatMessage::User(_) => {
                self.answered_here = false;
                return;
            }
            ChatMessage::Tool(result) => {
                self.ran_tools = true;
                result
            }
            ChatMessage::System { .. } | ChatMessage::Assistant(_) => return,
        };
        let is_message = result
            .name
            .as_ref()
            .is_some_and(|name| name.as_str() == MessageTool::NAME);
        if is_message && message_tool::was_sent_to(&message.text(), &self.channel, &self.chat_id) {
            self.answered_here = true;
        }
    }
}

#[async_trait]
impl Journal for SessionLog {
    async fn record(&mut self, messages: Vec<MessageEntry>) -> Result<(), SessionError> {
        for entry in &messages {
            self.update_flags(&entry.message);
        }
        self.append(messages.into_iter().map(Entry::Message).collect())
            .await
    }

    fn step_started(&self, step: TurnStep) {
        self.steps.step(step);
    }
}
