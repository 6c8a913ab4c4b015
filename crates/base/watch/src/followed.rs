//! The watched files, and the dispatch of the system's notifications to them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use tokio::sync::Notify;

use crate::folder::{WatchedFolder, folders_to_watch, is_folder};

/// Pause after a further write to a file that no one follows. The system merges equal notifications
/// that wait, so a flood of writes, such as those to a database in the same folder, wakes the
/// notifier's thread a hundred times a second at most.
const PAUSE: Duration = Duration::from_millis(10);

/// A watched file.
#[derive(Debug)]
pub(crate) struct Followed {
    file: PathBuf,
    watched: Mutex<Vec<WatchedFolder>>,
    /// Holds at most one pending notification.
    pub(crate) changed: Notify,
}

impl Followed {
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        lock(&self.watched)
            .iter()
            .map(|entry| entry.folder.clone())
            .collect()
    }

    /// Returns `true` if the event is about the file.
    fn handle_event(&self, event: &Event, is_content: bool) -> bool {
        let is_concerned = |entry: &WatchedFolder| {
            event
                .paths
                .iter()
                .any(|path| entry.concerns(path, is_content))
        };
        let is_concerned = lock(&self.watched).iter().any(is_concerned);
        if is_concerned {
            self.changed.notify_one();
        }
        is_concerned
    }
}

/// All watched files.
#[derive(Debug, Default)]
pub(crate) struct WatchedFiles {
    files: Mutex<Vec<Weak<Followed>>>,
    /// `true` if a watched folder may have been removed or replaced.
    is_stale: AtomicBool,
    /// The last file that was written and is not followed, until another notification.
    last_written: Mutex<Option<PathBuf>>,
}

impl WatchedFiles {
    pub(crate) fn add(&self, file: PathBuf) -> Arc<Followed> {
        let followed = Arc::new(Followed {
            watched: Mutex::new(folders_to_watch(&file)),
            file,
            changed: Notify::new(),
        });
        lock(&self.files).push(Arc::downgrade(&followed));
        followed
    }

    /// Updates the folders that each file depends on, and returns all of them.
    pub(crate) fn refresh_folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::new();
        for followed in self.all() {
            *lock(&followed.watched) = folders_to_watch(&followed.file);
            folders.append(&mut followed.folders());
        }
        folders
    }

    /// Returns `true` if a folder may have been removed or replaced since the last call.
    pub(crate) fn was_stale(&self) -> bool {
        self.is_stale.swap(false, Ordering::SeqCst)
    }

    /// Handles a notification, on the notifier's thread.
    pub(crate) fn handle_event(&self, result: notify::Result<Event>) {
        let event = match result {
            Ok(event) if !event.need_rescan() => event,
            // Notifications were lost, so every file may have changed.
            lost => {
                tracing::debug!(?lost, "the system lost track of files");
                self.is_stale.store(true, Ordering::SeqCst);
                self.all()
                    .iter()
                    .for_each(|followed| followed.changed.notify_one());
                return;
            }
        };
        let is_content = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
            EventKind::Access(_) => return,
            EventKind::Modify(ModifyKind::Name(_)) => false,
            EventKind::Modify(_) => true,
            EventKind::Any | EventKind::Create(_) | EventKind::Remove(_) | EventKind::Other => {
                false
            }
        };
        let mut is_followed = false;
        for followed in self.all() {
            let is_gone = |folder: &PathBuf| event.paths.iter().any(|path| is_folder(folder, path));
            if !is_content && followed.folders().iter().any(is_gone) {
                self.is_stale.store(true, Ordering::SeqCst);
            }
            is_followed |= followed.handle_event(&event, is_content);
        }
        let is_write = matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
        self.pause_in_flood(event.paths.first().filter(|_| is_write && !is_followed));
    }

    /// Pauses if the last notification was about the same file, which is not followed. Only Linux
    /// merges notifications.
    fn pause_in_flood(&self, written: Option<&PathBuf>) {
        let last = std::mem::replace(&mut *lock(&self.last_written), written.cloned());
        if cfg!(target_os = "linux") && written.is_some() && last.as_ref() == written {
            pause();
        }
    }

    fn all(&self) -> Vec<Arc<Followed>> {
        let mut files = lock(&self.files);
        files.retain(|file| file.strong_count() > 0);
        files.iter().filter_map(Weak::upgrade).collect()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it runs on the notifier's own thread, which blocks by design"
)]
fn pause() {
    thread::sleep(PAUSE);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
