//! Watches files through the system's notifier, with polling as the fallback.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::time::Instant;

use crate::followed::{Followed, WatchedFiles, lock};

/// Poll interval for folders that the system watches.
const SLOW_POLL: Duration = Duration::from_secs(30);
/// Poll interval for folders that the system does not watch.
const QUICK_POLL: Duration = Duration::from_millis(500);

/// Watches folders on behalf of all callers that follow a file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FileWatch {
    shared: Arc<WatchState>,
}

#[derive(Debug)]
struct WatchState {
    files: Arc<WatchedFiles>,
    system: Mutex<SystemWatcher>,
    slow_poll: Duration,
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
    next_poll: Instant,
}

impl FileWatch {
    /// Creates a watcher without files. Every file is reported at least every 30 seconds, even
    /// without a notification.
    #[must_use]
    pub fn new() -> Self {
        Self::with_poll_interval(SLOW_POLL)
    }

    /// Like [`FileWatch::new`], with another interval between reports without a notification.
    #[must_use]
    pub fn with_poll_interval(slow_poll: Duration) -> Self {
        let files = Arc::new(WatchedFiles::default());
        let handler = files.clone();
        let watcher = notify::recommended_watcher(move |result| handler.handle_event(result));
        if let Err(error) = &watcher {
            tracing::warn!(%error, "file notifications are unavailable; files are polled twice a second");
        }
        let system = Mutex::new(SystemWatcher {
            watcher: watcher.ok(),
            folders: BTreeSet::new(),
        });
        Self {
            shared: Arc::new(WatchState {
                files,
                system,
                slow_poll,
            }),
        }
    }

    /// Follows a file. Neither the file nor its folder has to exist. Only changes after this call
    /// are reported, so the caller reads the file once after it.
    #[must_use]
    pub fn follow(&self, file: &Path) -> FileChanges {
        let followed = self.shared.files.add(file.to_owned());
        let mut changes = FileChanges {
            followed,
            watch: self.clone(),
            next_poll: Instant::now(),
        };
        changes.update_folders(false);
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
        let is_notified = tokio::select! {
            biased;
            () = self.followed.changed.notified() => true,
            () = tokio::time::sleep_until(self.next_poll) => false,
        };
        self.update_folders(!is_notified);
    }

    /// Updates the watched folders to the file's current location.
    fn update_folders(&mut self, rewatch: bool) {
        self.watch.shared.watch(rewatch);
        let is_watched = self.watch.shared.is_watching(&self.followed);
        self.next_poll = Instant::now()
            + if is_watched {
                self.watch.shared.slow_poll
            } else {
                QUICK_POLL
            };
    }
}

impl WatchState {
    /// Watches the folders of all files. With `rewatch`, folders that are already watched are
    /// registered again, because another folder may have replaced one of them.
    fn watch(&self, rewatch: bool) {
        let rewatch = self.files.was_stale() || rewatch;
        let mut system = lock(&self.system);
        let mut wanted = self.files.refresh_folders();
        loop {
            system.watch(&wanted, rewatch);
            let now = self.files.refresh_folders();
            if now == wanted {
                return;
            }
            // A folder was created before its parent was watched, so there was no notification.
            wanted = now;
        }
    }

    fn is_watching(&self, followed: &Followed) -> bool {
        let watched = followed.folders();
        !watched.is_empty() && watched.is_subset(&lock(&self.system).folders)
    }
}

impl SystemWatcher {
    fn watch(&mut self, wanted: &BTreeSet<PathBuf>, rewatch: bool) {
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
            if !rewatch && folders.contains(folder) {
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
