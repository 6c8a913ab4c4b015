//! Following files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::time::Instant;

use crate::followed::{Followed, Following, lock};

/// How often a look is worth it where the system tells of changes.
const SLOW_LOOK: Duration = Duration::from_secs(30);
/// How often where it does not.
const QUICK_LOOK: Duration = Duration::from_millis(500);

/// Watches folders for everybody who follows a file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FileWatch {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    following: Arc<Following>,
    system: Mutex<System>,
    slow_look: Duration,
}

/// What the system watches.
#[derive(Debug)]
struct System {
    /// `None` where it cannot.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
}

/// Tells when one file may have changed.
#[derive(Debug)]
pub struct FileChanges {
    followed: Arc<Followed>,
    watch: FileWatch,
    next_look: Instant,
}

impl FileWatch {
    /// Watches nothing yet. A look is worth it every half minute, whatever the system tells.
    #[must_use]
    pub fn new() -> Self {
        Self::looking_every(SLOW_LOOK)
    }

    /// The same with another pause between looks that the system did not ask for.
    #[must_use]
    pub fn looking_every(slow_look: Duration) -> Self {
        let following = Arc::new(Following::default());
        let hears = following.clone();
        let watcher = notify::recommended_watcher(move |told| hears.hear(told));
        if let Err(error) = &watcher {
            tracing::warn!(%error, "the system does not tell of changed files; they are looked at twice a second");
        }
        let system = Mutex::new(System {
            watcher: watcher.ok(),
            folders: BTreeSet::new(),
        });
        Self {
            shared: Arc::new(Shared {
                following,
                system,
                slow_look,
            }),
        }
    }

    /// Follows a file, which need not exist; nor need its folder. What changes from now on is told,
    /// so look at it once after this.
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
    /// Returns when a look at the file is worth it: something happened to it since this returned
    /// last, or nobody looked for long. May be dropped at any time without losing anything.
    pub async fn changed(&mut self) {
        let is_told = tokio::select! {
            biased;
            () = self.followed.news.notified() => true,
            () = tokio::time::sleep_until(self.next_look) => false,
        };
        self.watch_on(!is_told);
    }

    /// Watches where the file is now.
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

impl Shared {
    /// Has the system watch the folders of all files; with `again` also those that it should watch
    /// already: another folder may have taken the place of one.
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
            // A folder came before the one around it was watched: nobody told of it.
            wanted = now;
        }
    }

    fn watches(&self, followed: &Followed) -> bool {
        let places = followed.folders();
        !places.is_empty() && places.is_subset(&lock(&self.system).folders)
    }
}

impl System {
    fn watch(&mut self, wanted: &BTreeSet<PathBuf>, again: bool) {
        let Self {
            watcher: Some(watcher),
            folders,
        } = self
        else {
            return;
        };
        for folder in folders.difference(wanted) {
            // It is gone by itself where the folder is.
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
                    tracing::debug!(folder = %folder.display(), %error, "changes in a folder are not told");
                    folders.remove(folder);
                }
            }
        }
    }
}
