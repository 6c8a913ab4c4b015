//! State shared between a fake and the test that watches it.
//!
//! Every change is announced on a watch channel, so waiting needs neither sleeps nor polling, and a
//! change made before the wait began is not missed. Waits end after [`WAIT_LIMIT`] of tokio's
//! clock: a test that pauses time must not wait for sockets.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::TestkitError;

/// Time limit of every wait in this crate: much longer than any operation takes on a busy machine.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// A value that a fake changes and a test watches: a mutex with change notification. Clones share
/// the same value.
pub struct Watched<T> {
    inner: Arc<WatchedInner<T>>,
}

struct WatchedInner<T> {
    value: Mutex<T>,
    changed: watch::Sender<()>,
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl<T: Default> Default for Watched<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Watched<T> {
    /// Wraps a value.
    #[must_use]
    pub fn new(value: T) -> Self {
        let changed = watch::Sender::new(());
        Self {
            inner: Arc::new(WatchedInner {
                value: Mutex::new(value),
                changed,
            }),
        }
    }

    /// Reads the value, without announcing a change.
    pub fn read<R>(&self, read_value: impl FnOnce(&T) -> R) -> R {
        read_value(&lock(&self.inner.value))
    }

    /// Changes the value and wakes all waiters.
    pub fn change<R>(&self, apply: impl FnOnce(&mut T) -> R) -> R {
        let result = apply(&mut lock(&self.inner.value));
        self.inner.changed.send_replace(());
        result
    }

    /// Changes the value without waking the waiters, for changes that no one waits for.
    pub fn change_quietly<R>(&self, apply: impl FnOnce(&mut T) -> R) -> R {
        apply(&mut lock(&self.inner.value))
    }

    /// Returns a receiver of change notifications, for loops with their own condition to stop.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.inner.changed.subscribe()
    }

    /// Waits without a time limit until `is_reached` returns `true`.
    pub async fn reached(&self, is_reached: impl Fn(&T) -> bool) {
        let mut changed = self.subscribe();
        while !self.read(&is_reached) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until `probe` returns a value for the watched value.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] naming `what` if the wait times out.
    pub async fn wait_for<R>(
        &self,
        what: &str,
        mut probe: impl FnMut(&T) -> Option<R>,
    ) -> Result<R, TestkitError> {
        let mut changed = self.subscribe();
        let search = async {
            loop {
                if let Some(found) = self.read(&mut probe) {
                    return Some(found);
                }
                if changed.changed().await.is_err() {
                    return None;
                }
            }
        };
        match tokio::time::timeout(WAIT_LIMIT, search).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) | Err(_) => Err(TestkitError::TimedOut {
                what: what.to_owned(),
                limit: WAIT_LIMIT,
            }),
        }
    }
}

/// Locks a mutex, ignoring poisoning: another test thread may have panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
