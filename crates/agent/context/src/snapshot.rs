//! Keeps one prompt per session until there is a reason to rebuild it.
//!
//! The requests of a session start with its kept prompt. The prompt is discarded when a caller asks
//! for it, when the conversation starts at another position, when the audience changes, when the
//! session was silent so long that no provider caches it any more, or when the settings have
//! changed. Prompts evicted in favour of other sessions are restored from the store. Equal prompts
//! share one allocation across sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_types::SessionKey;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::prompt::Section;
use crate::{Digest, Renewal, SessionFacts, SystemPrompt, recall};

/// In-memory snapshots of prompts, bounded by evicting the least recently used.
#[derive(Debug)]
pub(crate) struct Snapshots {
    capacity: usize,
    cold_after: Duration,
    /// Digest of the current settings.
    settings: Digest,
    prompts: Mutex<HashMap<SessionKey, PromptSnapshot>>,
}

#[derive(Debug)]
struct PromptSnapshot {
    prompt: Arc<SystemPrompt>,
    /// Digest of the settings the prompt was built for.
    settings: u64,
    /// Position at which the conversation started when the prompt was built.
    cursor: Option<u64>,
    used: Instant,
    expired: bool,
}

/// Result of looking up the prompt of a session.
#[derive(Debug)]
pub(crate) enum SnapshotLookup {
    /// A prompt that is still valid.
    Warm(Arc<SystemPrompt>),
    /// A prompt that is outdated, and the reason.
    Stale(Arc<SystemPrompt>, Renewal),
    /// No prompt is kept.
    Nothing,
}

impl Snapshots {
    pub(crate) fn new(capacity: usize, cold_after: Duration, settings: Digest) -> Self {
        Self {
            capacity: capacity.max(1),
            cold_after,
            settings,
            prompts: Mutex::default(),
        }
    }

    /// Looks up the prompt of a session; a valid one counts as used now.
    pub(crate) fn find(&self, session: &SessionKey, facts: SessionFacts<'_>) -> SnapshotLookup {
        let mut prompts = self.lock();
        let Some(entry) = prompts.get_mut(session) else {
            return SnapshotLookup::Nothing;
        };
        match self.outdated(entry, facts) {
            Some(why) => SnapshotLookup::Stale(Arc::clone(&entry.prompt), why),
            None => {
                entry.used = Instant::now();
                SnapshotLookup::Warm(Arc::clone(&entry.prompt))
            }
        }
    }

    /// Returns the reason why a kept prompt must be rebuilt, if there is one.
    fn outdated(&self, entry: &PromptSnapshot, facts: SessionFacts<'_>) -> Option<Renewal> {
        if entry.settings != self.settings.value() {
            Some(Renewal::Settings)
        } else if facts.cursor.is_some() && entry.cursor.is_some() && facts.cursor != entry.cursor {
            Some(Renewal::Moved)
        } else if facts
            .audience
            .is_some_and(|audience| !recall::is_for(&entry.prompt, audience))
        {
            Some(Renewal::Audience)
        } else if entry.expired {
            Some(Renewal::Asked)
        } else if entry.used.elapsed().max(facts.silent) >= self.cold_after {
            Some(Renewal::Cold)
        } else {
            None
        }
    }

    /// Marks the prompt of a session as outdated, so that the next one is rebuilt.
    pub(crate) fn expire(&self, session: &SessionKey) {
        if let Some(entry) = self.lock().get_mut(session) {
            entry.expired = true;
        }
    }

    /// Restores a saved prompt, written by an earlier process or by this one before the prompt was
    /// evicted. Ignores data that cannot be read, and a session that already has a prompt.
    pub(crate) fn restore(&self, session: &SessionKey, saved: &[u8]) {
        let Some(saved) = StoredPrompt::read(session, saved) else {
            return;
        };
        let prompt = SystemPrompt::of(saved.sections);
        let entry = |prompt| PromptSnapshot {
            prompt,
            settings: saved.settings,
            cursor: saved.cursor,
            used: Instant::now(),
            expired: false,
        };
        let mut prompts = self.lock();
        if !prompts.contains_key(session) {
            let prompt = shared(&prompts, prompt);
            self.insert(&mut prompts, session, entry(prompt));
        }
    }

    /// Keeps a new prompt for a session. Returns the prompt to use: an existing equal one if there
    /// is one, or the one that a concurrent turn of the session has kept meanwhile.
    pub(crate) fn store(
        &self,
        session: &SessionKey,
        built: SystemPrompt,
        facts: SessionFacts<'_>,
    ) -> Arc<SystemPrompt> {
        let mut prompts = self.lock();
        if let Some(entry) = prompts
            .get(session)
            .filter(|entry| self.outdated(entry, facts).is_none())
        {
            return Arc::clone(&entry.prompt);
        }
        let prompt = shared(&prompts, built);
        let cursor = facts
            .cursor
            .or_else(|| prompts.get(session).and_then(|entry| entry.cursor));
        let settings = self.settings.value();
        let entry = PromptSnapshot {
            prompt: Arc::clone(&prompt),
            settings,
            cursor,
            used: Instant::now(),
            expired: false,
        };
        self.insert(&mut prompts, session, entry);
        prompt
    }

    fn insert(
        &self,
        prompts: &mut HashMap<SessionKey, PromptSnapshot>,
        session: &SessionKey,
        entry: PromptSnapshot,
    ) {
        prompts.insert(session.clone(), entry);
        if prompts.len() > self.capacity {
            let oldest = prompts
                .iter()
                .min_by_key(|(_, entry)| entry.used)
                .map(|(session, _)| session.clone());
            oldest.and_then(|session| prompts.remove(&session));
        }
    }

    /// Serializes the prompt of a session for the store; `None` if none is kept.
    pub(crate) fn serialized(&self, session: &SessionKey) -> Option<Vec<u8>> {
        let prompts = self.lock();
        let entry = prompts.get(session)?;
        let saved = StoredPrompt {
            session: session.clone(),
            settings: entry.settings,
            cursor: entry.cursor,
            sections: entry.prompt.to_sections(),
        };
        serde_json::to_vec(&saved).ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, PromptSnapshot>> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an equal prompt that is already kept, or wraps this one.
fn shared(
    prompts: &HashMap<SessionKey, PromptSnapshot>,
    prompt: SystemPrompt,
) -> Arc<SystemPrompt> {
    let equal = prompts
        .values()
        .find(|entry| *entry.prompt == prompt)
        .map(|entry| Arc::clone(&entry.prompt));
    equal.unwrap_or_else(|| Arc::new(prompt))
}

/// Stored form of a prompt.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPrompt {
    session: SessionKey,
    settings: u64,
    cursor: Option<u64>,
    sections: Vec<Section>,
}

impl StoredPrompt {
    fn read(session: &SessionKey, bytes: &[u8]) -> Option<Self> {
        match serde_json::from_slice::<Self>(bytes) {
            Ok(saved) if saved.session == *session => Some(saved),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%session, %error, "cannot parse the saved prompt of a session; building a new one");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrozenPart;

    const MINUTE: Duration = Duration::from_secs(60);

    fn prompt(text: &str) -> SystemPrompt {
        FrozenPart::new().section("identity", text).epoch().finish()
    }

    fn snapshots(capacity: usize) -> Snapshots {
        Snapshots::new(capacity, MINUTE, Digest::of("settings"))
    }

    fn at(cursor: u64) -> SessionFacts<'static> {
        SessionFacts {
            cursor: Some(cursor),
            silent: Duration::ZERO,
            ..SessionFacts::default()
        }
    }

    fn outcome(snapshots: &Snapshots, session: &str, facts: SessionFacts<'_>) -> Option<Renewal> {
        match snapshots.find(&session.into(), facts) {
            SnapshotLookup::Warm(_) => None,
            SnapshotLookup::Stale(_, why) => Some(why),
            SnapshotLookup::Nothing => Some(Renewal::Unknown),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn evicts_the_least_recently_used_prompt() {
        let snapshots = snapshots(2);
        for (session, text) in [("a", "one"), ("b", "two")] {
            snapshots.store(&session.into(), prompt(text), at(0));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(outcome(&snapshots, "a", at(0)), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        snapshots.store(&"c".into(), prompt("three"), at(0));
        let found = ["a", "b", "c"].map(|session| outcome(&snapshots, session, at(0)));
        assert_eq!(found, [None, Some(Renewal::Unknown), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn epochs_end_for_a_reason_and_equal_prompts_are_shared() {
        let snapshots = snapshots(8);
        let first = snapshots.store(&"a".into(), prompt("one"), at(0));
        let meanwhile = prompt("of a turn at the same moment");
        assert!(Arc::ptr_eq(
            &first,
            &snapshots.store(&"a".into(), meanwhile, at(0))
        ));
        assert!(Arc::ptr_eq(
            &first,
            &snapshots.store(&"b".into(), prompt("one"), at(0))
        ));

        tokio::time::advance(MINUTE - Duration::from_secs(1)).await;
        assert_eq!(outcome(&snapshots, "a", at(0)), None);
        tokio::time::advance(MINUTE - Duration::from_secs(1)).await;
        assert_eq!(
            outcome(&snapshots, "a", SessionFacts::default()),
            None,
            "use keeps it warm"
        );
        assert_eq!(outcome(&snapshots, "b", at(0)), Some(Renewal::Cold));
        let slept = SessionFacts {
            silent: MINUTE,
            ..at(0)
        };
        assert_eq!(
            outcome(&snapshots, "a", slept),
            Some(Renewal::Cold),
            "the monotonic clock may stop while a machine sleeps"
        );
        assert_eq!(outcome(&snapshots, "a", at(7)), Some(Renewal::Moved));

        snapshots.expire(&"a".into());
        assert_eq!(outcome(&snapshots, "a", at(0)), Some(Renewal::Asked));
        assert!(Arc::ptr_eq(
            &first,
            &snapshots.store(&"a".into(), prompt("one"), at(7))
        ));
        assert_eq!(outcome(&snapshots, "a", at(7)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn saved_prompt_round_trips() {
        let before = snapshots(8);
        let key = SessionKey::from("a");
        let stored = before.store(&key, prompt("one"), at(3));
        let saved = before.serialized(&key).unwrap();

        let after = snapshots(8);
        after.restore(&key, b"{\"half\":");
        after.restore(&"b".into(), &saved);
        assert_eq!(
            ["a", "b"].map(|session| outcome(&after, session, at(3))),
            [Some(Renewal::Unknown); 2]
        );
        after.restore(&key, &saved);
        assert!(matches!(after.find(&key, at(3)), SnapshotLookup::Warm(again) if again == stored));
        assert_eq!(outcome(&after, "a", at(4)), Some(Renewal::Moved));
        assert_eq!(
            outcome(
                &after,
                "a",
                SessionFacts {
                    silent: MINUTE,
                    ..at(3)
                }
            ),
            Some(Renewal::Cold)
        );

        let elsewhere = Snapshots::new(8, MINUTE, Digest::of("other settings"));
        elsewhere.restore(&key, &saved);
        assert_eq!(outcome(&elsewhere, "a", at(3)), Some(Renewal::Settings));
    }
}
