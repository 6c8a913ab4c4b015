//! Per-session locks within this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nanobot_types::SessionKey;
use tokio::sync::OwnedMutexGuard;

/// A lock per session, created on demand and dropped once no task holds it or waits for it.
#[derive(Debug, Default)]
pub(crate) struct KeyedLocks {
    locks: Mutex<HashMap<SessionKey, Weak<tokio::sync::Mutex<()>>>>,
}

impl KeyedLocks {
    /// Locks `session`. Waiters get the lock in the order in which they asked.
    pub(crate) async fn lock(&self, session: &SessionKey) -> OwnedMutexGuard<()> {
        self.of(session).lock_owned().await
    }

    /// Locks `session` if no task holds it or waits for it.
    pub(crate) fn try_lock(&self, session: &SessionKey) -> Option<OwnedMutexGuard<()>> {
        self.of(session).try_lock_owned().ok()
    }

    fn of(&self, session: &SessionKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(session).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(session.clone(), Arc::downgrade(&lock));
        lock
    }
}
