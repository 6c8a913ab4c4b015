//! What is done to session files beside reading and appending.

use std::io;
use std::path::Path;

use nanobot_disk::{Access, Disk, DiskFile, copy};

use crate::paths::beside;

/// Copies what lies behind `position` in the file at `path` to a file of its own beside it.
pub(crate) fn keep_torn(disk: &dyn Disk, path: &Path, file: &dyn DiskFile, position: u64) -> io::Result<()> {
    let aside = beside(disk, path, "torn")?;
    copy_to(disk, file, position, &aside)?;
    sync_names(disk, path)?;
    tracing::warn!(path = %path.display(), kept = %aside.display(), position, "torn line at the end of a session kept aside");
    Ok(())
}

/// Puts a copy of an open file at `target`, whole or not at all. Its name is not durable yet.
pub(crate) fn put_copy(disk: &dyn Disk, file: &dyn DiskFile, target: &Path) -> io::Result<()> {
    let draft = beside(disk, target, "draft")?;
    copy_to(disk, file, 0, &draft)?;
    disk.rename(&draft, target)
}

/// Gives a file that was copied another name, so that it is not found under the old one.
pub(crate) fn put_away(disk: &dyn Disk, old: &Path) {
    let moved = beside(disk, old, "moved").and_then(|moved| disk.rename(old, &moved));
    if let Err(error) = moved {
        tracing::warn!(path = %old.display(), %error, "an old session file was copied but cannot be renamed");
    }
}

/// Makes the names beside a path durable.
pub(crate) fn sync_names(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| disk.sync_folder(folder))
}

/// A copy that fails leaves nothing, or a full disk would collect beginnings of copies.
fn copy_to(disk: &dyn Disk, file: &dyn DiskFile, position: u64, target: &Path) -> io::Result<()> {
    let mut twin = disk.open(target, Access::New)?;
    let copied = copy(file, position, &mut *twin);
    drop(twin);
    if copied.is_err()
        && let Err(error) = disk.remove(target)
    {
        tracing::warn!(path = %target.display(), %error, "the beginning of a copy cannot be removed");
    }
    copied
}
