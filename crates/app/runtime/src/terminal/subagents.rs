//! The subagents of a conversation at a terminal.

use nanobot_control::{ControlClient, ControlError, SubagentName};

use super::{Terminal, TerminalPeer};
use crate::control_socket;
use crate::gateway::subagents::name_of;

impl Terminal {
    /// Returns the unfinished subagents of this conversation; none if the gateway does not say.
    pub async fn subagents(&self) -> Vec<SubagentName> {
        match &self.peer {
            TerminalPeer::Own(own) => own.subagents().into_iter().map(name_of).collect(),
            TerminalPeer::Gateway(_) => self.subagents_of_gateway().await.unwrap_or_else(|error| {
                tracing::debug!(%error, "could not list the subagents");
                Vec::new()
            }),
            TerminalPeer::Nobody => Vec::new(),
        }
    }

    async fn subagents_of_gateway(&self) -> Result<Vec<SubagentName>, ControlError> {
        let socket = control_socket(self.runtime.config());
        let client = ControlClient::reach(&socket).await?;
        client.subagents(&self.options.session).await
    }
}
