//! Replaces files atomically.
//!
//! Decision: the new content is written to a draft in the same folder, and the draft is renamed, so
//! that readers and a power cut find the old or the new content and never a mixture. A writer that
//! holds a lock uses a draft of a fixed name, which its next write overwrites if a crash left it. A
//! writer without a lock uses a random name with the prefix [`DRAFT_PREFIX`].

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::{Access, Disk, DiskFile, write_all};

/// Prefix of the random names of drafts, by which a sweep recognises drafts that a crash left.
pub const DRAFT_PREFIX: &str = ".part-";
/// Suffix that the fixed names of drafts add to the name of their file.
pub const DRAFT_SUFFIX: &str = ".draft";
/// Maximum number of random names tried for one draft.
const NAMES_TRIED: u32 = 100;

/// Failures that a finished write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The data is on disk: a power cut loses nothing.
    #[default]
    Disk,
    /// The operating system has the data: a crash of the process loses nothing. A power cut or a
    /// system crash may lose data written in the last seconds, block by block and in any order. Of
    /// appended data the rest is readable and in order, and data that was on disk before is not
    /// affected.
    Os,
}

/// Name and permissions of the draft that replaces a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDraft<'a> {
    /// A random name; the new file is readable by its owner only. For writers without a lock.
    Random,
    /// A fixed name; the new file is readable by its owner only. For writers that hold a lock, or
    /// whose content is checked when it is read.
    Private,
    /// A fixed name; the new file gets the permissions of this file if it exists. For writers that
    /// hold a lock, or whose content is checked when it is read.
    Like(&'a Path),
}

/// Replaces a file atomically. With [`Durability::Disk`] the content and the name are durable when
/// this returns.
///
/// # Errors
/// Returns the platform's error. The file has its old content then, unless the folder could not be
/// synced.
pub fn replace_file(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    draft: FileDraft<'_>,
    durability: Durability,
) -> io::Result<()> {
    replace_file_with(disk, path, draft, durability, |file| write_all(file, bytes))
}

/// Replaces a file like [`replace_file`]; `fill` writes the content.
///
/// # Errors
/// Same as [`replace_file`], or the error of `fill`.
pub fn replace_file_with(
    disk: &dyn Disk,
    path: &Path,
    draft: FileDraft<'_>,
    durability: Durability,
    fill: impl FnOnce(&mut dyn DiskFile) -> io::Result<()>,
) -> io::Result<()> {
    let (name, mut file) = open(disk, path, draft)?;
    let filled = fill(&mut *file).and_then(|()| match durability {
        Durability::Disk => file.sync(),
        Durability::Os => Ok(()),
    });
    drop(file);
    let placed = filled.and_then(|()| disk.rename(&name, path));
    if placed.is_err() && draft == FileDraft::Random {
        // The first error is the one to report.
        drop(disk.remove(&name));
    }
    placed?;
    match durability {
        Durability::Disk => sync_names(disk, path),
        Durability::Os => Ok(()),
    }
}

/// Makes the names in the folder of `path` durable.
///
/// # Errors
/// Returns the platform's error.
pub fn sync_names(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |folder| disk.sync_folder(folder))
}

fn open(
    disk: &dyn Disk,
    path: &Path,
    draft: FileDraft<'_>,
) -> io::Result<(PathBuf, Box<dyn DiskFile>)> {
    let mut fixed = path.file_name().unwrap_or_default().to_owned();
    fixed.push(DRAFT_SUFFIX);
    let fixed = path.with_file_name(fixed);
    match draft {
        FileDraft::Like(like) => {
            let file = disk.open(&fixed, Access::ReplacementFor(like))?;
            Ok((fixed, file))
        }
        FileDraft::Private => {
            match disk.remove(&fixed) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = disk.open(&fixed, Access::New)?;
            Ok((fixed, file))
        }
        FileDraft::Random => open_random(disk, path),
    }
}

fn open_random(disk: &dyn Disk, path: &Path) -> io::Result<(PathBuf, Box<dyn DiskFile>)> {
    let mut tried = 1;
    loop {
        let name = path.with_file_name(random_name());
        match disk.open(&name, Access::New) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_TRIED => {
                tried += 1;
            }
            opened => return Ok((name, opened?)),
        }
    }
}

/// Returns a name that other writers do not choose at the same time: the time, the process, and a
/// number within the process.
fn random_name() -> OsString {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    format!("{DRAFT_PREFIX}{nanos:x}-{process:x}-{number:x}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalDisk;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = LocalDisk
            .list(folder)
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_and_no_draft_remains() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.json");
        for draft in [
            FileDraft::Random,
            FileDraft::Private,
            FileDraft::Like(&path),
        ] {
            for durability in [Durability::Disk, Durability::Os] {
                let content = format!("{draft:?} {durability:?}");
                replace_file(&LocalDisk, &path, content.as_bytes(), draft, durability).unwrap();
                assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
                assert_eq!(names(root.path()), ["a.json"]);
            }
        }
    }

    #[test]
    fn orphaned_draft_is_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.json");
        for draft in [FileDraft::Private, FileDraft::Like(&path)] {
            std::fs::write(root.path().join("a.json.draft"), "a long old draft").unwrap();
            replace_file(&LocalDisk, &path, b"new", draft, Durability::Disk).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
            assert_eq!(names(root.path()), ["a.json"]);
        }
    }

    #[test]
    fn failed_write_keeps_the_old_file_and_removes_the_draft() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.json");
        std::fs::write(&path, "old").unwrap();
        let failed = replace_file_with(
            &LocalDisk,
            &path,
            FileDraft::Random,
            Durability::Disk,
            |file| {
                write_all(file, b"new")?;
                Err(io::ErrorKind::StorageFull.into())
            },
        );
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(root.path()), ["a.json"]);
    }

    #[test]
    fn random_draft_names_are_unique_with_the_sweep_prefix() {
        let (one, other) = (random_name(), random_name());
        assert_ne!(one, other);
        assert!(one.to_string_lossy().starts_with(".part-"));
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_private_or_copied() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.json");
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        for draft in [FileDraft::Random, FileDraft::Private] {
            replace_file(&LocalDisk, &path, b"x", draft, Durability::Os).unwrap();
            assert_eq!(mode(), 0o600, "{draft:?}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        replace_file(
            &LocalDisk,
            &path,
            b"y",
            FileDraft::Like(&path),
            Durability::Os,
        )
        .unwrap();
        assert_eq!(mode(), 0o640);
    }
}
