//! Maximum number of concurrent requests per provider.

use std::collections::HashMap;

use nanobot_types::ProviderName;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The limits of all providers that have one.
#[derive(Debug, Default)]
pub(super) struct ConcurrencyLimits(HashMap<ProviderName, Semaphore>);

impl ConcurrencyLimits {
    /// Sets a limit; 0 removes it.
    pub(super) fn set(&mut self, provider: ProviderName, limit: usize) {
        match limit {
            0 => self.0.remove(&provider),
            limit => self
                .0
                .insert(provider, Semaphore::new(limit.min(Semaphore::MAX_PERMITS))),
        };
    }

    /// Waits until a request may be sent; calls `waiting` first if it may not be sent at once.
    /// Requests are admitted in order of arrival. `None` if the provider has no limit.
    pub(super) async fn admit(
        &self,
        provider: &ProviderName,
        waiting: impl FnOnce(),
    ) -> Option<SemaphorePermit<'_>> {
        let limit = self.0.get(provider)?;
        if let Ok(permit) = limit.try_acquire() {
            return Some(permit);
        }
        waiting();
        // Never closed.
        limit.acquire().await.ok()
    }
}
