//! Placeholders for protected paths that do not exist.
//!
//! A path can only be mounted over. So before a command starts, something empty is put where a
//! protected path is missing, and is removed when the last command that needs it has ended. If this
//! process is killed in between, something empty is left.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Placeholders of all commands of this process, and how many commands need each.
static IN_USE: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

/// Placeholders that exist as long as this value.
#[derive(Debug, Default)]
pub struct Placeholders(Vec<PathBuf>);

impl Placeholders {
    /// Puts something empty at each path: a file if its name has an extension, otherwise a folder.
    /// Parents have to exist; a path whose parent is missing gets none.
    pub(crate) fn at(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut in_use = in_use();
        let mut placed = Vec::new();
        for path in paths {
            if let Some(commands) = in_use.get_mut(&path) {
                *commands += 1;
                placed.push(path);
            } else if create(&path).is_ok() {
                in_use.insert(path.clone(), 1);
                placed.push(path);
            }
        }
        Self(placed)
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        let mut in_use = in_use();
        for path in &self.0 {
            let Some(commands) = in_use.get_mut(path) else {
                continue;
            };
            *commands -= 1;
            if *commands == 0 {
                in_use.remove(path);
                remove_if_empty(path);
            }
        }
    }
}

/// Returns `true` if a placeholder of this process is at `path`.
pub(crate) fn is_in_use(path: &Path) -> bool {
    in_use().contains_key(path)
}

fn in_use() -> MutexGuard<'static, BTreeMap<PathBuf, usize>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn create(path: &Path) -> std::io::Result<()> {
    if path.extension().is_some() {
        fs::File::create_new(path).map(drop)
    } else {
        fs::create_dir(path)
    }
}

/// Removes a placeholder, unless the program has put something there meanwhile.
fn remove_if_empty(path: &Path) {
    let Ok(metadata) = path.symlink_metadata() else {
        return;
    };
    let removed = if metadata.is_dir() {
        fs::remove_dir(path)
    } else if metadata.is_file() && metadata.len() == 0 {
        fs::remove_file(path)
    } else {
        return;
    };
    if let Err(error) = removed {
        tracing::debug!(path = %path.display(), %error, "a placeholder stays");
    }
}
