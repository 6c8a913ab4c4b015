//! A small JSON file that several processes read and change.
//!
//! Decision: nothing is held in memory. Every change reads the file, modifies it and replaces it
//! under the lock of a separate file, and every query reads it, so that what any process writes
//! counts at once.

use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Durability, FileDraft, LocalDisk, replace_file};

/// Maximum size of a shared file that is read, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// Error of a shared file.
#[derive(Debug)]
pub enum SharedFileError {
    /// The file exists but cannot be parsed.
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Parse error.
        source: serde_json::Error,
    },
    /// Disk I/O failed, or the file has more than 8 MiB.
    Io {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
}

/// Waits for the lock of a file across processes, which is that of another file, `NAME.lock`: a file
/// that is replaced cannot be locked itself. Creates the folder if it is missing. Dropping the result
/// releases the lock. Blocks.
///
/// # Errors
/// Returns the platform's error.
pub fn lock_beside(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let lock = File::options()
        .create(true)
        .append(true)
        .open(sibling(path, "lock"))?;
    lock.lock()?;
    Ok(lock)
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{ending}"));
    name.into()
}

/// A JSON file with a `T`. A missing file is the default value. Every method blocks for disk I/O.
/// Cheap to clone.
#[derive(Debug)]
pub struct SharedFile<T> {
    path: Arc<Path>,
    content: PhantomData<fn() -> T>,
}

impl<T> Clone for SharedFile<T> {
    fn clone(&self) -> Self {
        Self {
            path: Arc::clone(&self.path),
            content: PhantomData,
        }
    }
}

impl<T> SharedFile<T> {
    /// Names a file, which need not exist.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.into(),
            content: PhantomData,
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `true` if the file may exist.
    #[must_use]
    pub fn exists(&self) -> bool {
        !matches!(fs::metadata(&self.path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    fn failed(&self, source: io::Error) -> SharedFileError {
        SharedFileError::Io {
            path: self.path().to_owned(),
            source,
        }
    }
}

impl<T: Clone + Default + PartialEq + Serialize + DeserializeOwned> SharedFile<T> {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, too large, or cannot be read.
    pub fn read(&self) -> Result<T, SharedFileError> {
        let failed = |source| self.failed(source);
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                return Err(failed(io::ErrorKind::FileTooLarge.into()));
            }
            Ok(_) => {}
        }
        let bytes = fs::read(&self.path).map_err(failed)?;
        serde_json::from_slice(&bytes).map_err(|source| SharedFileError::Damaged {
            path: self.path().to_owned(),
            source,
        })
    }

    /// Changes the file under an exclusive lock across processes. It is written only if it changed,
    /// and then it is durable when this returns, and private to its owner. A damaged file is first
    /// renamed to `NAME.damaged-MILLISECONDS`, which `on_damage` receives with the error.
    ///
    /// # Errors
    /// Returns [`SharedFileError::Io`] if the disk fails. The file has its old content then.
    pub fn edit<R>(
        &self,
        on_damage: impl FnOnce(&Path, &serde_json::Error),
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, SharedFileError> {
        let failed = |source| self.failed(source);
        let _lock = lock_beside(&self.path).map_err(failed)?;
        let before = match self.read() {
            Err(SharedFileError::Damaged { source, .. }) => {
                let aside = self.move_aside().map_err(failed)?;
                on_damage(&aside, &source);
                T::default()
            }
            read => read?,
        };
        let mut content = before.clone();
        let result = change(&mut content);
        if content != before {
            let bytes = serde_json::to_vec_pretty(&content).map_err(|e| failed(e.into()))?;
            let (draft, durability) = (FileDraft::Private, Durability::Disk);
            replace_file(&LocalDisk, &self.path, &bytes, draft, durability).map_err(failed)?;
        }
        Ok(result)
    }

    fn move_aside(&self) -> io::Result<PathBuf> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = now.map_or(0, |now| now.as_millis());
        let aside = sibling(&self.path, &format!("damaged-{millis}"));
        fs::rename(&self.path, &aside)?;
        Ok(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(file: &SharedFile<Vec<u32>>, number: u32) -> Vec<PathBuf> {
        let mut damaged = Vec::new();
        let on_damage = |aside: &Path, _: &serde_json::Error| damaged.push(aside.to_owned());
        file.edit(on_damage, |numbers| numbers.push(number))
            .unwrap();
        damaged
    }

    #[test]
    fn changes_of_many_threads_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = SharedFile::at(&folder.path().join("new/numbers.json"));
        assert!(!file.exists());
        std::thread::scope(|scope| {
            for number in 0..20 {
                let file = &file;
                scope.spawn(move || add(file, number));
            }
        });
        let mut numbers = file.read().unwrap();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn damaged_file_is_moved_aside_by_a_change_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers.json");
        fs::write(&path, "[1, 2").unwrap();
        let file = SharedFile::at(&path);
        assert!(matches!(file.read(), Err(SharedFileError::Damaged { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "[1, 2");
        let damaged = add(&file, 3);
        assert_eq!(fs::read_to_string(&damaged[0]).unwrap(), "[1, 2");
        assert_eq!(file.read().unwrap(), [3]);
    }

    #[test]
    fn unchanged_and_too_large_files_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = SharedFile::<Vec<u32>>::at(&folder.path().join("numbers.json"));
        file.edit(|_, _| {}, |_| ()).unwrap();
        assert!(!file.exists());
        let large = File::create(file.path()).unwrap();
        large.set_len(MAX_BYTES + 1).unwrap();
        let refused = file.edit(|_, _| {}, |numbers| numbers.push(1));
        assert!(matches!(refused, Err(SharedFileError::Io { .. })));
        assert_eq!(large.metadata().unwrap().len(), MAX_BYTES + 1);
    }
}
