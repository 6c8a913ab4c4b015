//! Opens files by path, for platforms without `openat`; see the parent module.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use super::BeneathEntry;
use crate::links::FileId;

/// Distinguishes temporary files of this process.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

pub(super) fn open(path: &Path) -> io::Result<File> {
    if path.symlink_metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    File::open(path)
}

pub(super) fn entries(path: &Path) -> io::Result<Vec<BeneathEntry>> {
    path.read_dir()?
        .map(|entry| {
            let entry = entry?;
            let kind = entry.file_type()?;
            Ok(BeneathEntry {
                name: entry.file_name(),
                is_dir: kind.is_dir(),
                is_link: kind.is_symlink(),
            })
        })
        .collect()
}

pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

pub(super) fn replace(
    path: &Path,
    contents: &[u8],
    _: &dyn Fn(FileId) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path
        .parent()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    fs::create_dir_all(folder)?;
    let existing = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Some(metadata.permissions()),
        Ok(_) => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".nanobot-{}-{number}.tmp", std::process::id()));
    let mut file = File::create_new(&temporary)?;
    let written = file
        .write_all(contents)
        .and_then(|()| existing.map_or(Ok(()), |permissions| file.set_permissions(permissions)))
        .and_then(|()| file.sync_all());
    drop(file);
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if renamed.is_err() {
        fs::remove_file(&temporary)?;
    }
    renamed
}
