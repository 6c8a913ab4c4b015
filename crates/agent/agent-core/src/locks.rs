//! One owner per session inside this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nanobot_types::SessionKey;
use tokio::sync::OwnedMutexGuard;

/// A lock per session, made when it is wanted and forgotten when nobody holds or waits for it.
#[derive(Debug, Default)]
pub(crate) struct KeyedLocks {
    locks: Mutex<HashMap<SessionKey, Weak<tokio::sync::Mutex<()>>>>,
}

impl KeyedLocks {
    /// Waits for the session, first come, first served.
    pub(crate) async fn lock(&self, session: &SessionKey) -> OwnedMutexGuard<()> {
        self.of(session).lock_owned().await
    }

    /// The session, if nobody holds it or waits for it.
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
