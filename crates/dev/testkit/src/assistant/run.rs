//! Runs a channel with an assistant played by a test.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nanobot_channel::{
    CancellationToken, Channel, ChannelContext, ChannelError, CommandInfo, Semaphore, TaskTracker,
};
use tokio::task::JoinHandle;

use super::Assistant;
use crate::WAIT_LIMIT;
use crate::notes::NoteBook;

/// Maximum time that a channel may take to stop on a busy machine, shorter than any poll that it
/// could wait for.
const STOP_WITHIN: Duration = Duration::from_secs(40);

impl Assistant {
    /// Returns the context of a run without commands, which nothing cancels.
    #[must_use]
    pub fn context(self: &Arc<Self>) -> ChannelContext {
        ChannelContext {
            access: Arc::<Self>::clone(self),
            intake: Arc::<Self>::clone(self),
            progress: Arc::<Self>::clone(self),
            media: Arc::<Self>::clone(self),
            notes: Arc::<NoteBook>::clone(self.notes()),
            transcriber: Some(Arc::<Self>::clone(self)),
            commands: Arc::default(),
            suspects: Arc::new(Semaphore::new(1)),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
        }
    }
}

/// A run of a channel.
#[derive(Debug)]
pub struct ChannelRun {
    cancel: CancellationToken,
    run: JoinHandle<Result<(), ChannelError>>,
}

impl ChannelRun {
    /// Starts a channel with an assistant that understands these commands.
    #[must_use]
    pub fn start(
        channel: Arc<dyn Channel>,
        assistant: &Arc<Assistant>,
        commands: &[CommandInfo],
    ) -> Self {
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let context = ChannelContext {
            commands: commands.into(),
            tasks: tasks.clone(),
            cancel: cancel.clone(),
            ..assistant.context()
        };
        let run = tasks.spawn(async move { channel.run(context).await });
        Self { cancel, run }
    }

    /// Stops the channel and waits for its end.
    ///
    /// # Errors
    /// Returns an error if the channel took longer than 40 s, panicked, or ended with an error.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.cancel.cancel();
        let ended = tokio::time::timeout(STOP_WITHIN, self.run)
            .await
            .context("the channel does not stop")?;
        Ok(ended??)
    }

    /// Waits for the end of a run that was not stopped, and returns its error.
    ///
    /// # Errors
    /// Returns an error if the run did not end within [`WAIT_LIMIT`], panicked, or ended without an
    /// error.
    pub async fn end(self) -> anyhow::Result<ChannelError> {
        match tokio::time::timeout(WAIT_LIMIT, self.run)
            .await
            .context("the channel runs on")??
        {
            Ok(()) => bail!("the channel stopped though nobody told it to"),
            Err(error) => Ok(error),
        }
    }
}
