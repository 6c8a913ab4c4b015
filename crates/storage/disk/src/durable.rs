//! Durable file operations built on [`Disk`] and [`DiskFile`].

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Disk, DiskFile};

const BLOCK: usize = 64 * 1024;

/// Appends all of `bytes` to the file.
///
/// # Errors
/// Returns the platform's error. Part of `bytes` may have been written.
pub fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Appends `bytes` to a file that is `length` bytes long, and syncs once. If that fails, the file
/// is truncated to `length` again, provided the disk allows it.
///
/// # Errors
/// Returns the platform's error.
pub fn append(file: &mut dyn DiskFile, bytes: &[u8], length: u64) -> io::Result<()> {
    write_all(file, bytes)
        .and_then(|()| file.sync())
        .map_err(|error| match file.truncate(length) {
            Ok(()) => error,
            Err(_) => io::Error::new(
                error.kind(),
                format!("{error}; what was written of it is still there"),
            ),
        })
}

/// Reads into `buffer` from `position` until it is full or the file ends, and returns the number of
/// bytes read.
///
/// # Errors
/// Returns the platform's error.
pub fn read_some(file: &dyn DiskFile, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(position + filled as u64, rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the bytes from `position` to the end of the file, at most `limit` of them.
///
/// # Errors
/// Returns the platform's error.
pub fn read_to_end(file: &dyn DiskFile, position: u64, limit: u64) -> io::Result<Vec<u8>> {
    let length = file.stamp()?.length.saturating_sub(position).min(limit);
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let read = read_some(file, position, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Appends the content of `from`, starting at `position`, to the file `to`, and syncs `to`.
///
/// # Errors
/// Returns the platform's error. `to` may then hold part of the content.
pub fn copy(from: &dyn DiskFile, mut position: u64, to: &mut dyn DiskFile) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        let read = read_some(from, position, &mut block)?;
        let Some(bytes) = block.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return to.sync();
        };
        write_all(to, bytes)?;
        position += read as u64;
    }
}

/// Creates folders and tracks which of their names are not durable yet.
#[derive(Debug, Default)]
pub struct NewFolders {
    /// Folders that have gained a subfolder since they were last synced.
    unsynced: Mutex<BTreeSet<PathBuf>>,
}

impl NewFolders {
    /// Creates a folder and all missing parents. When this returns, the names of all folders it
    /// created are durable, including those from earlier calls that failed.
    ///
    /// # Errors
    /// Returns the platform's error.
    pub fn ensure(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        self.create(disk, folder)?;
        let unsynced = self.unsynced().clone();
        for parent in unsynced {
            disk.sync_folder(&parent)?;
            self.unsynced().remove(&parent);
        }
        Ok(())
    }

    fn create(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        if folder.as_os_str().is_empty() || disk.exists(folder)? {
            return Ok(());
        }
        let Some(parent) = folder.parent() else {
            return Ok(());
        };
        self.create(disk, parent)?;
        self.unsynced().insert(parent.to_owned());
        match disk.create_folder(folder) {
            // Another task or process created it first.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    fn unsynced(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Access, LocalDisk};

    use super::*;

    #[test]
    fn appended_data_is_read_and_copied() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let folders = NewFolders::default();
        folders.ensure(&LocalDisk, &folder).unwrap();
        folders.ensure(&LocalDisk, &folder).unwrap();
        let path = folder.join("log");
        let text = "x".repeat(BLOCK + 7);
        for (length, part) in [(0, "head "), (5, text.as_str())] {
            let mut file = LocalDisk.open(&path, Access::Append).unwrap();
            file.lock().unwrap();
            assert_eq!(file.stamp().unwrap().length, length);
            append(&mut *file, part.as_bytes(), length).unwrap();
        }
        let file = LocalDisk.open(&path, Access::Read).unwrap();
        let mut twin = LocalDisk.open(&folder.join("twin"), Access::New).unwrap();
        copy(&*file, 5, &mut *twin).unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("twin")).unwrap(), text);
        assert_eq!(read_to_end(&*file, 3, 4).unwrap(), b"d xx");
        assert_eq!(read_to_end(&*file, 1 << 40, 4).unwrap(), b"");
        let taken = LocalDisk.open(&path, Access::New).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    }
}
