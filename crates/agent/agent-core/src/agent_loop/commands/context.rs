//! What a command knows and may touch.

use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::Ledger;
use nanobot_types::{InboundMessage, SessionKey};
use tokio_util::sync::CancellationToken;

use super::CommandTable;
use crate::Agent;
use crate::agent_loop::pump::Shared;

/// A command that was given, and the assistant it was given to.
#[derive(Debug)]
pub struct CommandContext<'a> {
    /// The message.
    pub message: &'a InboundMessage,
    /// Its session.
    pub session: &'a SessionKey,
    /// What stands behind the command, trimmed.
    pub arguments: &'a str,
    /// Fires when a person stops the session or the program goes down. A command of a lane has to
    /// end then.
    pub cancel: &'a CancellationToken,
    pub(in crate::agent_loop) shared: &'a Shared,
}

impl<'a> CommandContext<'a> {
    /// The assistant.
    #[must_use]
    pub fn agent(&self) -> &'a Arc<Agent> {
        &self.shared.agent
    }

    /// What is not settled.
    #[must_use]
    pub fn ledger(&self) -> &'a dyn Ledger {
        &*self.shared.ledger
    }

    /// All commands.
    #[must_use]
    pub fn commands(&self) -> &'a CommandTable {
        &self.shared.commands
    }

    /// Stops the session's turn and its subagents and discards what waits behind it; how many
    /// messages and subagents that is.
    #[must_use]
    pub fn stop(&self) -> usize {
        self.shared.stop(self.session)
    }

    /// Messages that are at work or wait in a lane, over all sessions.
    #[must_use]
    pub fn active_tasks(&self) -> usize {
        self.shared.active_tasks()
    }

    /// How long the loop has been there.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.shared.started.elapsed()
    }
}
