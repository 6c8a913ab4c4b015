//! The watched files, and the dispatch of the system's notifications to them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use tokio::sync::Notify;

use crate::folder::{WatchedFolder, is_folder, places_of};

/// A watched file.
#[derive(Debug)]
pub(crate) struct Followed {
    file: PathBuf,
    places: Mutex<Vec<WatchedFolder>>,
    /// Holds at most one pending notification.
    pub(crate) news: Notify,
}

impl Followed {
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        lock(&self.places)
            .iter()
            .map(|place| place.folder.clone())
            .collect()
    }

    fn hear(&self, event: &Event, is_content: bool) {
        let is_meant = |place: &WatchedFolder| {
            event
                .paths
                .iter()
                .any(|path| place.is_meant(path, is_content))
        };
        if lock(&self.places).iter().any(is_meant) {
            self.news.notify_one();
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
            places: Mutex::new(places_of(&file)),
            file,
            news: Notify::new(),
        });
        lock(&self.files).push(Arc::downgrade(&followed));
        followed
    }

    /// Updates the folders that each file depends on, and returns all of them.
    pub(crate) fn look(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::new();
        for followed in self.all() {
            *lock(&followed.places) = places_of(&followed.file);
            folders.append(&mut followed.folders());
        }
        folders
    }

    /// Returns `true` if a folder may have been removed or replaced since the last call.
    pub(crate) fn was_stale(&self) -> bool {
        self.is_stale.swap(false, Ordering::SeqCst)
    }

    /// Handles a notification, on the notifier's thread.
    pub(crate) fn hear(&self, told: notify::Result<Event>) {
        let event = match told {
            Ok(event) if !event.need_rescan() => event,
            // Notifications were lost, so every file may have changed.
            lost => {
                tracing::debug!(?lost, "the system lost track of files");
                self.is_stale.store(true, Ordering::SeqCst);
                self.all()
                    .iter()
                    .for_each(|followed| followed.news.notify_one());
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
            followed.hear(&event, is_content);
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
