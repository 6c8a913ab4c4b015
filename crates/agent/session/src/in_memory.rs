//! Sessions in memory, for tests and for programs that persist nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use nanobot_types::SessionKey;

use crate::state::SessionState;
use crate::{Entry, ReadFrom, Record, Seq, SessionError, SessionInfo, SessionStore, SessionView};

/// Sessions in memory. They are lost with the process; otherwise the store keeps the contract.
#[derive(Debug, Default)]
pub struct InMemoryStore {
    sessions: Mutex<HashMap<SessionKey, StoredSession>>,
}

#[derive(Debug, Default)]
struct StoredSession {
    head: Seq,
    state: SessionState,
    records: Vec<Record>,
}

impl InMemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionKey, StoredSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionStore for InMemoryStore {
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        let mut sessions = self.sessions();
        let actual = sessions.get(key).map_or(Seq(0), |session| session.head);
        if head != actual {
            return Err(SessionError::Moved {
                key: key.clone(),
                expected: head,
                actual,
            });
        }
        if entries.is_empty() {
            return Ok(head);
        }
        let session = sessions.entry(key.clone()).or_default();
        session.state.touch(chrono::Local::now().fixed_offset());
        for entry in entries {
            session.state.apply(&entry, session.head);
            let seq = session.head;
            if matches!(entry, Entry::Message(_)) {
                session.head = seq.next();
            }
            session.records.push(Record { seq, entry });
        }
        Ok(session.head)
    }

    async fn read(&self, key: &SessionKey, wanted: ReadFrom) -> Result<SessionView, SessionError> {
        let sessions = self.sessions();
        let Some(session) = sessions.get(key) else {
            return Ok(SessionView::default());
        };
        let from = match wanted {
            ReadFrom::Cursor => session.state.cursor,
            ReadFrom::Seq(seq) | ReadFrom::Range { from: seq, .. } => seq,
        };
        let wanted = |record: &&Record| match wanted {
            ReadFrom::Range { upto, .. } => {
                record.seq < upto || matches!(record.entry, Entry::Rewound { .. } | Entry::Restored)
            }
            ReadFrom::Cursor | ReadFrom::Seq(_) => true,
        };
        let first = session.records.partition_point(|record| record.seq < from);
        Ok(SessionView {
            head: session.head,
            cursor: session.state.cursor,
            metadata: session.state.metadata.clone(),
            answered: session.state.answered_ids(),
            records: session
                .records
                .iter()
                .skip(first)
                .filter(wanted)
                .cloned()
                .collect(),
        })
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        let mut list: Vec<SessionInfo> = self
            .sessions()
            .iter()
            .map(|(key, session)| SessionInfo {
                key: key.clone(),
                created_at: session.state.created_at,
                updated_at: session.state.updated_at,
                messages: session.head.0,
                metadata: session.state.metadata.clone(),
            })
            .collect();
        list.sort_by(|a, b| {
            b.updated_at
                .cmp(&a.updated_at)
                .then_with(|| a.key.cmp(&b.key))
        });
        Ok(list)
    }
}
