//! Work beside receiving: reactions, drafts, answers to presses.
//!
//! Decision: it lives as long as the run of the channel and on the run's own tracker, so that
//! stopping a channel stops all of it. Without a run it is not done at all.

use std::sync::{Mutex, PoisonError};

use nanobot_channel::{CancellationToken, ChannelContext, ChannelError, TaskTracker};

/// Where work beside receiving is done while a channel runs.
#[derive(Debug, Default)]
pub struct Background(Mutex<Option<Tasks>>);

#[derive(Clone, Debug)]
struct Tasks {
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl Background {
    /// Runs a channel: `receive`, until it ends or the run is cancelled, and meanwhile what is
    /// [spawned](Self::spawn) here.
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

    /// Does something without waiting for it, while the channel runs. Otherwise it is not done.
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

    /// Whether the channel runs.
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
