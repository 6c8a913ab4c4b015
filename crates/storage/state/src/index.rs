//! Search over memory and conversations.
//!
//! Decision: the index is a file of its own next to the state database, and only a cache. It may be
//! deleted at any time, and a damaged one or one of another version is recreated. It is not
//! notified of changes: a search first compares the files' stamps and reads what is new, and of
//! files that only grew only the new part. So it is correct whichever program wrote the files, and
//! costs nothing until there is a search. It stores words and positions, but no texts: excerpts are
//! read from the files.

mod database;
mod excerpt;
mod lines;
mod query;
mod sync;
mod terms;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nanobot_memory::{MemoryError, MemoryFolders, MemoryHit, MemorySearch, Scope};
use nanobot_session::{
    Seq, SessionHit, SessionPaths, SessionReach, SessionSearch, SessionSearchError,
};
use rusqlite::Connection;

use database::Corpus;
use query::{Match, SearchHit, SearchScope};

/// Maximum number of hits of one search.
const MAX_HITS: usize = 100;

/// Search over the memory and the conversations of one workspace. Nothing is opened before the
/// first search. Clones share the index.
#[derive(Clone, Debug)]
pub struct SearchIndex {
    shared: Arc<IndexInner>,
}

#[derive(Debug)]
struct IndexInner {
    path: PathBuf,
    memory: MemoryFolders,
    sessions: SessionPaths,
    connection: Mutex<Option<Connection>>,
}

impl SearchIndex {
    /// Creates an index in the file `path` over these folders.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, memory: MemoryFolders, sessions: SessionPaths) -> Self {
        let shared = IndexInner {
            path: path.into(),
            memory,
            sessions,
            connection: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Runs file work on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&IndexInner) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Box<dyn std::error::Error + Send + Sync>> {
        let shared = self.shared.clone();
        Ok(tokio::task::spawn_blocking(move || work(&shared)).await??)
    }
}

impl IndexInner {
    /// Brings the index of the folders up to date and queries it. A damaged index is recreated
    /// once.
    fn run_query(
        &self,
        family: Corpus,
        folders: &[PathBuf],
        query: &str,
        within: &SearchScope,
        limit: usize,
    ) -> rusqlite::Result<Vec<SearchHit>> {
        let terms = terms::query_terms(query);
        if terms.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let mut slot = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let attempt = |slot: &mut Option<Connection>| {
            let mut connection = match slot.take() {
                Some(connection) => connection,
                None => database::open(&self.path)?,
            };
            for folder in folders {
                sync::bring_up_to_date(&mut connection, family, folder)?;
            }
            let places = query::places(&connection, family, &terms, within, limit.min(MAX_HITS))?;
            *slot = Some(connection);
            Ok(places)
        };
        let places = match attempt(&mut slot) {
            Err(error) if database::is_damaged(&error) => {
                tracing::info!(%error, "recreating the damaged search index");
                database::remove(&self.path);
                attempt(&mut slot)?
            }
            found => found?,
        };
        drop(slot);
        Ok(excerpt::of_places(places, &terms, limit.min(MAX_HITS)))
    }
}

#[async_trait]
impl MemorySearch for SearchIndex {
    async fn search(
        &self,
        scopes: &[Scope],
        query: &str,
        limit: usize,
    ) -> Result<Vec<MemoryHit>, MemoryError> {
        let folders = scopes
            .iter()
            .map(|scope| self.shared.memory.of(scope))
            .collect::<Result<Vec<_>, _>>()?;
        let query = query.to_owned();
        let search = self.blocking(move |shared| {
            let within = SearchScope::Folders(folders.clone());
            shared.run_query(Corpus::Memory, &folders, &query, &within, limit)
        });
        let found = search.await.map_err(MemoryError::Search)?;
        Ok(found
            .into_iter()
            .map(
                |SearchHit {
                     place:
                         Match {
                             path, line, score, ..
                         },
                     excerpt,
                     ..
                 }| MemoryHit {
                    path,
                    line,
                    excerpt,
                    score,
                },
            )
            .collect())
    }
}

#[async_trait]
impl SessionSearch for SearchIndex {
    async fn search(
        &self,
        reach: &SessionReach,
        query: &str,
        limit: usize,
    ) -> Result<Vec<SessionHit>, SessionSearchError> {
        let (reach, query) = (reach.clone(), query.to_owned());
        let search = self.blocking(move |shared| {
            let folders = shared.sessions.searched();
            let within = SearchScope::Sessions {
                folders: folders.clone(),
                reach,
            };
            shared.run_query(Corpus::Sessions, &folders, &query, &within, limit)
        });
        let found = search.await.map_err(SessionSearchError)?;
        let hit = |found: SearchHit| {
            let SearchHit {
                place,
                excerpt,
                role,
                at,
            } = found;
            let Match {
                path,
                line,
                seq,
                session,
                score,
                ..
            } = place;
            Some(SessionHit {
                session: session?.into(),
                seq: Seq(seq),
                role,
                at,
                path,
                line,
                excerpt,
                score,
            })
        };
        Ok(found.into_iter().filter_map(hit).collect())
    }
}
