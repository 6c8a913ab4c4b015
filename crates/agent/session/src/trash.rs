//! Deleted sessions: files in a folder next to the sessions, with the time of the deletion in their
//! names.
//!
//! Decision: a deletion is one rename, so it is atomic and keeps every byte. No program lists the
//! folder as sessions. Retention goes by the time in the name, because a rename does not change the
//! time of the last write.

use std::io;
use std::path::{Path, PathBuf};

use chrono::{Local, NaiveDateTime, TimeZone as _};
use nanobot_disk::{Access, Disk, NewFolders, sync_names};
use nanobot_types::{SessionKey, Timestamp};

use crate::DeletedSession;
use crate::paths::{SessionPaths, key_of_file, stored_key, unused_name_next_to};

/// Name of the folder, in a folder of sessions.
const FOLDER: &str = "trash";
const MARK: &str = "deleted";
const TIME: &str = "%Y%m%dT%H%M%S";

/// Returns the folder of deleted sessions in a folder of sessions.
#[must_use]
pub fn trash_folder(sessions: &Path) -> PathBuf {
    sessions.join(FOLDER)
}

/// Returns the time at which a file of a [trash folder](trash_folder) was deleted; `None` if it is
/// not a deleted session.
#[must_use]
pub fn deleted_at(path: &Path) -> Option<Timestamp> {
    let (_, at, _) = parse_name(path)?;
    Some(at)
}

/// Returns the original file name, the time of the deletion, and the number among deletions within
/// the same second.
fn parse_name(path: &Path) -> Option<(&str, Timestamp, u32)> {
    let name = path.file_name()?.to_str()?;
    let (original, mark) = name.rsplit_once(&format!(".{MARK}-"))?;
    let (time, number) = match mark.split_once('-') {
        Some((time, number)) => (time, number.parse().ok()?),
        None => (mark, 0),
    };
    let time = NaiveDateTime::parse_from_str(time, TIME).ok()?;
    let at = Local.from_local_datetime(&time).earliest()?;
    (!original.is_empty()).then_some((original, at.fixed_offset(), number))
}

/// Moves a session file into the trash.
pub(crate) fn delete(disk: &dyn Disk, folders: &NewFolders, path: &Path) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let sessions = path.parent().ok_or_else(invalid)?;
    let folder = trash_folder(sessions);
    folders.ensure(disk, &folder)?;
    let name = path.file_name().ok_or_else(invalid)?;
    let target = unused_name_next_to(disk, &folder.join(name), MARK)?;
    disk.rename(path, &target)?;
    sync_names(disk, &target)?;
    sync_names(disk, path)
}

/// A file in the trash.
#[derive(Debug)]
pub(crate) struct TrashedFile {
    pub(crate) path: PathBuf,
    /// Its path before it was deleted.
    pub(crate) original: PathBuf,
    pub(crate) session: DeletedSession,
    number: u32,
}

/// Returns the deleted sessions of a folder of sessions.
pub(crate) fn list(disk: &dyn Disk, sessions: &Path) -> io::Result<Vec<TrashedFile>> {
    let listed = match disk.list(&trash_folder(sessions)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    Ok(listed
        .into_iter()
        .filter_map(|path| {
            let (name, at, number) = parse_name(&path)?;
            let original = sessions.join(name);
            let inside = stored_key(disk, &path).unwrap_or_default();
            let key = key_of_file(&original, inside.as_ref())?;
            Some(TrashedFile {
                original,
                session: DeletedSession { key, at },
                number,
                path,
            })
        })
        .collect())
}

/// Returns all deleted sessions, the latest first.
pub(crate) fn list_all(disk: &dyn Disk, paths: &SessionPaths) -> io::Result<Vec<TrashedFile>> {
    let mut files = Vec::new();
    for folder in paths.folders() {
        files.extend(list(disk, folder)?);
    }
    files.sort_by(|a, b| {
        (b.session.at, b.number, &a.session.key).cmp(&(a.session.at, a.number, &b.session.key))
    });
    Ok(files)
}

/// Returns the latest deleted session of a key.
pub(crate) fn find(
    disk: &dyn Disk,
    paths: &SessionPaths,
    key: &SessionKey,
) -> io::Result<Option<TrashedFile>> {
    let files = list_all(disk, paths)?;
    Ok(files.into_iter().find(|file| file.session.key == *key))
}

/// Moves a file of the trash to `target`.
pub(crate) fn restore(disk: &dyn Disk, file: &TrashedFile, target: &Path) -> io::Result<()> {
    let _open = disk.open(&file.path, Access::Read)?;
    disk.rename(&file.path, target)?;
    sync_names(disk, target)?;
    sync_names(disk, &file.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_deleted_sessions_have_a_time() {
        for (name, expected) in [
            (
                "a_1.jsonl.deleted-20261123T101112",
                Some("2026-11-23 10:11:12"),
            ),
            (
                "a_1.jsonl.deleted-20261123T101112-3",
                Some("2026-11-23 10:11:12"),
            ),
            (
                "a.deleted-x.jsonl.deleted-20261123T101112",
                Some("2026-11-23 10:11:12"),
            ),
            ("a_1.jsonl.deleted-20261323T101112", None),
            ("a_1.jsonl.deleted-", None),
            ("a_1.jsonl", None),
            (".deleted-20261123T101112", None),
        ] {
            let at = deleted_at(&Path::new("trash").join(name));
            let at = at.map(|at| at.format("%Y-%m-%d %H:%M:%S").to_string());
            assert_eq!(at.as_deref(), expected, "{name}");
        }
    }
}
