//! Who takes tasks, and what a call that asks for one can learn.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_bus::{Accepted, Bus, BusError};
use nanobot_session::SessionError;

use super::roster::Announced;
use super::{SubagentEnd, SubagentSettings, SubagentTask, Subagents};

/// Why a task was not taken, or its end not told, in words for the model.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There are too many already.
    #[error("{bound} subagents are at work or waiting already; wait for some of them to finish")]
    Full {
        /// How many there may be.
        bound: usize,
    },
    /// The message store failed.
    #[error("the task could not be stored")]
    Bus(#[from] BusError),
    /// The log of the subagent cannot be read.
    #[error("the subagent's log cannot be read")]
    Session(#[from] SessionError),
}

/// A task was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It is worked on at once.
    Now,
    /// It waits: as many as can work at the same time are at work.
    Waits,
}

/// Takes tasks. A bus is one way, a program without one has [`DirectSpawner`](super::DirectSpawner).
#[async_trait]
pub trait Spawner: Send + Sync + std::fmt::Debug {
    /// The bounds it keeps.
    fn settings(&self) -> &SubagentSettings;

    /// Takes a task. `Ok` means that it will come to an end of which its session is told; a second
    /// task under the same id changes nothing.
    async fn spawn(&self, task: &SubagentTask) -> Result<Started, SpawnError>;

    /// Waits for the end of a task that was taken, also by an earlier process. Cancel-safe.
    async fn end(&self, task: &SubagentTask) -> Result<SubagentEnd, SpawnError>;
}

/// Puts tasks on a bus, whose [`AgentLoop`](crate::AgentLoop) hands them to the same subagents.
#[derive(Debug)]
pub struct BusSpawner {
    bus: Arc<dyn Bus>,
    subagents: Arc<Subagents>,
}

impl BusSpawner {
    /// A spawner over a bus.
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
            // It is there already, and may be done with; or it is not there at all.
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
    /// Announces a task that is about to be taken. `None` when it was taken before.
    pub(super) fn announce(&self, task: &SubagentTask) -> Result<Option<Started>, SpawnError> {
        let SubagentSettings {
            max_concurrent,
            max_unfinished,
            ..
        } = *self.settings();
        match self.roster.announce(task, max_unfinished) {
            Announced::New { ahead } if ahead < max_concurrent.max(1) => Ok(Some(Started::Now)),
            Announced::New { .. } => Ok(Some(Started::Waits)),
            Announced::Known => Ok(None),
            Announced::Refused => Err(SpawnError::Full {
                bound: max_unfinished,
            }),
        }
    }
}
