//! What replaying a session takes from a configuration: the tools and how turns are run.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{Outbox, OutboxError, ReplayOptions, TurnChoice};
use nanobot_config::Config;
use nanobot_types::{OutboundMessage, SessionKey, ToolSpec};

use crate::settings::AgentDefaults;
use crate::{RuntimeError, assistant};

/// The options and tools with which `turns` of a session are replayed. Only looks: no model is
/// chosen, nothing is made in the workspace.
///
/// # Errors
/// [`RuntimeError::Config`] and [`RuntimeError::Tools`].
pub fn replay_options(
    config: &Config,
    session: SessionKey,
    turns: TurnChoice,
) -> Result<(ReplayOptions, Arc<[ToolSpec]>), RuntimeError> {
    let defaults: AgentDefaults = config.section("agents.defaults")?;
    let registry = assistant::registry(config, &config.workspace()?, Arc::new(Nowhere))?;
    let options = ReplayOptions { turns, turn_options: defaults.turn_options(), ..ReplayOptions::new(session) };
    Ok((options, registry.specs()))
}

/// Takes no message: the tools are only described.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Outbox for Nowhere {
    async fn put(&self, _: OutboundMessage) -> Result<(), OutboxError> {
        Err(OutboxError::Unreachable("nothing is sent in a replay".to_owned()))
    }
}
