//! Accepts tasks for subagents, and lets the calling tool wait for their ends.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_bus::{Accepted, Bus, BusError};
use nanobot_session::SessionError;

use super::roster::Announced;
use super::{SubagentEnd, SubagentSettings, SubagentTask, Subagents};

/// The reason why a task was not accepted or its end is unknown, worded for the model.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There are too many subagents already.
    #[error("{bound} subagents are at work or waiting already; wait for some of them to finish")]
    Full {
        /// Maximum number of unfinished subagents.
        bound: usize,
    },
    /// The message store failed.
    #[error("the task could not be stored")]
    Bus(#[from] BusError),
    /// The log of the subagent could not be read.
    #[error("the subagent's log cannot be read")]
    Session(#[from] SessionError),
}

/// The state of a task that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The task starts at once.
    Now,
    /// The task waits until one of the running subagents is done.
    Queued,
}

/// Accepts tasks. One implementation uses a bus; a program without one has
/// [`DirectSpawner`](super::DirectSpawner).
#[async_trait]
pub trait Spawner: Send + Sync + std::fmt::Debug {
    /// Returns the limits it enforces.
    fn settings(&self) -> &SubagentSettings;

    /// Accepts a task. `Ok` means that the task will end and that its session will get the result.
    /// A second task under the same id has no effect.
    async fn spawn(&self, task: &SubagentTask) -> Result<Started, SpawnError>;

    /// Waits for the end of an accepted task, including one that an earlier process accepted.
    /// Cancel-safe.
    async fn end(&self, task: &SubagentTask) -> Result<SubagentEnd, SpawnError>;
}

/// Publishes tasks on a bus, whose [`AgentLoop`](crate::AgentLoop) gives them to the same
/// subagents.
#[derive(Debug)]
pub struct BusSpawner {
    bus: Arc<dyn Bus>,
    subagents: Arc<Subagents>,
}

impl BusSpawner {
    /// Creates a spawner over a bus.
    #[must_use]
    pub fn new(bus: Arc<dyn Bus>, subagents: Arc<Subagents>) -> Self {
        Self { bus, subagents }
    }
}

#[async_trait]
impl Spawner for BusSpawner {
    fn settings(&self) -> &SubagentSettings {
        self.subagents.settings()
    }

    async fn spawn(&self, task: &SubagentTask) -> Result<Started, SpawnError> {
        let announced = self.subagents.announce(task)?;
        let accepted = self.bus.publish_inbound(task.message()).await;
        if announced.is_some() && !matches!(accepted, Ok(Accepted::New)) {
            // Either an earlier delivery owns the task, which may even be finished, or publishing
            // failed.
            self.subagents.roster.withdraw(&task.id);
        }
        accepted?;
        Ok(announced.unwrap_or(Started::Now))
    }

    async fn end(&self, task: &SubagentTask) -> Result<SubagentEnd, SpawnError> {
        Ok(self.subagents.wait_for_end(task).await?)
    }
}

impl Subagents {
    /// Announces a task that is about to be accepted. Returns `None` if it was accepted before.
    pub(super) fn announce(&self, task: &SubagentTask) -> Result<Option<Started>, SpawnError> {
        let SubagentSettings {
            max_concurrent,
            max_unfinished,
            ..
        } = *self.settings();
        match self.roster.announce(task, max_unfinished) {
            Announced::New { ahead } if ahead < max_concurrent.max(1) => Ok(Some(Started::Now)),
            Announced::New { .. } => Ok(Some(Started::Queued)),
            Announced::Known => Ok(None),
            Announced::Refused => Err(SpawnError::Full {
                bound: max_unfinished,
            }),
        }
    }
}
