//! What stores do to files, behind a trait, so that faults can be injected.
//!
//! Decision: [`Disk`] has the operations that stores of people's data need to append, to replace
//! and to find, and no more; each can fail, and each says what survives a power cut. Programs use
//! [`LocalDisk`]; tests use disks that fail or forget. What is built from the operations (a durable
//! append, a folder with a durable name) is here too, so that every store does it the same way.

mod durable;
mod local;

pub use durable::{NewFolders, append, copy, read_some, read_to_end, write_all};
pub use local::LocalDisk;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<'a> {
    /// To read it.
    Read,
    /// To read it and write behind its end. It is made first if need be, for its owner alone.
    Append,
    /// To write a file that must not exist yet, for its owner alone.
    New,
    /// To write a file from its beginning that will replace another and has its permissions, where
    /// that other exists.
    DraftOf(&'a Path),
}

/// What tells that a file is not the one that was last seen, or not as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its length in bytes.
    pub length: u64,
    /// When it was written to, where the platform says so.
    pub modified: Option<SystemTime>,
    /// Which file it is, where the platform says so; else 0.
    pub identity: u64,
}

/// Files and folders. Every method fails with what the platform says.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file. A new file's name is durable after [`Disk::sync_folder`].
    ///
    /// # Errors
    /// The platform's.
    fn open(&self, path: &Path, access: Access<'_>) -> io::Result<Box<dyn DiskFile>>;

    /// Whether there is something at `path`, links followed.
    ///
    /// # Errors
    /// When that cannot be told.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// What is in a folder, in no order.
    ///
    /// # Errors
    /// The platform's; [`io::ErrorKind::NotFound`] when there is no such folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Makes one folder in a folder that exists.
    ///
    /// # Errors
    /// The platform's; [`io::ErrorKind::AlreadyExists`] when the name is taken.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Gives a file another name in the same file system, in place of what has that name: at
    /// every moment, and after a power cut, that name stands for the one or the other.
    ///
    /// # Errors
    /// The platform's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The platform's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable, where the platform can.
    ///
    /// # Errors
    /// The platform's.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The path with its links followed.
    ///
    /// # Errors
    /// The platform's; [`io::ErrorKind::NotFound`] when nothing is there.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
}

/// An open file. Closed when it is dropped, which gives its lock up.
pub trait DiskFile: Send + fmt::Debug {
    /// How it is now.
    ///
    /// # Errors
    /// The platform's.
    fn stamp(&self) -> io::Result<Stamp>;

    /// Waits until nobody else holds its lock, and holds it until it is closed. A file system that
    /// knows no locks gives none.
    ///
    /// # Errors
    /// The platform's.
    fn lock(&self) -> io::Result<()>;

    /// Reads from a position: how many bytes, 0 at the end. May read fewer than there are.
    ///
    /// # Errors
    /// The platform's.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes behind the end: how many bytes. May write fewer than given.
    ///
    /// # Errors
    /// The platform's.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Takes away what lies behind `length`.
    ///
    /// # Errors
    /// The platform's.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes its content durable; its name is not thereby.
    ///
    /// # Errors
    /// The platform's. What was written since the last time may or may not be durable then.
    fn sync(&mut self) -> io::Result<()>;
}
