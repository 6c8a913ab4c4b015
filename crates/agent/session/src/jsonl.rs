//! Sessions as JSON Lines files, compatible with the Python program.
//!
//! Decision: files are only ever appended to, with one write and one sync per
//! [`SessionStore::append`] (no sync with [`Durability::Os`]). Damaged lines stay in place and are
//! skipped. A line torn by a crash is copied to a file of its own and terminated, so that the next
//! line starts on its own. The state of a session is cached while its file is unchanged, and read
//! again after any other program wrote to the file.
//!
//! Appends to one session are serialised within the process and, by a file lock, across processes.
//! Different sessions do not block each other.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use nanobot_disk::{Access, Disk, DiskFile, FileStamp, LocalDisk, NewFolders};
use nanobot_types::SessionKey;

use crate::durability;
use crate::files;
use crate::line;
use crate::listing;
use crate::paths::{Location, SessionPaths};
use crate::scan::{self, FileEnd, Marks, ReadRange};
use crate::slots::Slots;
use crate::state::SessionState;
use crate::{
    DeletedSession, Durability, Entry, ReadFrom, Seq, SessionCatalog, SessionError, SessionInfo,
    SessionPreview, SessionStore, SessionView,
};
use crate::{preview, trash};

/// Approximate maximum size of the messages read from the cursor, in bytes; more than any model
/// accepts.
const CURSOR_BYTES: u64 = 6 * 1024 * 1024;

/// Sessions in the folders of [`SessionPaths`], one JSON Lines file each.
///
/// A message is a line with `role`, `content`, `timestamp` and the fields of its role. Every other
/// entry is a line with `_type: "metadata"`, `key`, `created_at`, `updated_at`, `metadata` and
/// `last_consolidated`, which hold the state after the entry; readers use the last such line. Keys
/// of this program begin with `_`. On messages they are `_inbound`, `_runtime`, `_provider` and
/// `_media_types`. On metadata lines they are `_count` (number of messages before the line),
/// `_answered` (journal ids of the latest turns) and `_entry` (the entry itself). On both there is
/// `_continues` (appended together with the line before it). Lines and keys of other programs are
/// kept unchanged. Deleted sessions are in the folder `trash`.
///
/// There may be copies next to a file: `.torn-<time>` holds a line torn by a crash, and
/// `.moved-<time>` is a session in its legacy location after it was moved.
#[derive(Debug)]
pub struct JsonlStore {
    shared: Arc<JsonlShared>,
    slots: Slots<SessionSlot>,
    durability: Durability,
}

#[derive(Debug)]
struct JsonlShared {
    disk: Arc<dyn Disk>,
    paths: SessionPaths,
    bytes_read: AtomicU64,
    folders: NewFolders,
}

/// Cached state of one session.
#[derive(Debug, Default)]
struct SessionSlot {
    cached: Option<CachedSession>,
    /// Set while the file is in place but its name may not be durable.
    unnamed: bool,
    /// Set once unreadable lines were reported, so that they are reported only once.
    reported: bool,
}

/// State of a session at the end of its file.
#[derive(Clone, Debug)]
struct CachedSession {
    path: PathBuf,
    stamp: FileStamp,
    head: Seq,
    state: SessionState,
    counted: bool,
    ending: FileEnd,
    marks: Marks,
}

impl JsonlStore {
    /// Creates a store over `paths`. It reads and creates nothing until it is used.
    #[must_use]
    pub fn new(paths: SessionPaths) -> Self {
        Self::on(Arc::new(LocalDisk), paths)
    }

    /// Creates a store over `paths` on another disk.
    #[must_use]
    pub fn on(disk: Arc<dyn Disk>, paths: SessionPaths) -> Self {
        let shared = JsonlShared {
            disk,
            paths,
            bytes_read: AtomicU64::new(0),
            folders: NewFolders::default(),
        };
        Self {
            shared: Arc::new(shared),
            slots: Slots::default(),
            durability: Durability::default(),
        }
    }

    /// Replaces the default durability of appends, [`Durability::Disk`].
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Returns the number of bytes of session files read so far, to verify the cost of
    /// [`ReadFrom::Cursor`].
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.shared.bytes_read.load(Ordering::Relaxed)
    }

    fn store_failed(&self, source: io::Error) -> SessionError {
        SessionError::Store {
            path: self.shared.paths.sessions.clone(),
            source,
        }
    }

    /// Runs file work for one session on a blocking thread, with exclusive access to the session.
    /// Work that was started is finished, even if the caller no longer waits for it.
    async fn with_session<T: Send + 'static>(
        &self,
        key: &SessionKey,
        work: impl FnOnce(&SessionFile<'_>, &mut SessionSlot) -> Result<T, SessionError>
        + Send
        + 'static,
    ) -> Result<T, SessionError> {
        let mut slot = self.slots.lock(key).await;
        let shared = self.shared.clone();
        let owned = key.clone();
        let durability = self.durability;
        let done = tokio::task::spawn_blocking(move || {
            work(
                &SessionFile {
                    key: &owned,
                    shared: &shared,
                    durability,
                },
                &mut slot,
            )
        });
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
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        self.with_session(key, move |session, slot| {
            session.append(slot, head, &entries)
        })
        .await
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        self.with_session(key, move |session, slot| session.read(slot, from))
            .await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        let shared = self.shared.clone();
        let done = tokio::task::spawn_blocking(move || {
            listing::list(&*shared.disk, &shared.paths, &shared.bytes_read)
        });
        done.await
            .map_err(|error| self.store_failed(io::Error::other(error)))?
    }

    fn catalog(&self) -> Option<&dyn SessionCatalog> {
        Some(self)
    }
}

#[async_trait]
impl SessionCatalog for JsonlStore {
    async fn preview(&self, key: &SessionKey) -> Result<SessionPreview, SessionError> {
        self.with_session(key, |session, slot| session.preview(slot))
            .await
    }

    async fn delete(&self, key: &SessionKey) -> Result<bool, SessionError> {
        self.with_session(key, |session, slot| session.delete(slot))
            .await
    }

    async fn discard(&self, key: &SessionKey) -> Result<(), SessionError> {
        self.with_session(key, |session, slot| session.discard(slot))
            .await
    }

    async fn restore(&self, key: &SessionKey) -> Result<bool, SessionError> {
        self.with_session(key, |session, slot| session.restore(slot))
            .await
    }

    async fn deleted(&self) -> Result<Vec<DeletedSession>, SessionError> {
        let shared = self.shared.clone();
        let done =
            tokio::task::spawn_blocking(move || trash::list_all(&*shared.disk, &shared.paths));
        let files = done
            .await
            .map_err(io::Error::other)
            .and_then(|files| files)
            .map_err(|error| self.store_failed(error))?;
        Ok(files.into_iter().map(|file| file.session).collect())
    }
}

/// File operations for one session.
struct SessionFile<'a> {
    key: &'a SessionKey,
    shared: &'a JsonlShared,
    durability: Durability,
}

impl SessionFile<'_> {
    fn read(&self, slot: &mut SessionSlot, from: ReadFrom) -> Result<SessionView, SessionError> {
        let path = match self.locate(slot)? {
            Location::Nowhere { .. } => {
                slot.cached = None;
                return Ok(SessionView::default());
            }
            Location::Here(path) | Location::Legacy { old: path, .. } => path,
        };
        let failed = |source| self.failed("read", &path, source);
        let file = self.shared.disk.open(&path, Access::Read).map_err(failed)?;
        let mut cached = self.refresh(slot, &path, &*file).map_err(failed)?.clone();
        let span = match from {
            ReadFrom::Cursor => ReadRange {
                bytes: CURSOR_BYTES,
                ..ReadRange::from(cached.state.cursor)
            },
            ReadFrom::Seq(seq) => ReadRange::from(seq),
            ReadFrom::Range { from, upto } => ReadRange {
                upto,
                ..ReadRange::from(from)
            },
        };
        let (records, unreadable) = scan::records(
            &*file,
            (cached.stamp.length, cached.head),
            span,
            &mut cached.marks,
            &self.shared.bytes_read,
        )
        .map_err(failed)?;
        if let Some(remembered) = &mut slot.cached {
            remembered.marks = cached.marks;
        }
        self.warn_unreadable(slot, &path, unreadable);
        Ok(SessionView {
            head: cached.head,
            cursor: cached.state.cursor,
            answered: cached.state.answered_ids(),
            metadata: cached.state.metadata,
            records,
        })
    }

    fn preview(&self, slot: &mut SessionSlot) -> Result<SessionPreview, SessionError> {
        let path = match self.locate(slot)? {
            Location::Nowhere { .. } => return Ok(SessionPreview::default()),
            Location::Here(path) | Location::Legacy { old: path, .. } => path,
        };
        let failed = |source| self.failed("read", &path, source);
        let file = self.shared.disk.open(&path, Access::Read).map_err(failed)?;
        let cached = self.refresh(slot, &path, &*file).map_err(failed)?;
        preview::preview(
            &*file,
            cached.stamp.length,
            (cached.head, cached.state.cursor),
            &self.shared.bytes_read,
        )
        .map_err(failed)
    }

    fn delete(&self, slot: &mut SessionSlot) -> Result<bool, SessionError> {
        let path = match self.locate(slot)? {
            Location::Nowhere { .. } => return Ok(false),
            Location::Here(path) | Location::Legacy { old: path, .. } => path,
        };
        let failed = |source| self.failed("delete", &path, source);
        let JsonlShared { disk, folders, .. } = self.shared;
        // A writer of another process finishes its append first.
        let file = disk.open(&path, Access::Read).map_err(failed)?;
        file.lock().map_err(failed)?;
        trash::delete(&**disk, folders, &path).map_err(failed)?;
        slot.cached = None;
        Ok(true)
    }

    fn discard(&self, slot: &mut SessionSlot) -> Result<(), SessionError> {
        if let Location::Here(path) = self.locate(slot)? {
            slot.cached = None;
            let removed = self.shared.disk.remove(&path);
            removed.map_err(|source| self.failed("remove", &path, source))?;
        }
        Ok(())
    }

    fn restore(&self, slot: &mut SessionSlot) -> Result<bool, SessionError> {
        let JsonlShared { disk, paths, .. } = self.shared;
        let failed = |source| self.failed("restore", &paths.sessions, source);
        let Some(file) = trash::find(&**disk, paths, self.key).map_err(failed)? else {
            return Ok(false);
        };
        let Location::Nowhere { target } = self.locate(slot)? else {
            return Err(SessionError::Taken {
                key: self.key.clone(),
            });
        };
        let is_taken = disk.exists(&file.original).map_err(failed)?;
        let target = if is_taken {
            target
        } else {
            file.original.clone()
        };
        trash::restore(&**disk, &file, &target).map_err(failed)?;
        slot.cached = None;
        Ok(true)
    }

    fn append(
        &self,
        slot: &mut SessionSlot,
        head: Seq,
        entries: &[Entry],
    ) -> Result<Seq, SessionError> {
        let path = match self.locate(slot)? {
            Location::Here(path) => path,
            Location::Legacy { old, target } => self.move_legacy(slot, &old, target)?,
            Location::Nowhere { target } => {
                self.check(head, Seq(0))?;
                if entries.is_empty() {
                    return Ok(head);
                }
                target
            }
        };
        let disk = &*self.shared.disk;
        let failed = |source| self.failed("write", &path, source);
        self.create_folder(&path).map_err(failed)?;
        let mut file = disk.open(&path, Access::Append).map_err(failed)?;
        file.lock().map_err(failed)?;
        let mut cached = self.refresh(slot, &path, &*file).map_err(failed)?.clone();
        self.check(head, cached.head)?;
        if entries.is_empty() {
            return Ok(head);
        }
        let length = cached.stamp.length;
        if let FileEnd::Torn(torn) = cached.ending {
            files::save_torn_bytes(disk, &path, &*file, length.saturating_sub(torn))
                .map_err(failed)?;
        }
        let bytes = self.encode(&mut cached, entries)?;
        if length == 0 || slot.unnamed {
            // Sync the name before anything is written, so that a file with content has a durable
            // name.
            nanobot_disk::sync_names(disk, &path).map_err(failed)?;
            slot.unnamed = false;
        }
        // The state is unknown until the write has succeeded.
        slot.cached = None;
        durability::append(self.durability, &mut *file, &bytes, length).map_err(failed)?;
        if let Ok(stamp) = file.stamp() {
            cached.stamp = stamp;
            slot.cached = Some(cached.clone());
        }
        Ok(cached.head)
    }

    /// Moves a file from a legacy location to its new one, unless another process did so in the
    /// meantime, and returns the path. The old file stays under another name.
    fn move_legacy(
        &self,
        slot: &mut SessionSlot,
        old: &Path,
        target: PathBuf,
    ) -> Result<PathBuf, SessionError> {
        let disk = &*self.shared.disk;
        let failed = |source| self.failed("move", old, source);
        let opened = disk
            .open(old, Access::Read)
            .and_then(|file| file.lock().map(|()| file));
        if let Location::Here(path) = self.find()? {
            return Ok(path);
        }
        let file = opened.map_err(failed)?;
        self.create_folder(&target).map_err(failed)?;
        slot.unnamed = true;
        files::copy_durably(disk, &*file, old, &target).map_err(failed)?;
        slot.unnamed = false;
        files::rename_moved(disk, old);
        tracing::info!(from = %old.display(), to = %target.display(), "moved a session from its legacy location");
        Ok(target)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |folder| {
            self.shared.folders.ensure(&*self.shared.disk, folder)
        })
    }

    /// Encodes `entries` as lines, and updates `cached` to the state after them.
    fn encode(
        &self,
        cached: &mut CachedSession,
        entries: &[Entry],
    ) -> Result<Vec<u8>, SessionError> {
        let failed = |source| SessionError::Encode {
            key: self.key.clone(),
            source,
        };
        let mut bytes = Vec::new();
        if cached.ending != FileEnd::Clean {
            bytes.push(b'\n');
            cached.ending = FileEnd::Clean;
        }
        cached.state.touch(chrono::Local::now().fixed_offset());
        if !cached.counted {
            // A new file begins with this line. In a file of another program, it saves the next
            // reader from counting the messages again.
            line::write_state(
                &mut bytes,
                self.key,
                &cached.state,
                cached.head,
                None,
                false,
            )
            .map_err(failed)?;
            cached.counted = true;
        }
        for (number, entry) in entries.iter().enumerate() {
            let continues = number > 0;
            cached.state.apply(entry, cached.head);
            if let Entry::Rewound { .. } | Entry::Restored = entry {
                cached.marks.clear();
            }
            match entry {
                Entry::Message(message) => {
                    line::write_message(&mut bytes, message, continues).map_err(failed)?;
                    cached.head = cached.head.next();
                }
                Entry::TurnEnded(_)
                | Entry::Consolidated { .. }
                | Entry::Reset
                | Entry::Rewound { .. }
                | Entry::Restored
                | Entry::Metadata(_) => {
                    line::write_state(
                        &mut bytes,
                        self.key,
                        &cached.state,
                        cached.head,
                        Some(entry),
                        continues,
                    )
                    .map_err(failed)?;
                }
            }
        }
        Ok(bytes)
    }

    fn locate(&self, slot: &SessionSlot) -> Result<Location, SessionError> {
        let JsonlShared { disk, paths, .. } = self.shared;
        if let Some(cached) = &slot.cached
            && !paths.is_legacy(&cached.path)
            && disk
                .exists(&cached.path)
                .map_err(|source| self.failed("find", &cached.path, source))?
        {
            return Ok(Location::Here(cached.path.clone()));
        }
        self.find()
    }

    fn find(&self) -> Result<Location, SessionError> {
        let JsonlShared { disk, paths, .. } = self.shared;
        paths
            .locate(&**disk, self.key)
            .map_err(|source| self.failed("find", &paths.sessions, source))
    }

    /// Returns the state of an open file. The file is read only if it has changed.
    fn refresh<'s>(
        &self,
        slot: &'s mut SessionSlot,
        path: &Path,
        file: &dyn DiskFile,
    ) -> io::Result<&'s CachedSession> {
        let stamp = file.stamp()?;
        if slot
            .cached
            .as_ref()
            .is_none_or(|cached| cached.path != path || cached.stamp != stamp)
        {
            let survey = scan::survey(file, stamp.length, &self.shared.bytes_read)?;
            self.warn_unreadable(slot, path, survey.unreadable);
            slot.cached = None;
            return Ok(slot.cached.insert(CachedSession {
                path: path.to_owned(),
                stamp,
                head: survey.head,
                state: survey.state,
                counted: survey.counted,
                ending: survey.ending,
                marks: Marks::default(),
            }));
        }
        slot.cached
            .as_ref()
            .ok_or_else(|| io::Error::other("nothing is known of the session"))
    }

    fn check(&self, expected: Seq, actual: Seq) -> Result<(), SessionError> {
        if expected == actual {
            return Ok(());
        }
        Err(SessionError::Moved {
            key: self.key.clone(),
            expected,
            actual,
        })
    }

    fn warn_unreadable(&self, slot: &mut SessionSlot, path: &Path, unreadable: u64) {
        if unreadable > 0 && !slot.reported {
            slot.reported = true;
            tracing::warn!(session = %self.key, path = %path.display(), lines = unreadable, "skipped unreadable lines of a session");
        }
    }

    fn failed(&self, action: &'static str, path: &Path, source: io::Error) -> SessionError {
        SessionError::Io {
            key: self.key.clone(),
            action,
            path: path.to_owned(),
            source,
        }
    }
}
