//! Slash commands, with which a person controls the assistant.
//!
//! Decision: commands are a table of [`Command`]s. The loop knows only [when](CommandTiming) a
//! command runs. A program that embeds the assistant adds its own commands to the [built-in
//! ones](CommandTable::built_in). Only people give commands: text from a job or a subagent is never
//! parsed as one.

mod agents;
mod basics;
mod context;
mod model;
mod nearest;
mod pending;
mod reports;
mod skill;
mod table;
mod undo;

use async_trait::async_trait;
use nanobot_types::CommandInfo;

pub use context::CommandContext;
pub use table::{CommandTable, DuplicateCommand};

pub(super) use table::Parsed;

use crate::AgentError;
use crate::agent::RetryInput;

/// Usage of a command that accepts any text and ignores it. Help does not show it.
const ANY_TEXT: &str = "[…]";

/// The time at which a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandTiming {
    /// At once, even while a turn runs. Everything that it does before its first wait happens
    /// before any later message is routed.
    Now,
    /// In its session's lane: after earlier messages, and never while a turn runs.
    InLane,
    /// In its session's lane, after stopping what runs there.
    InLaneAfterStop,
}

/// A slash command.
#[async_trait]
pub trait Command: Send + Sync + std::fmt::Debug {
    /// Returns its name and help text.
    fn info(&self) -> CommandInfo;

    /// Returns when it runs.
    fn timing(&self) -> CommandTiming;

    /// Runs the command. After a crash the same message may be delivered again, so this call may be
    /// repeated.
    ///
    /// # Errors
    /// Returns an [`AgentError`]. A command of a lane is then retried later; for any other command
    /// the error is reported to the person.
    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError>;
}

/// The reply of a command, and an optional follow-up once the reply is durable.
pub struct CommandReply {
    pub(super) text: String,
    /// `true` if the command did not do what was asked.
    pub(super) is_refusal: bool,
    pub(super) then: Option<Box<dyn FnOnce() + Send>>,
    /// Set if the reply is that of a turn, which answers this message again.
    pub(super) retry: Option<RetryInput>,
}

impl CommandReply {
    /// Creates the reply of a command that did not do what was asked: it was used wrongly, or it
    /// failed. Programs see it as a failure.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self {
            is_refusal: true,
            ..Self::from(text)
        }
    }

    /// Creates the reply of a command of a lane that answers a message again.
    fn retry(input: RetryInput) -> Self {
        Self {
            retry: Some(input),
            ..Self::from(String::new())
        }
    }

    /// Adds a follow-up that must not happen before the reply is stored and the command's message
    /// settled. It must not block.
    #[must_use]
    pub fn then(self, then: impl FnOnce() + Send + 'static) -> Self {
        Self {
            then: Some(Box::new(then)),
            ..self
        }
    }
}

impl<T: Into<String>> From<T> for CommandReply {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            is_refusal: false,
            then: None,
            retry: None,
        }
    }
}

impl std::fmt::Debug for CommandReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandReply")
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}
