//! The subagents of a conversation at a terminal.

use nanobot_control::{ControlClient, ControlError, SubagentName};

use super::{Terminal, TerminalPeer};
use crate::control_socket;

impl Terminal {
    /// Returns the ids of the unfinished subagents of this conversation with their labels; none if
    /// the gateway does not say.
    pub async fn subagents(&self) -> Vec<(String, String)> {
        match &self.peer {
            TerminalPeer::Own(own) => {
                let infos = own.subagents().into_iter();
                infos.map(|info| (info.id, info.label)).collect()
            }
            TerminalPeer::Gateway(_) => match self.subagents_of_gateway().await {
                Ok(names) => {
                    let names = names.into_iter();
                    names.map(|name| (name.id, name.label)).collect()
                }
                Err(error) => {
                    tracing::debug!(%error, "could not list the subagents");
                    Vec::new()
                }
            },
            TerminalPeer::Nobody => Vec::new(),
        }
    }

    async fn subagents_of_gateway(&self) -> Result<Vec<SubagentName>, ControlError> {
        let socket = control_socket(self.runtime.config());
        let client = ControlClient::reach(&socket).await?;
        client.subagents(&self.options.session).await
    }
}
