//! Detects hard links to secret and protected files.
//!
//! A hard link has no target to resolve: the second name of a secret file looks like a file of the
//! workspace. So a file whose link count is above one is compared, by device and inode, with every
//! file below the denied roots. The count is read from the descriptor that is used, and a file with
//! one name costs nothing. Through the standard library only Unix reports the link count; on other
//! platforms every file is treated as having a single name.

use std::{
    fs::Metadata,
    path::{Path, PathBuf},
};

/// Maximum number of entries compared with one file. If there are more, the file counts as found.
#[cfg(unix)]
const MAX_COMPARED: usize = 200_000;

/// Identity of a file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

impl FileId {
    /// Returns the identity of the file at `path`, if it is a regular file with more than one name.
    pub(crate) fn of_shared(path: &Path) -> Option<Self> {
        Self::if_shared(&path.symlink_metadata().ok()?)
    }

    /// Returns the identity of the file described by `metadata`, if it is a regular file with more
    /// than one name.
    #[cfg(unix)]
    pub(crate) fn if_shared(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let is_shared = metadata.is_file() && metadata.nlink() > 1;
        is_shared.then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn if_shared(_: &Metadata) -> Option<Self> {
        None
    }
}

/// Returns `true` if `file` is one of `roots` or lies below one, in folders accepted by `enter`, or
/// if there are too many entries to compare.
#[cfg(unix)]
pub(crate) fn is_below(file: FileId, roots: &[PathBuf], enter: impl Fn(&Path) -> bool) -> bool {
    use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
    let mut left = MAX_COMPARED;
    let mut folders = Vec::new();
    for root in roots {
        let Ok(metadata) = root.symlink_metadata() else {
            continue;
        };
        // A hard link never leaves its file system, but mounts below a root are searched all the
        // same.
        if metadata.is_dir() {
            folders.push(root.clone());
        } else if (metadata.dev(), metadata.ino()) == (file.device, file.inode) {
            return true;
        }
    }
    while let Some(folder) = folders.pop() {
        let Ok(entries) = folder.read_dir() else {
            continue;
        };
        for entry in entries.flatten() {
            let Some(rest) = left.checked_sub(1) else {
                return true;
            };
            left = rest;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && enter(&entry.path()) {
                folders.push(entry.path());
            } else if entry.ino() == file.inode
                && entry.metadata().is_ok_and(|metadata| {
                    (metadata.dev(), metadata.ino()) == (file.device, file.inode)
                })
            {
                return true;
            }
        }
    }
    false
}

#[cfg(not(unix))]
pub(crate) fn is_below(_: FileId, _: &[PathBuf], _: impl Fn(&Path) -> bool) -> bool {
    false
}
