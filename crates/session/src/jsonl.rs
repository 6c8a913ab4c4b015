//! Sessions as JSON Lines files that the Python program reads and writes too.
//!
//! Decision: a file is only ever appended to, one write and one sync per [`SessionStore::append`].
//! What is broken in it stays where it is and is passed over; a line that a crash cut off is
//! copied aside and ended, so that the next one stands on its own. What is known of a session is
//! remembered as long as its file is as it was left, and read again when anything else touched it.
//!
//! Appends to one session are serialised here and, by a file lock, over processes; sessions do
//! not wait for each other.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use nanobot_types::SessionKey;

use crate::disk::{self, Stamp};
use crate::line;
use crate::listing;
use crate::paths::{Location, SessionPaths};
use crate::scan::{self, Ending};
use crate::slots::Slots;
use crate::state::State;
use crate::{Entry, ReadFrom, Seq, SessionError, SessionInfo, SessionStore, SessionView};

/// Sessions in the folders of [`SessionPaths`], one JSON Lines file each.
///
/// A message is a line with `role`, `content`, `timestamp` and what belongs to its role. Every
/// other entry is a line with `_type: "metadata"`, `key`, `created_at`, `updated_at`, `metadata`
/// and `last_consolidated`, the state behind it; readers take the last one. Keys of this program
/// begin with `_`: on messages `_inbound`, `_runtime`, `_provider` and `_media_types`, on metadata
/// `_count` (messages before the line), `_answered` (journal ids of the latest turns) and `_entry`
/// (what happened). Lines and keys of other programs stay as they are.
///
/// Beside a file may stand copies: `.torn-<time>` holds a line that a crash cut off,
/// `.moved-<time>` is a session in its old place after it was moved.
#[derive(Debug)]
pub struct JsonlStore {
    shared: Arc<Shared>,
    slots: Slots<Slot>,
}

#[derive(Debug)]
struct Shared {
    paths: SessionPaths,
    bytes_read: AtomicU64,
}

/// What is remembered of one session.
#[derive(Debug, Default)]
struct Slot {
    known: Option<Known>,
    /// Unreadable lines are reported once.
    reported: bool,
}

/// A session at the end of its file.
#[derive(Clone, Debug)]
struct Known {
    path: PathBuf,
    stamp: Stamp,
    head: Seq,
    state: State,
    counted: bool,
    ending: Ending,
}

impl JsonlStore {
    /// A store over `paths`. Nothing is read or made before it is used.
    #[must_use]
    pub fn new(paths: SessionPaths) -> Self {
        Self { shared: Arc::new(Shared { paths, bytes_read: AtomicU64::new(0) }), slots: Slots::default() }
    }

    /// Bytes of session files read so far, to hold the promise of [`ReadFrom::Cursor`] against.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.shared.bytes_read.load(Ordering::Relaxed)
    }

    /// Runs file work for one session on a thread that may block, alone with that session. Work
    /// that was begun is finished, also when nobody waits for it any more.
    async fn with_session<T: Send + 'static>(
        &self,
        key: &SessionKey,
        work: impl FnOnce(&Session<'_>, &mut Slot) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let mut slot = self.slots.lock(key).await;
        let shared = self.shared.clone();
        let owned = key.clone();
        let done = tokio::task::spawn_blocking(move || work(&Session { key: &owned, shared: &shared }, &mut slot));
        done.await.map_err(|error| SessionError::Io {
            key: key.clone(),
            action: "reach",
            path: self.shared.paths.sessions.clone(),
            source: io::Error::other(error),
        })?
    }
}

#[async_trait]
impl SessionStore for JsonlStore {
    async fn append(&self, key: &SessionKey, head: Seq, entries: Vec<Entry>) -> Result<Seq, SessionError> {
        self.with_session(key, move |session, slot| session.append(slot, head, &entries)).await
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        self.with_session(key, move |session, slot| session.read(slot, from)).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        let shared = self.shared.clone();
        let done = tokio::task::spawn_blocking(move || listing::list(&shared.paths, &shared.bytes_read));
        done.await.map_err(|error| SessionError::Store {
            path: self.shared.paths.sessions.clone(),
            source: io::Error::other(error),
        })?
    }
}

/// The file work for one session.
struct Session<'a> {
    key: &'a SessionKey,
    shared: &'a Shared,
}

impl Session<'_> {
    fn read(&self, slot: &mut Slot, from: ReadFrom) -> Result<SessionView, SessionError> {
        let path = match self.locate(slot)? {
            Location::Nowhere { .. } => {
                slot.known = None;
                return Ok(SessionView::default());
            }
            Location::Here(path) | Location::Legacy { old: path, .. } => path,
        };
        let failed = |source| self.failed("read", &path, source);
        let file = File::open(&path).map_err(failed)?;
        let known = self.refresh(slot, &path, &file).map_err(failed)?.clone();
        let start = match from {
            ReadFrom::Cursor => known.state.cursor,
            ReadFrom::Seq(seq) => seq,
        };
        let (records, unreadable) =
            scan::records(&file, known.stamp.length, known.head, start, &self.shared.bytes_read).map_err(failed)?;
        self.report(slot, &path, unreadable);
        Ok(SessionView {
            head: known.head,
            cursor: known.state.cursor,
            answered: known.state.answered_ids(),
            metadata: known.state.metadata,
            records,
        })
    }

    fn append(&self, slot: &mut Slot, head: Seq, entries: &[Entry]) -> Result<Seq, SessionError> {
        let path = match self.locate(slot)? {
            Location::Here(path) => path,
            Location::Legacy { old, target } => {
                disk::migrate(&old, &target).map_err(|source| self.failed("move", &old, source))?;
                target
            }
            Location::Nowhere { target } => {
                self.check(head, Seq(0))?;
                target
            }
        };
        if entries.is_empty() && !path.exists() {
            return Ok(head);
        }
        let failed = |source| self.failed("write", &path, source);
        if let Some(folder) = path.parent() {
            disk::create_folder(folder).map_err(failed)?;
        }
        let mut file = disk::open_for_append(&path).map_err(failed)?;
        let mut known = self.refresh(slot, &path, &file).map_err(failed)?.clone();
        self.check(head, known.head)?;
        if entries.is_empty() {
            return Ok(head);
        }
        let length = known.stamp.length;
        if let Ending::Torn(torn) = known.ending {
            disk::keep_torn(&path, &file, length, torn).map_err(failed)?;
        }
        let bytes = self.encode(&mut known, entries)?;
        // Until the write is known to have worked, nothing is known.
        slot.known = None;
        disk::append(&mut file, &bytes, length).map_err(failed)?;
        if length == 0
            && let Some(folder) = path.parent()
        {
            disk::sync_folder(folder).map_err(failed)?;
        }
        if let Ok(metadata) = file.metadata() {
            known.stamp = Stamp::of(&metadata);
            slot.known = Some(known.clone());
        }
        Ok(known.head)
    }

    /// The lines of `entries`, and `known` as it is behind them.
    fn encode(&self, known: &mut Known, entries: &[Entry]) -> Result<Vec<u8>, SessionError> {
        let failed = |source| SessionError::Encode { key: self.key.clone(), source };
        let mut bytes = Vec::new();
        if known.ending != Ending::Clean {
            bytes.push(b'\n');
            known.ending = Ending::Clean;
        }
        known.state.touch(chrono::Local::now().fixed_offset());
        if !known.counted {
            // A new file begins with this line; in a file of another program it spares the next
            // reader to count again.
            line::write_state(&mut bytes, self.key, &known.state, known.head, None).map_err(failed)?;
            known.counted = true;
        }
        for entry in entries {
            known.state.apply(entry, known.head);
            match entry {
                Entry::Message(message) => {
                    line::write_message(&mut bytes, message).map_err(failed)?;
                    known.head = known.head.next();
                }
                Entry::TurnEnded(_)
                | Entry::Consolidated { .. }
                | Entry::Reset
                | Entry::Rewound { .. }
                | Entry::Metadata(_) => {
                    line::write_state(&mut bytes, self.key, &known.state, known.head, Some(entry)).map_err(failed)?;
                }
            }
        }
        Ok(bytes)
    }

    fn locate(&self, slot: &Slot) -> Result<Location, SessionError> {
        let paths = &self.shared.paths;
        if let Some(known) = &slot.known
            && !paths.is_legacy(&known.path)
            && known.path.exists()
        {
            return Ok(Location::Here(known.path.clone()));
        }
        paths.locate(self.key).map_err(|source| self.failed("find", &paths.sessions, source))
    }

    /// What is known of an open file, read from it only if it is not as it was left.
    fn refresh<'s>(&self, slot: &'s mut Slot, path: &Path, file: &File) -> io::Result<&'s Known> {
        let stamp = Stamp::of(&file.metadata()?);
        if slot.known.as_ref().is_none_or(|known| known.path != path || known.stamp != stamp) {
            let survey = scan::survey(file, stamp.length, &self.shared.bytes_read)?;
            self.report(slot, path, survey.unreadable);
            slot.known = None;
            return Ok(slot.known.insert(Known {
                path: path.to_owned(),
                stamp,
                head: survey.head,
                state: survey.state,
                counted: survey.counted,
                ending: survey.ending,
            }));
        }
        slot.known.as_ref().ok_or_else(|| io::Error::other("nothing is known of the session"))
    }

    fn check(&self, expected: Seq, actual: Seq) -> Result<(), SessionError> {
        if expected == actual {
            return Ok(());
        }
        Err(SessionError::Moved { key: self.key.clone(), expected, actual })
    }

    fn report(&self, slot: &mut Slot, path: &Path, unreadable: u64) {
        if unreadable > 0 && !slot.reported {
            slot.reported = true;
            tracing::warn!(session = %self.key, path = %path.display(), lines = unreadable, "unreadable lines of a session passed over");
        }
    }

    fn failed(&self, action: &'static str, path: &Path, source: io::Error) -> SessionError {
        SessionError::Io { key: self.key.clone(), action, path: path.to_owned(), source }
    }
}
