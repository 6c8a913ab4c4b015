//! The watched files, and the dispatch of the system's notifications to them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use tokio::sync::Notify;

use crate::folder::{WatchedFolder, folders_to_watch, is_folder};

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

    fn handle_event(&self, event: &Event, is_content: bool) {
        let is_concerned = |entry: &WatchedFolder| {
            event
                .paths
                .iter()
                .any(|path| entry.concerns(path, is_content))
        };
        if lock(&self.watched).iter().any(is_concerned) {
            self.changed.notify_one();
        }
    }
}

/// All watched files.
#[derive(Debug, Default)]
pub(crate) struct WatchedFiles {
    files: Mutex<Vec<Weak<Followed>>>,
    /// `true` if a watched folder may have been removed or replaced.
    is_stale: AtomicBool,
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
        for followed in self.all() {
            let is_gone = |folder: &PathBuf| event.paths.iter().any(|path| is_folder(folder, path));
            if !is_content && followed.folders().iter().any(is_gone) {
                self.is_stale.store(true, Ordering::SeqCst);
            }
            followed.handle_event(&event, is_content);
        }
    }

    fn all(&self) -> Vec<Arc<Followed>> {
        let mut files = lock(&self.files);
        files.retain(|file| file.strong_count() > 0);
        files.iter().filter_map(Weak::upgrade).collect()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
