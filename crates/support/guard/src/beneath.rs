//! Opening exactly what was checked.
//!
//! A [`ResolvedPath`] holds no links, so on Unix it is walked folder by folder with `openat` and
//! `O_NOFOLLOW`: any link met on the way was put there after the check, and ends the walk. That is
//! what Linux' `openat2` does with `RESOLVE_NO_SYMLINKS`, for the price of a system call per
//! component and without needing a second path for kernels and containers that refuse it.
//! Elsewhere the standard library opens the path and the race remains.
//!
//! All calls block; an async caller moves them off its runtime.

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use crate::{denied::PathDenied, links::FileId, path::PathPolicy};

#[cfg_attr(unix, path = "beneath/unix.rs")]
#[cfg_attr(not(unix), path = "beneath/portable.rs")]
mod platform;

/// A path that a [`PathPolicy`](crate::PathPolicy) let pass: absolute and free of links.
#[derive(Debug, Clone)]
#[must_use]
pub struct ResolvedPath {
    path: PathBuf,
    /// The policy that let it pass, for what only the opened file tells.
    policy: PathPolicy,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the folder.
    pub name: OsString,
    /// Whether it is a folder itself; a link to a folder is not.
    pub is_dir: bool,
    /// Whether it is a link.
    pub is_link: bool,
}

impl ResolvedPath {
    pub(crate) const fn new(path: PathBuf, policy: PathPolicy) -> Self {
        Self { path, policy }
    }

    /// The path for messages and for programs that are started; opening it by name again gives up
    /// what [`open`](Self::open) guarantees.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file for reading, without waiting and without following links.
    ///
    /// # Errors
    /// Errors of the file system; `IsADirectory` for a folder, `InvalidInput` for anything else
    /// that is not a regular file, `PermissionDenied` for another name of a secret file.
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
            self.policy
                .reveals_no_secret(&self.path, shared)
                .map_err(refused)?;
        }
        Ok(file)
    }

    /// The entries of the folder, in no order.
    ///
    /// # Errors
    /// What the file system says; `NotADirectory` for a file.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        platform::entries(&self.path)
    }

    /// Makes the folder and those above it, where they are missing.
    ///
    /// # Errors
    /// What the file system says; `NotADirectory` if something else is there.
    pub(crate) fn create_folder(&self) -> io::Result<()> {
        platform::create_folder(&self.path)
    }

    /// Makes `contents` the whole content of the file, creating it and its parents if need be.
    ///
    /// The new content is durable when this returns. It appears in one step (a temporary file in the
    /// same folder, synced and renamed; mode and owner are kept), and other names of the old file keep
    /// the old content. Only where a rename is impossible, as on a file that is mounted by itself, is
    /// it written in place, and never if it has more than one name.
    ///
    /// # Errors
    /// What the file system says; `InvalidInput` if something that is not a regular file is there,
    /// `PermissionDenied` for another name of a secret or protected file.
    pub fn replace(&self, contents: &[u8]) -> io::Result<()> {
        platform::replace(&self.path, contents, &|shared| {
            self.policy
                .changes_nothing_fenced(&self.path, shared)
                .map_err(refused)
        })
    }
}

fn refused(denied: PathDenied) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, denied)
}
