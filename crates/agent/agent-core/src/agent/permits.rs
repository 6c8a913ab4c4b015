//! The number of turns that run at once.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::{AgentError, Observer, Signal};

/// Admits a limited number of turns at a time.
#[derive(Debug)]
pub(super) struct TurnPermits {
    limit: usize,
    free: Semaphore,
}

impl TurnPermits {
    /// Creates permits for `limit` turns; 0 for no limit.
    pub(super) fn new(limit: usize) -> Self {
        let limit = match limit {
            0 => Semaphore::MAX_PERMITS,
            limit => limit.min(Semaphore::MAX_PERMITS),
        };
        Self {
            limit,
            free: Semaphore::new(limit),
        }
    }

    /// Waits until a further turn may run; the observer learns of the wait. A turn that is stopped
    /// before that goes on without a permit, to its recorded end.
    ///
    /// # Errors
    /// Returns [`AgentError::Interrupted`] if no turn may run any more.
    pub(super) async fn acquire(
        &self,
        observer: &Arc<dyn Observer>,
        cancel: &CancellationToken,
    ) -> Result<Option<SemaphorePermit<'_>>, AgentError> {
        if let Ok(permit) = self.free.try_acquire() {
            return Ok(Some(permit));
        }
        observer.signal(Signal::Notice(format!(
            "{} turns are running, as many as may at once. This one starts as soon as one of them ends.",
            self.limit
        )));
        let acquired = cancel.run_until_cancelled(self.free.acquire()).await;
        acquired
            .transpose()
            .map_err(|_closed| AgentError::Interrupted)
    }
}
