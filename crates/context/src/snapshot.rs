//! One prompt per session, kept until there is a reason to build it anew.
//!
//! A kept prompt is what the session's requests begin with. It is given up when the session asks
//! for it, when it has been silent so long that no vendor remembers it, or when there are too
//! many; and equal prompts are one allocation, whatever number of sessions uses them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_types::SessionKey;
use tokio::time::Instant;

use crate::{Difference, SystemPrompt};

#[derive(Debug)]
pub(crate) struct Snapshots {
    capacity: usize,
    cold_after: Duration,
    kept: Mutex<HashMap<SessionKey, Kept>>,
}

#[derive(Debug)]
struct Kept {
    prompt: Arc<SystemPrompt>,
    used: Instant,
    expired: bool,
}

impl Snapshots {
    pub(crate) fn new(capacity: usize, cold_after: Duration) -> Self {
        Self { capacity: capacity.max(1), cold_after, kept: Mutex::default() }
    }

    /// The prompt of a session if it is to be used again.
    pub(crate) fn warm(&self, session: &SessionKey) -> Option<Arc<SystemPrompt>> {
        let mut kept = self.lock();
        let entry = kept.get_mut(session).filter(|entry| self.is_warm(entry))?;
        entry.used = Instant::now();
        Some(Arc::clone(&entry.prompt))
    }

    /// Has the next prompt of a session built anew.
    pub(crate) fn expire(&self, session: &SessionKey) {
        if let Some(entry) = self.lock().get_mut(session) {
            entry.expired = true;
        }
    }

    /// Keeps a new prompt for a session. Returns the one that is kept: an equal older one where
    /// there is one, or what a turn at the same moment has kept meanwhile.
    pub(crate) fn keep(&self, session: &SessionKey, built: SystemPrompt) -> Arc<SystemPrompt> {
        let mut kept = self.lock();
        if let Some(entry) = kept.get(session) {
            if self.is_warm(entry) {
                return Arc::clone(&entry.prompt);
            }
            if let Some(Difference { section, byte }) = built.difference(&entry.prompt) {
                tracing::info!(%session, section, byte, "the prompt of a session was renewed");
            }
        }
        let equal = kept.values().find(|entry| *entry.prompt == built).map(|entry| Arc::clone(&entry.prompt));
        let prompt = equal.unwrap_or_else(|| Arc::new(built));
        let entry = Kept { prompt: Arc::clone(&prompt), used: Instant::now(), expired: false };
        kept.insert(session.clone(), entry);
        if kept.len() > self.capacity {
            let oldest = kept.iter().min_by_key(|(_, entry)| entry.used).map(|(session, _)| session.clone());
            oldest.and_then(|session| kept.remove(&session));
        }
        prompt
    }

    fn is_warm(&self, entry: &Kept) -> bool {
        !entry.expired && entry.used.elapsed() < self.cold_after
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrozenPart;

    fn prompt(text: &str) -> SystemPrompt {
        FrozenPart::new().section("identity", text).epoch().finish()
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_recently_used_prompt_goes_first() {
        let snapshots = Snapshots::new(2, Duration::from_secs(60));
        for (session, text) in [("a", "one"), ("b", "two")] {
            snapshots.keep(&session.into(), prompt(text));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(snapshots.warm(&"a".into()).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        snapshots.keep(&"c".into(), prompt("three"));
        let warm = ["a", "b", "c"].map(|session| snapshots.warm(&session.into()).is_some());
        assert_eq!(warm, [true, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_and_expiry_end_an_epoch_and_equal_prompts_are_shared() {
        let snapshots = Snapshots::new(8, Duration::from_secs(60));
        let first = snapshots.keep(&"a".into(), prompt("one"));
        assert!(Arc::ptr_eq(&first, &snapshots.keep(&"a".into(), prompt("of a turn at the same moment"))));
        assert!(Arc::ptr_eq(&first, &snapshots.keep(&"b".into(), prompt("one"))));

        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(snapshots.warm(&"a".into()).is_some());
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(snapshots.warm(&"a".into()).is_some(), "use keeps it warm");
        assert!(snapshots.warm(&"b".into()).is_none());

        snapshots.expire(&"a".into());
        assert!(snapshots.warm(&"a".into()).is_none());
        assert!(Arc::ptr_eq(&first, &snapshots.keep(&"a".into(), prompt("one"))));
        assert!(snapshots.warm(&"a".into()).is_some());
    }
}
