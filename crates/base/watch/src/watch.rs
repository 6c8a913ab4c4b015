//! Watches files through the system's notifier, with polling as the fallback.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::time::Instant;

use crate::followed::{Followed, WatchedFiles, lock};

/// Poll interval for folders that the system watches.
const SLOW_LOOK: Duration = Duration::from_secs(30);
/// Poll interval for folders that the system does not watch.
const QUICK_LOOK: Duration = Duration::from_millis(500);

/// Watches folders on behalf of all callers that follow a file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FileWatch {
    shared: Arc<WatchState>,
}

#[derive(Debug)]
struct WatchState {
    following: Arc<WatchedFiles>,
    system: Mutex<SystemWatcher>,
    slow_look: Duration,
}

/// The system's notifier and the folders it watches.
#[derive(Debug)]
struct SystemWatcher {
    /// `None` if the system has no notifier.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
}

/// A stream of notifications that one file may have changed.
#[derive(Debug)]
pub struct FileChanges {
    followed: Arc<Followed>,
    watch: FileWatch,
    next_look: Instant,
}

impl FileWatch {
    /// Creates a watcher without files. Every file is reported at least every 30 seconds, even
    /// without a notification.
    #[must_use]
    pub fn new() -> Self {
        Self::looking_every(SLOW_LOOK)
    }

    /// Like [`FileWatch::new`], with another interval between reports without a notification.
    #[must_use]
    pub fn looking_every(slow_look: Duration) -> Self {
        let following = Arc::new(WatchedFiles::default());
        let hears = following.clone();
        let watcher = notify::recommended_watcher(move |told| hears.hear(told));
        if let Err(error) = &watcher {
            tracing::warn!(%error, "file notifications are unavailable; files are polled twice a second");
        }
        let system = Mutex::new(SystemWatcher {
            watcher: watcher.ok(),
            folders: BTreeSet::new(),
        });
        Self {
            shared: Arc::new(WatchState {
                following,
                system,
                slow_look,
            }),
        }
    }

    /// Follows a file. Neither the file nor its folder has to exist. Only changes after this call
    /// are reported, so the caller reads the file once after it.
    #[must_use]
    pub fn follow(&self, file: &Path) -> FileChanges {
        let followed = self.shared.following.add(file.to_owned());
        let mut changes = FileChanges {
            followed,
            watch: self.clone(),
            next_look: Instant::now(),
        };
        changes.watch_on(false);
        changes
    }
}

impl Default for FileWatch {
    fn default() -> Self {
        Self::new()
    }
}

impl FileChanges {
    /// Waits until the file may have changed since the last call, or until the poll interval has
    /// elapsed. Cancel-safe.
    pub async fn changed(&mut self) {
        let is_told = tokio::select! {
            biased;
            () = self.followed.news.notified() => true,
            () = tokio::time::sleep_until(self.next_look) => false,
        };
        self.watch_on(!is_told);
    }

    /// Updates the watched folders to the file's current location.
    fn watch_on(&mut self, again: bool) {
        self.watch.shared.watch(again);
        let is_watched = self.watch.shared.watches(&self.followed);
        self.next_look = Instant::now()
            + if is_watched {
                self.watch.shared.slow_look
            } else {
                QUICK_LOOK
            };
    }
}

impl WatchState {
    /// Watches the folders of all files. With `again`, folders that are already watched are
    /// registered again, because another folder may have replaced one of them.
    fn watch(&self, again: bool) {
        let again = self.following.was_stale() || again;
        let mut system = lock(&self.system);
        let mut wanted = self.following.look();
        loop {
            system.watch(&wanted, again);
            let now = self.following.look();
            if now == wanted {
                return;
            }
            // A folder was created before its parent was watched, so there was no notification.
            wanted = now;
        }
    }

    fn watches(&self, followed: &Followed) -> bool {
        let places = followed.folders();
        !places.is_empty() && places.is_subset(&lock(&self.system).folders)
    }
}

impl SystemWatcher {
    fn watch(&mut self, wanted: &BTreeSet<PathBuf>, again: bool) {
        let Self {
            watcher: Some(watcher),
            folders,
        } = self
        else {
            return;
        };
        for folder in folders.difference(wanted) {
            // If the folder is gone, its watch is gone too and this fails.
            drop(watcher.unwatch(folder));
        }
        folders.retain(|folder| wanted.contains(folder));
        for folder in wanted {
            if !again && folders.contains(folder) {
                continue;
            }
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    folders.insert(folder.clone());
                }
                Err(error) => {
                    tracing::debug!(folder = %folder.display(), %error, "cannot watch a folder");
                    folders.remove(folder);
                }
            }
        }
    }
}
