//! The few things done to a session file, each durable when it returns.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::SystemTime;

use crate::paths::beside;

/// What tells that a file is not the one that was last seen, or not as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) length: u64,
    modified: Option<SystemTime>,
    identity: u64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok(), identity: identity(metadata) }
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> u64 {
    0
}

/// Opens a file for appending, made first if need be, and keeps other writers out until it is
/// closed. Conversations are nobody else's business: a new file is its owner's alone.
pub(crate) fn open_for_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    match file.lock() {
        // Some network file systems know no locks; the check of the head still stands.
        Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(error),
        _ => Ok(file),
    }
}

/// Makes a folder and everything above it.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    folder.parent().map_or(Ok(()), sync_folder)
}

/// Makes the names in a folder durable, where the platform can.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Writes behind the end and syncs once. When that fails, what was written of it is taken back.
pub(crate) fn append(file: &mut File, bytes: &[u8], length: u64) -> io::Result<()> {
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    if written.is_err()
        && let Err(error) = file.set_len(length)
    {
        tracing::warn!(%error, "an append failed and its beginning cannot be taken back");
    }
    written
}

/// Copies the last `torn` bytes of the file at `path` to a file of their own beside it.
pub(crate) fn keep_torn(path: &Path, mut file: &File, length: u64, torn: u64) -> io::Result<()> {
    let aside = beside(path, "torn");
    let mut copy = OpenOptions::new().write(true).create_new(true).open(&aside)?;
    file.seek(SeekFrom::Start(length.saturating_sub(torn)))?;
    io::copy(&mut file, &mut copy)?;
    copy.sync_all()?;
    path.parent().map_or(Ok(()), sync_folder)?;
    tracing::warn!(path = %path.display(), kept = %aside.display(), bytes = torn, "torn line at the end of a session kept aside");
    Ok(())
}

/// Brings a file of an old layout to its new place; the old one stays under another name.
pub(crate) fn migrate(old: &Path, target: &Path) -> io::Result<()> {
    if let Some(folder) = target.parent() {
        create_folder(folder)?;
        let draft = beside(target, "draft");
        std::fs::copy(old, &draft)?;
        File::open(&draft)?.sync_all()?;
        std::fs::rename(&draft, target)?;
        sync_folder(folder)?;
    }
    let moved = beside(old, "moved");
    if let Err(error) = std::fs::rename(old, &moved) {
        tracing::warn!(path = %old.display(), %error, "an old session file was copied but cannot be renamed");
    }
    tracing::info!(from = %old.display(), to = %target.display(), "session moved from its old place");
    Ok(())
}
