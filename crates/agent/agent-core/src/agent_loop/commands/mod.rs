//! Slash commands: what a person says to the assistant about itself.
//!
//! Decision: a table of [`Command`]s. The loop knows of a command only [when](When) it acts; what
//! it does is its own business. A program that embeds the assistant adds its own to the
//! [built-in ones](CommandTable::built_in). Only people give commands: what a job or a helper says
//! is never read as one.

mod agents;
mod basics;
mod context;
mod nearest;
mod pending;
mod reports;
mod skill;
mod table;

use async_trait::async_trait;
use nanobot_types::CommandInfo;

pub use context::CommandContext;
pub use table::{CommandTable, DuplicateCommand};

pub(super) use table::Parsed;

use crate::AgentError;

/// The usage of a command that takes anything and looks at nothing of it. Help does not show it.
const ANYTHING: &str = "[…]";

/// When a command acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At once, also while a turn runs. What it does before it first waits for something is done
    /// before any later message is looked at.
    Now,
    /// In its session's lane: behind what came before it, not beside a turn.
    InLane,
    /// The same, after stopping what runs there.
    InLaneAfterStop,
}

/// A slash command.
#[async_trait]
pub trait Command: Send + Sync + std::fmt::Debug {
    /// What people are told about it.
    fn info(&self) -> CommandInfo;

    /// When it acts.
    fn when(&self) -> When;

    /// Acts. The same message may come again after a crash; so may this call.
    ///
    /// # Errors
    /// [`AgentError`]: a command of a lane is tried again later, another one's person is told.
    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError>;
}

/// What a command says, and what follows when that is on its way for good.
pub struct CommandReply {
    pub(super) text: String,
    pub(super) then: Option<Box<dyn FnOnce() + Send>>,
}

impl CommandReply {
    /// The same, followed by something that must not happen before the reply is stored and the
    /// command's message settled. It must not block.
    #[must_use]
    pub fn followed_by(self, then: impl FnOnce() + Send + 'static) -> Self {
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
            then: None,
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
