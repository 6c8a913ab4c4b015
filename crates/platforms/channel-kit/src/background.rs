//! Work that runs concurrently with receiving: reactions, drafts, responses to buttons.
//!
//! Decision: work runs on the tracker of a run and is cancelled with it, so that stopping a channel
//! stops all of it. Without a run it is dropped.

use std::sync::{Mutex, PoisonError};

use nanobot_channel::{CancellationToken, ChannelContext, ChannelError, TaskTracker};

/// Spawns work while a channel runs.
#[derive(Debug, Default)]
pub struct BackgroundWork(Mutex<Option<Tasks>>);

#[derive(Clone, Debug)]
struct Tasks {
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl BackgroundWork {
    /// Runs `receive` until it ends or the run is cancelled; until then, work can be
    /// [spawned](Self::spawn).
    ///
    /// # Errors
    /// Those of `receive`.
    pub async fn during(
        &self,
        context: &ChannelContext,
        receive: impl Future<Output = Result<(), ChannelError>> + Send,
    ) -> Result<(), ChannelError> {
        self.set(Some(Tasks {
            tracker: context.tasks.clone(),
            cancel: context.cancel.clone(),
        }));
        let outcome = context.cancel.run_until_cancelled(Box::pin(receive)).await;
        self.set(None);
        outcome.unwrap_or(Ok(()))
    }

    /// Spawns work if the channel runs; drops it otherwise.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let tasks = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(Tasks { tracker, cancel }) = tasks {
            tracker.spawn(async move { cancel.run_until_cancelled(work).await });
        }
    }

    /// `true` if the channel runs.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    fn set(&self, tasks: Option<Tasks>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
    }
}
