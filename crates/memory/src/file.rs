//! The few things done to files here: a bounded read, an append, a replacement that keeps what it
//! replaces. Each write is durable when it returns.

use std::io;
use std::path::{Path, PathBuf};

use nanobot_disk::{Access, Disk, DiskFile, copy, read_some, read_to_end, write_all};

use crate::MemoryError;

/// How much of a file is read, in bytes.
const READ_LIMIT: u64 = 5 * 1024 * 1024;
/// How many earlier versions of a replaced file are kept.
const VERSIONS: u32 = 3;

/// A file as it was read.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// Of its bytes and its length.
    pub(crate) fingerprint: u64,
}

/// The error of an action on a path.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MemoryError + use<> {
    let path = path.to_owned();
    move |source| MemoryError::Io { action, path, source }
}

/// Reads text; `None` when there is no such file. Bytes that are no text are replaced by marks,
/// what lies behind [`READ_LIMIT`] is left out; both are reported.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Text>, MemoryError> {
    let failed = || failed("read", path);
    let file = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed())?,
    };
    let length = file.stamp().map_err(failed())?.length;
    let bytes = read_to_end(&*file, 0, READ_LIMIT).map_err(failed())?;
    if length > READ_LIMIT {
        tracing::warn!(path = %path.display(), length, limit = READ_LIMIT, "memory file is too long, its beginning is used");
    }
    let fingerprint = fingerprint(&bytes, length);
    let text = String::from_utf8(bytes).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), "memory file holds bytes that are no text");
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    Ok(Some(Text { text, fingerprint }))
}

/// FNV-1a: stable over programs and versions, which `std`'s hasher is not. Nothing at all is 0,
/// like a file that is not there.
fn fingerprint(bytes: &[u8], length: u64) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    if length == 0 { 0 } else { length.to_le_bytes().iter().chain(bytes).fold(0xcbf2_9ce4_8422_2325, mix) }
}

/// Appends in one write, behind a blank line if the file does not end a line.
pub(crate) fn append(disk: &dyn Disk, path: &Path, text: &str) -> Result<(), MemoryError> {
    let written = || -> io::Result<()> {
        let mut file = disk.open(path, Access::Append)?;
        file.lock()?;
        let length = file.stamp()?.length;
        if length == 0 {
            // Before anything is in it, so that a file with something in it has a durable name.
            sync_names(disk, path)?;
        }
        let separator = if ends_a_line(&*file, length)? { "" } else { "\n\n" };
        nanobot_disk::append(&mut *file, format!("{separator}{text}").as_bytes(), length)
    };
    written().map_err(failed("append to", path))
}

fn ends_a_line(file: &dyn DiskFile, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    read_some(file, last, &mut byte)?;
    Ok(byte == *b"\n")
}

/// Replaces a file: old or new, never a mixture. The last versions stay beside it as `.bak`,
/// `.bak.1` and so on. A link is followed, so that it stays one.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), MemoryError> {
    let target = match disk.resolve(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        resolved => resolved.map_err(failed("find", path))?,
    };
    // Both are durable before any name changes: a full disk must not push old versions out.
    let draft = write_draft(disk, &target, bytes).map_err(failed("write", &target))?;
    keep_version(disk, &target).map_err(failed("back up", &target))?;
    put_in_place(disk, &draft, &target).map_err(failed("replace", &target))
}

/// Writes a file by rename, with nothing kept.
pub(crate) fn write(disk: &dyn Disk, target: &Path, bytes: &[u8]) -> Result<(), MemoryError> {
    let written = write_draft(disk, target, bytes).and_then(|draft| put_in_place(disk, &draft, target));
    written.map_err(failed("write", target))
}

fn write_draft(disk: &dyn Disk, target: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let draft = with_suffix(target, ".draft");
    let mut file = disk.open(&draft, Access::DraftOf(target))?;
    write_all(&mut *file, bytes)?;
    file.sync()?;
    Ok(draft)
}

fn put_in_place(disk: &dyn Disk, draft: &Path, target: &Path) -> io::Result<()> {
    disk.rename(draft, target)?;
    sync_names(disk, target)
}

/// Copies what is replaced first, then moves the older versions up to make room for the copy.
fn keep_version(disk: &dyn Disk, target: &Path) -> io::Result<()> {
    let current = match disk.open(target, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let newest = version(target, 0);
    let draft = with_suffix(&newest, ".draft");
    copy(&*current, 0, &mut *disk.open(&draft, Access::DraftOf(target))?)?;
    for number in (1..VERSIONS).rev() {
        match disk.rename(&version(target, number - 1), &version(target, number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    disk.rename(&draft, &newest)
}

fn version(target: &Path, number: u32) -> PathBuf {
    if number == 0 { with_suffix(target, ".bak") } else { with_suffix(target, &format!(".bak.{number}")) }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn sync_names(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| disk.sync_folder(folder))
}
