//! What is done to session files beside reading and appending.

use std::io;
use std::path::Path;

use nanobot_disk::{Access, Disk, DiskFile, copy};

use crate::paths::beside;

/// Copies what lies behind `position` in the file at `path` to a file of its own beside it.
pub(crate) fn keep_torn(
    disk: &dyn Disk,
    path: &Path,
    file: &dyn DiskFile,
    position: u64,
) -> io::Result<()> {
    let aside = beside(disk, path, "torn")?;
    let mut twin = disk.open(&aside, Access::New)?;
    let copied = copy(file, position, &mut *twin);
    drop(twin);
    if copied.is_err()
        && let Err(error) = disk.remove(&aside)
    {
        // A full disk would collect beginnings of copies.
        tracing::warn!(path = %aside.display(), %error, "the beginning of a copy cannot be removed");
    }
    copied.and_then(|()| sync_names(disk, path))?;
    tracing::warn!(path = %path.display(), kept = %aside.display(), position, "torn line at the end of a session kept aside");
    Ok(())
}

/// Puts a copy of `file`, which is at `old`, at `target`, whole or not at all. Its name is not
/// durable yet.
pub(crate) fn put_copy(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    old: &Path,
    target: &Path,
) -> io::Result<()> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".draft");
    let draft = target.with_file_name(name);
    copy(file, 0, &mut *disk.open(&draft, Access::DraftOf(old))?)?;
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
    path.parent()
        .map_or(Ok(()), |folder| disk.sync_folder(folder))
}
