//! Opens exactly the file that was checked.
//!
//! A [`ResolvedPath`] contains no links, so on Unix it is walked folder by folder with `openat` and
//! `O_NOFOLLOW`. Any link found on the way was created after the check and is an error. This is
//! equivalent to Linux's `openat2` with `RESOLVE_NO_SYMLINKS`. It costs a system call per
//! component, but needs no fallback for kernels and containers that refuse `openat2`. On other
//! platforms the standard library opens the path by name and the race remains.
//!
//! All calls block; an async caller moves them off its runtime.

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use crate::{check::PathCheck, denied::PathDenied, links::FileId, path::PathPolicy};

#[cfg_attr(unix, path = "beneath/unix.rs")]
#[cfg_attr(not(unix), path = "beneath/portable.rs")]
mod platform;

/// A path accepted by a [`PathPolicy`](crate::PathPolicy): absolute and free of links.
#[derive(Debug, Clone)]
#[must_use]
pub struct ResolvedPath {
    path: PathBuf,
    /// The policy that accepted the path, for checks that need the opened file.
    policy: PathPolicy,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeneathEntry {
    /// Its name in the folder.
    pub name: OsString,
    /// `true` if the entry itself is a folder; `false` for a link to a folder.
    pub is_dir: bool,
    /// `true` if the entry is a link.
    pub is_link: bool,
}

impl ResolvedPath {
    pub(crate) const fn new(path: PathBuf, policy: PathPolicy) -> Self {
        Self { path, policy }
    }

    /// Returns the path for messages and for child processes. Opening it by name loses the
    /// guarantee of [`open`](Self::open).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file for reading, without waiting on pipes and without following links.
    ///
    /// # Errors
    /// Returns the file system's error; `IsADirectory` for a folder, `InvalidInput` for anything
    /// else that is not a regular file, `PermissionDenied` for a hard link to a secret file.
    pub fn open(&self) -> io::Result<File> {
        let file = platform::open(&self.path)?;
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if !kind.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        if let Some(shared) = FileId::if_shared(&metadata) {
            PathCheck::new(&self.policy)
                .reveals_no_secret(&self.path, shared)
                .map_err(refused)?;
        }
        Ok(file)
    }

    /// Lists the entries of the folder, in no particular order.
    ///
    /// # Errors
    /// Returns the file system's error; `NotADirectory` for a file.
    pub fn entries(&self) -> io::Result<Vec<BeneathEntry>> {
        platform::entries(&self.path)
    }

    /// Creates the folder and its missing parents.
    ///
    /// # Errors
    /// Returns the file system's error; `NotADirectory` if something else is there.
    pub(crate) fn create_folder(&self) -> io::Result<()> {
        platform::create_folder(&self.path)
    }

    /// Replaces the whole content of the file by `contents`, creating it and its parents if
    /// necessary.
    ///
    /// The new content is durable when this returns. It appears atomically (a temporary file in the
    /// same folder is synced and renamed; mode and owner are kept), and hard links to the old file
    /// keep the old content. If a rename is impossible, as on a file that is a mount point, the
    /// file is written in place, but never if it has more than one name.
    ///
    /// # Errors
    /// Returns the file system's error; `InvalidInput` if something that is not a regular file is
    /// there, `PermissionDenied` for a hard link to a secret or protected file.
    pub fn replace(&self, contents: &[u8]) -> io::Result<()> {
        platform::replace(&self.path, contents, &|shared| {
            PathCheck::new(&self.policy)
                .changes_nothing_fenced(&self.path, shared)
                .map_err(refused)
        })
    }

    /// Removes the file, or the link itself if the last component became one. The removal is durable
    /// when this returns.
    ///
    /// # Errors
    /// Returns the file system's error; an error for a folder.
    pub fn remove_file(&self) -> io::Result<()> {
        platform::remove_file(&self.path)
    }
}

fn refused(denied: PathDenied) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, denied)
}
