//! One receiver per account and computer: a lock on a file named after the account.
//!
//! Decision: only the operating system's lock counts, so a crash releases it; the file's content is
//! for people. If the file cannot be created, the channel runs without the lock, and only the
//! platform can detect a second receiver.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
}

/// Outcome of an attempt to take the lock.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// The lock was taken.
    Ours(Claim),
    /// Another process holds the lock; its owner text, empty if it cannot be read.
    Taken(String),
}

impl Claim {
    /// Tries to take the lock, and writes the owner into the file.
    pub(crate) fn take(path: &Path, owner: &str) -> io::Result<Claimed> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                write!(file, "{owner}")?;
                Ok(Claimed::Ours(Self { file }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // Some platforms cannot read a locked file.
                drop(file.read_to_string(&mut owner));
                Ok(Claimed::Taken(owner))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Best effort: closing the file releases it too.
        drop(self.file.unlock());
    }
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_has_one_owner_until_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("lock");
        let first = Claim::take(&path, "process 1").unwrap();
        assert!(matches!(first, Claimed::Ours(_)));
        let Claimed::Taken(owner) = Claim::take(&path, "process 2").unwrap() else {
            panic!("it is taken twice")
        };
        assert_eq!(owner, if cfg!(windows) { "" } else { "process 1" });
        drop(first);
        assert!(matches!(Claim::take(&path, "2").unwrap(), Claimed::Ours(_)));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "2");
    }
}
