//! Files with more than one name.
//!
//! A hard link has no target to resolve: the second name of a secret file looks like a file of the
//! workspace. So a file whose link count is above one is compared, by device and inode, with every
//! file below the roots that fence it off. The count is read from the descriptor that is used, and
//! a file with one name costs nothing. Only Unix says how many names a file has through the
//! standard library; elsewhere every file counts as one with a single name.

use std::{
    fs::Metadata,
    path::{Path, PathBuf},
};

/// Entries that are compared with one file. Beyond it the file counts as found.
#[cfg(unix)]
const MAX_COMPARED: usize = 200_000;

/// A file, under whichever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
}

impl FileId {
    /// The file at `path` itself, if it is one with more than one name.
    pub(crate) fn of_shared(path: &Path) -> Option<Self> {
        Self::if_shared(&path.symlink_metadata().ok()?)
    }

    /// The file that `metadata` describes, if it is one with more than one name.
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

/// `true` if `file` is one of `roots` or lies below one in folders that `enter` lets pass, or if
/// there is too much to compare.
#[cfg(unix)]
pub(crate) fn is_below(file: FileId, roots: &[PathBuf], enter: impl Fn(&Path) -> bool) -> bool {
    use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
    let mut left = MAX_COMPARED;
    let mut folders = Vec::new();
    for root in roots {
        let Ok(metadata) = root.symlink_metadata() else {
            continue;
        };
        // A hard link never leaves its file system; a mount below a root is looked at all the same.
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
