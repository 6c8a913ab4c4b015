//! Operations on session files other than reading and appending.

use std::io;
use std::path::Path;

use nanobot_disk::{
    Access, Disk, DiskFile, Durability, FileDraft, copy, replace_file_with, sync_names,
};

use crate::paths::unused_name_next_to;

/// Copies the bytes after `position` in the file at `path` to a new file next to it.
pub(crate) fn save_torn_bytes(
    disk: &dyn Disk,
    path: &Path,
    file: &dyn DiskFile,
    position: u64,
) -> io::Result<()> {
    let copy_path = unused_name_next_to(disk, path, "torn")?;
    let mut copy_file = disk.open(&copy_path, Access::New)?;
    let copied = copy(file, position, &mut *copy_file);
    drop(copy_file);
    if copied.is_err()
        && let Err(error) = disk.remove(&copy_path)
    {
        // Otherwise incomplete copies would pile up on a full disk.
        tracing::warn!(path = %copy_path.display(), %error, "an incomplete copy cannot be removed");
    }
    copied.and_then(|()| sync_names(disk, path))?;
    tracing::warn!(path = %path.display(), kept = %copy_path.display(), position, "copied a torn line at the end of a session to a file of its own");
    Ok(())
}

/// Copies `file`, whose path is `old`, to `target` atomically. The new name is durable when this
/// returns.
pub(crate) fn copy_durably(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    old: &Path,
    target: &Path,
) -> io::Result<()> {
    // The sync of the content is part of the copy.
    replace_file_with(
        disk,
        target,
        FileDraft::Like(old),
        Durability::Os,
        |draft| copy(file, 0, draft),
    )?;
    sync_names(disk, target)
}

/// Renames a file that was copied, so that it is no longer found under its old name.
pub(crate) fn rename_moved(disk: &dyn Disk, old: &Path) {
    let moved = unused_name_next_to(disk, old, "moved").and_then(|moved| disk.rename(old, &moved));
    if let Err(error) = moved {
        tracing::warn!(path = %old.display(), %error, "an old session file was copied but cannot be renamed");
    }
}
