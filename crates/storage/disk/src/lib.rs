//! File operations of the stores as a trait, so that tests can inject faults.
//!
//! Decision: [`Disk`] has only the operations that stores of user data need to append, to replace
//! and to find files. Each can fail, and each documents what survives a power cut. Programs use
//! [`LocalDisk`]; tests use disks that fail or forget. Operations built on these (a durable append,
//! a folder with a durable name, a replaced file, a JSON file that processes share) are here too, so
//! that every store does them the same way.

mod durable;
mod local;
mod replace;
mod shared;

pub use durable::{NewFolders, append, copy, read_some, read_to_end, write_all};
pub use local::LocalDisk;
pub use replace::{
    DRAFT_PREFIX, DRAFT_SUFFIX, Durability, FileDraft, replace_file, replace_file_with, sync_names,
};
pub use shared::{SharedFile, SharedFileError, lock_beside};

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<'a> {
    /// Open for reading.
    Read,
    /// Open for reading and appending. The file is created if it is missing, readable by its owner
    /// only.
    Append,
    /// Create for writing; the file must not exist yet. It is readable by its owner only.
    New,
    /// Create or truncate a file that will replace another. It gets the permissions of the other
    /// file if that exists.
    ReplacementFor(&'a Path),
}

/// Metadata to detect that a file was replaced or changed since it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Length in bytes.
    pub length: u64,
    /// Time of the last write, if the platform reports it.
    pub modified: Option<SystemTime>,
    /// Identity of the file (on Unix its inode number); 0 if the platform does not report one.
    pub identity: u64,
}

/// Files and folders. Every method fails with the platform's error.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file. A new file's name is durable after [`Disk::sync_folder`].
    ///
    /// # Errors
    /// Returns the platform's error.
    fn open(&self, path: &Path, access: Access<'_>) -> io::Result<Box<dyn DiskFile>>;

    /// Returns `true` if there is something at `path`, following links.
    ///
    /// # Errors
    /// Returns the platform's error if that cannot be determined.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Lists the entries of a folder, in no particular order.
    ///
    /// # Errors
    /// Returns the platform's error; [`io::ErrorKind::NotFound`] if there is no such folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Creates one folder. Its parent must exist.
    ///
    /// # Errors
    /// Returns the platform's error; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Renames a file within its file system, atomically replacing a file that has the new name. At
    /// every moment, and after a power cut, the name refers to either the old or the new file.
    ///
    /// # Errors
    /// Returns the platform's error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Returns the platform's error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable, if the platform supports it.
    ///
    /// # Errors
    /// Returns the platform's error.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Returns the canonical path, with links resolved.
    ///
    /// # Errors
    /// Returns the platform's error; [`io::ErrorKind::NotFound`] if nothing is there.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
}

/// An open file. Dropping it closes the file and releases its lock.
pub trait DiskFile: Send + fmt::Debug {
    /// Returns the current metadata.
    ///
    /// # Errors
    /// Returns the platform's error.
    fn stamp(&self) -> io::Result<FileStamp>;

    /// Waits for the exclusive lock and holds it until the file is closed. Does nothing on file
    /// systems without locks.
    ///
    /// # Errors
    /// Returns the platform's error.
    fn lock(&self) -> io::Result<()>;

    /// Reads from `position` and returns the number of bytes read, 0 at the end. May read fewer
    /// bytes than there are.
    ///
    /// # Errors
    /// Returns the platform's error.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Appends to the file and returns the number of bytes written. May write fewer bytes than
    /// given.
    ///
    /// # Errors
    /// Returns the platform's error.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Truncates the file to `length` bytes.
    ///
    /// # Errors
    /// Returns the platform's error.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes the file's content durable, but not its name.
    ///
    /// # Errors
    /// Returns the platform's error. Bytes written since the last sync may or may not be durable
    /// then.
    fn sync(&mut self) -> io::Result<()>;
}
