//! The context in which a command runs.

use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::Ledger;
use nanobot_types::{InboundMessage, SessionKey};
use tokio_util::sync::CancellationToken;

use super::{CommandReply, CommandTable};
use crate::agent_loop::shared::LoopState;
use crate::{Agent, AgentError};

/// A command invocation and the assistant that runs it.
#[derive(Debug)]
pub struct CommandContext<'a> {
    /// The message that contains the command.
    pub message: &'a InboundMessage,
    /// Its session.
    pub session: &'a SessionKey,
    /// The text after the command, trimmed.
    pub arguments: &'a str,
    /// Fires when a person stops the session or the program shuts down. A command of a lane must
    /// end then.
    pub cancel: &'a CancellationToken,
    pub(in crate::agent_loop) shared: &'a LoopState,
}

impl<'a> CommandContext<'a> {
    /// Returns the agent.
    #[must_use]
    pub fn agent(&self) -> &'a Arc<Agent> {
        &self.shared.agent
    }

    /// Returns the ledger of unsettled messages.
    #[must_use]
    pub fn ledger(&self) -> &'a dyn Ledger {
        &*self.shared.ledger
    }

    /// Returns all commands.
    #[must_use]
    pub fn commands(&self) -> &'a CommandTable {
        &self.shared.commands
    }

    /// Stops the session's turn and its subagents, and discards its waiting messages. Returns the
    /// number of messages and subagents affected.
    #[must_use]
    pub fn stop(&self) -> usize {
        self.shared.stop(self.session)
    }

    /// Returns a reply that contains the question about messages which wait to be summarised.
    pub(super) async fn asking_reply(&self, text: String) -> Result<CommandReply, AgentError> {
        let (agent, session) = (self.agent().clone(), self.session.clone());
        let turn = self.message.turn_id();
        agent.note_asking_reply(&session, &turn).await?;
        Ok(CommandReply::from(text).then(move || agent.question_published(&session)))
    }

    /// Returns the number of running and waiting messages over all sessions.
    #[must_use]
    pub fn active_tasks(&self) -> usize {
        self.shared.active_tasks()
    }

    /// Returns the time since the loop was created.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.shared.started.elapsed()
    }
}
