//! A program that is killed, simulated by a runtime that is shut down in the middle of its work.

use anyhow::Context as _;
use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime that a case kills.
pub(super) struct Doomed(Option<Runtime>);

impl Doomed {
    pub(super) fn new() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        Ok(Self(Some(runtime.context("a runtime of its own")?)))
    }

    pub(super) fn handle(&self) -> anyhow::Result<&Handle> {
        self.0
            .as_ref()
            .map(Runtime::handle)
            .context("it lives no more")
    }

    /// Cancels every task at its next await point and returns when all have ended.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        let runtime = self.0.take().context("it lives no more")?;
        Ok(
            tokio::task::spawn_blocking(move || runtime.shutdown_timeout(crate::WAIT_LIMIT))
                .await?,
        )
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
