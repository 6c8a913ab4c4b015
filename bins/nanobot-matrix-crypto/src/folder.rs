//! The folder of a store, and its lock.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use nanobot_matrix_crypto::protocol::Failure;

use crate::fault::{failed, refused};

/// A folder that no other process has open, until it is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, makes it private and locks it. The lock is the
    /// operating system's on the file `lock`, which remains.
    pub(crate) fn lock(path: &Path) -> Result<Self, Failure> {
        if !path.is_absolute() {
            return Err(refused("the folder of the store is not an absolute path"));
        }
        fs::create_dir_all(path).map_err(failed("the folder of the store cannot be created"))?;
        let path = path
            .canonicalize()
            .map_err(failed("the folder of the store cannot be opened"))?;
        make_private(&path).map_err(failed("the folder of the store cannot be made private"))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join("lock"))
            .map_err(failed("the lock of the store cannot be opened"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _lock: file }),
            Err(TryLockError::WouldBlock) => Err(refused(
                "another process has the store of Matrix encryption open",
            )),
            Err(TryLockError::Error(error)) => Err(failed("the store cannot be locked")(error)),
        }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the rights of others to a folder and to its files.
#[cfg(unix)]
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_folder: &Path) -> io::Result<()> {
    Ok(())
}
