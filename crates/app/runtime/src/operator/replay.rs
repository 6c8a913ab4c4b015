//! Replay options from a configuration: the tools and the options of turns.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{
    Outbox, OutboxError, SpawnError, Spawner, Started, SubagentEnd, SubagentSettings, SubagentTask,
};
use nanobot_cron::JobHost;
use nanobot_redact::Secrets;
use nanobot_replay::{ReplayOptions, TurnChoice};
use nanobot_types::{OutboundMessage, SessionKey, ToolSpec};

use crate::assembly::assistant::Tools;
use crate::assembly::model_presets::agent_defaults;
use crate::{Runtime, RuntimeError};

/// Returns the options and tools to replay `turns` of a session with. Read-only: chooses no model
/// and creates nothing in the workspace.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the configuration cannot be used, [`RuntimeError::Tools`] if
/// the tools cannot be made.
pub fn replay_options(
    runtime: &Runtime,
    session: SessionKey,
    turns: TurnChoice,
) -> Result<(ReplayOptions, Arc<[ToolSpec]>), RuntimeError> {
    let config = runtime.config();
    let defaults = agent_defaults(config)?;
    let spawner =
        (defaults.max_concurrent_subagents > 0).then(|| Arc::new(NullOutbox) as Arc<dyn Spawner>);
    let registry = Tools::of(
        runtime,
        &config.workspace()?,
        &Secrets::default(),
        JobHost::Other,
    )?
    .for_assistant(Arc::new(NullOutbox), spawner);
    let options = ReplayOptions {
        turns,
        turn_options: defaults.turn_options(),
        ..ReplayOptions::new(session)
    };
    Ok((options, registry.specs()))
}

/// An outbox and spawner that accept nothing: the tools are only described.
#[derive(Debug)]
struct NullOutbox;

#[async_trait]
impl Outbox for NullOutbox {
    async fn enqueue(&self, _: OutboundMessage) -> Result<(), OutboxError> {
        Err(OutboxError::Unreachable(
            "nothing is sent in a replay".to_owned(),
        ))
    }
}

#[async_trait]
impl Spawner for NullOutbox {
    fn settings(&self) -> &SubagentSettings {
        const {
            &SubagentSettings {
                max_concurrent: 1,
                max_unfinished: 0,
                max_chain_length: 0,
            }
        }
    }

    async fn spawn(&self, _: &SubagentTask) -> Result<Started, SpawnError> {
        Err(SpawnError::Full { bound: 0 })
    }

    async fn end(&self, _: &SubagentTask) -> Result<SubagentEnd, SpawnError> {
        Err(SpawnError::Full { bound: 0 })
    }
}
