//! The subagents of a running agent, for terminals.

use std::sync::Arc;

use nanobot_agent_core::{Agent, SubagentInfo};
use nanobot_control::{SubagentName, SubagentNames};
use nanobot_types::SessionKey;

/// Lists the subagents of an agent.
#[derive(Debug)]
pub(super) struct AgentSubagents(pub(super) Arc<Agent>);

impl SubagentNames for AgentSubagents {
    fn of_session(&self, session: &SessionKey) -> Vec<SubagentName> {
        let subagents = self.0.subagents();
        let infos = subagents.map(|subagents| subagents.of_session(session));
        infos.into_iter().flatten().map(name_of).collect()
    }
}

/// Returns a subagent as terminals name it.
pub(crate) fn name_of(info: SubagentInfo) -> SubagentName {
    SubagentName {
        id: info.id,
        label: info.label,
    }
}
