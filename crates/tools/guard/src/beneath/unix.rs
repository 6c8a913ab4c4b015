//! Walks paths with `openat`; see the parent module.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, fchown},
        },
    },
    path::{Component, Path},
    sync::atomic::{AtomicU64, Ordering},
};

use nix::{
    dir::{Dir, Type},
    errno::Errno,
    fcntl::{OFlag, open as open_path, openat, renameat},
    sys::stat::{Mode, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};

use super::BeneathEntry;
use crate::links::FileId;

/// Flags for an intermediate folder, which is not read. `O_PATH`, where it exists, needs no read
/// permission.
#[cfg(any(target_os = "linux", target_os = "android"))]
const FOLDER_PATH: OFlag = OFlag::O_PATH.union(FOLDER);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FOLDER_PATH: OFlag = FOLDER;

const FOLDER: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);
/// Non-blocking, so that a pipe swapped in cannot hang the caller.
const FILE: OFlag = OFlag::O_NOFOLLOW
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_NONBLOCK);

/// Distinguishes temporary files of this process.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

pub(super) fn open(path: &Path) -> io::Result<File> {
    let (folder, name) = parent(path, false)?;
    Ok(File::from(openat(
        folder,
        name,
        FILE | OFlag::O_RDONLY,
        Mode::empty(),
    )?))
}

pub(super) fn entries(path: &Path) -> io::Result<Vec<BeneathEntry>> {
    let (parent, name) = parent(path, false)?;
    let folder = openat(parent, name, FOLDER | OFlag::O_RDONLY, Mode::empty())?;
    let mut entries = Vec::new();
    for entry in Dir::from_fd(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let name = OsStr::from_bytes(name);
        let (is_dir, is_link) = match entry.file_type() {
            Some(kind) => (kind == Type::Directory, kind == Type::Symlink),
            // Some file systems do not report the type.
            None => path
                .join(name)
                .symlink_metadata()
                .map_or((false, false), |metadata| {
                    (metadata.is_dir(), metadata.is_symlink())
                }),
        };
        entries.push(BeneathEntry {
            name: name.to_owned(),
            is_dir,
            is_link,
        });
    }
    Ok(entries)
}

pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    // `parent` creates the folder that contains the last component.
    parent(&path.join("x"), true).map(drop)
}

/// Replaces the content of a file. `judge` decides about a file with more than one name.
pub(super) fn replace(
    path: &Path,
    contents: &[u8],
    judge: &dyn Fn(FileId) -> io::Result<()>,
) -> io::Result<()> {
    let (folder, name) = parent(path, true)?;
    let existing = existing(&folder, name)?;
    if let Some(shared) = existing.as_ref().and_then(FileId::if_shared) {
        judge(shared)?;
    }
    match by_rename(&folder, name, existing.as_ref(), contents) {
        Err(error) if existing.is_some() && rename_is_impossible(&error) => {
            in_place(&folder, name, contents)
        }
        done => done,
    }
}

/// Returns the metadata of the existing file, or an error if it must not be replaced.
fn existing(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Metadata>> {
    let file = match openat(folder, name, FILE | OFlag::O_WRONLY, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(Some(metadata))
}

fn by_rename(
    folder: &OwnedFd,
    name: &OsStr,
    existing: Option<&Metadata>,
    contents: &[u8],
) -> io::Result<()> {
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let temporary = OsString::from(format!(".nanobot-{}-{number}.tmp", std::process::id()));
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | FILE;
    let mut file = File::from(openat(
        folder,
        temporary.as_os_str(),
        flags,
        Mode::from_bits_truncate(0o666),
    )?);
    let renamed = fill(&mut file, existing, contents)
        .and_then(|()| Ok(renameat(folder, temporary.as_os_str(), folder, name)?));
    if renamed.is_err() {
        unlinkat(folder, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir)?;
        return renamed;
    }
    sync_folder(folder)
}

/// Makes the entries of a folder durable.
fn sync_folder(folder: &OwnedFd) -> io::Result<()> {
    // The folder descriptor may be opened with `O_PATH`, which cannot be synced.
    File::from(openat(
        folder,
        ".",
        FOLDER | OFlag::O_RDONLY,
        Mode::empty(),
    )?)
    .sync_all()
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    let (folder, name) = parent(path, false)?;
    unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)?;
    sync_folder(&folder)
}

/// Writes the new file, with the owner and mode of the one that it replaces.
fn fill(file: &mut File, existing: Option<&Metadata>, contents: &[u8]) -> io::Result<()> {
    if let Some(existing) = existing {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (existing.uid(), existing.gid()) {
            fchown(file.as_fd(), Some(existing.uid()), Some(existing.gid()))?;
        }
        file.set_permissions(existing.permissions())?;
    }
    file.write_all(contents)?;
    file.sync_all()
}

/// Returns `true` for a missing permission to create or rename in the folder or to change the
/// owner, and for a mount point.
fn rename_is_impossible(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::ResourceBusy
            | io::ErrorKind::CrossesDevices
    )
}

fn in_place(folder: &OwnedFd, name: &OsStr, contents: &[u8]) -> io::Result<()> {
    let mut file = File::from(openat(folder, name, FILE | OFlag::O_WRONLY, Mode::empty())?);
    let metadata = file.metadata()?;
    // The file may have been replaced since the check. A file with another name must not change
    // under that name, too.
    if !metadata.is_file() || metadata.nlink() > 1 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "a file with more than one name",
        ));
    }
    file.set_len(0)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Opens the parent folder of `path`, creating missing folders if `create`, and returns the last
/// component's name.
fn parent(path: &Path, create: bool) -> io::Result<(OwnedFd, &OsStr)> {
    let mut folder = open_path("/", FOLDER_PATH, Mode::empty())?;
    let mut name = OsStr::new(".");
    for component in path.components() {
        let Component::Normal(next) = component else {
            continue;
        };
        if name != "." {
            folder = open_folder(&folder, name, create)?;
        }
        name = next;
    }
    Ok((folder, name))
}

fn open_folder(folder: &OwnedFd, name: &OsStr, create: bool) -> io::Result<OwnedFd> {
    match openat(folder, name, FOLDER_PATH, Mode::empty()) {
        Err(Errno::ENOENT) if create => {
            match mkdirat(folder, name, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(openat(folder, name, FOLDER_PATH, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn hard_linked_file_is_never_written_in_place() {
        let root = tempfile::tempdir().unwrap();
        let folder = open_path(root.path(), FOLDER | OFlag::O_RDONLY, Mode::empty()).unwrap();
        fs::write(root.path().join("file"), "long and old").unwrap();
        in_place(&folder, OsStr::new("file"), b"new").unwrap();
        fs::hard_link(root.path().join("file"), root.path().join("twin")).unwrap();
        let refused = in_place(&folder, OsStr::new("twin"), b"newer").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::read_to_string(root.path().join("file")).unwrap(), "new");
    }
}
