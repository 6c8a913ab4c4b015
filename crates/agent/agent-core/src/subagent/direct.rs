//! Subagents of a program without a bus: they run inside the program and end with it.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use nanobot_session::TurnOutcome;
use nanobot_types::{InboundMessage, SessionKey};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::AgentError;
use crate::evidence::TurnSteps;

use super::{SpawnError, Spawner, Started, SubagentEnd, SubagentSettings, SubagentTask, Subagents};

/// Runs subagents as tasks of this process. Dropping it interrupts unfinished tasks.
#[derive(Debug)]
pub struct DirectSpawner {
    subagents: Arc<Subagents>,
    running: TaskTracker,
    results: Arc<Mutex<VecDeque<InboundMessage>>>,
    end: CancellationToken,
}

impl DirectSpawner {
    /// Creates a spawner that runs `subagents`.
    #[must_use]
    pub fn new(subagents: Arc<Subagents>) -> Self {
        Self {
            subagents,
            running: TaskTracker::new(),
            results: Arc::default(),
            end: CancellationToken::new(),
        }
    }

    /// Returns `true` while a subagent of `session` is unfinished or has a result to be answered.
    #[must_use]
    pub fn has_more(&self, session: &SessionKey) -> bool {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        !self.subagents.of_session(session).is_empty()
            || results
                .iter()
                .any(|result| result.session_key() == *session)
    }

    /// Waits for the next result that `session` has to answer. Returns `None` once none of its
    /// subagents is unfinished. The caller must answer a result in that session before it asks for
    /// the next one. Cancel-safe.
    pub async fn next_result(&self, session: &SessionKey) -> Option<InboundMessage> {
        let mut changes = self.subagents.roster.watch();
        loop {
            // Check this before taking a result: a result is queued before its subagent leaves the
            // roster.
            let is_idle = self.subagents.of_session(session).is_empty();
            if let Some(result) = self.take(session) {
                return Some(result);
            }
            if is_idle || changes.changed().await.is_err() {
                return None;
            }
        }
    }

    fn take(&self, session: &SessionKey) -> Option<InboundMessage> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let place = results
            .iter()
            .position(|result| result.session_key() == *session)?;
        results.remove(place)
    }
}

impl Drop for DirectSpawner {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

#[async_trait]
impl Spawner for DirectSpawner {
    fn settings(&self) -> &SubagentSettings {
        self.subagents.settings()
    }

    async fn spawn(&self, task: &SubagentTask) -> Result<Started, SpawnError> {
        let Some(started) = self.subagents.announce(task)? else {
            return Ok(Started::Now);
        };
        let (subagents, results, task, end) = (
            self.subagents.clone(),
            self.results.clone(),
            task.clone(),
            self.end.clone(),
        );
        self.running.spawn(async move {
            let stopped = subagents.accept(&task);
            let work = AssertUnwindSafe(run(&subagents, &task, &stopped, &end))
                .catch_unwind()
                .await;
            let ended = match work {
                Ok(Ok(ended)) => ended,
                Ok(Err(error)) => failed(format!("its work could not be recorded: {error}")),
                Err(_panic) => failed("an internal failure ended it".to_owned()),
            };
            if subagents.is_awaited(&task) {
                let result = subagents.result(&task, ended).await;
                results
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_back(result);
            }
            subagents.answered(&task.id);
        });
        Ok(started)
    }

    async fn end(&self, task: &SubagentTask) -> Result<SubagentEnd, SpawnError> {
        let removed = async {
            let mut changes = self.subagents.roster.watch();
            while self.subagents.roster.contains(&task.id) && changes.changed().await.is_ok() {}
        };
        tokio::select! {
            end = self.subagents.wait_for_end(task) => Ok(end?),
            () = removed => {
                let end = self.subagents.end_of(task).await?;
                Ok(end.unwrap_or_else(|| failed("its work could not be recorded".to_owned())))
            }
        }
    }
}

async fn run(
    subagents: &Subagents,
    task: &SubagentTask,
    stopped: &CancellationToken,
    end: &CancellationToken,
) -> Result<SubagentEnd, AgentError> {
    match subagents.acquire_slot(stopped, end).await {
        None => Err(AgentError::Interrupted),
        Some(None) => subagents.conclude(task, TurnOutcome::Stopped, None).await,
        Some(Some(_seat)) => subagents.run_task(task, end, TurnSteps::default()).await,
    }
}

fn failed(why: String) -> SubagentEnd {
    SubagentEnd {
        outcome: TurnOutcome::Failed,
        text: Some(why),
    }
}
