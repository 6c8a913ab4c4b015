//! File operations of this crate: a bounded read, an append and a replacement. Each write is
//! durable when it returns.

use std::io;
use std::path::Path;

use nanobot_disk::{
    Access, Disk, DiskFile, Durability, FileDraft, FileStamp, read_some, read_to_end, replace_file,
    sync_names,
};

use crate::MemoryError;

/// Maximum size that is read of a file, in bytes.
pub(crate) const READ_LIMIT: u64 = 5 * 1024 * 1024;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct FileText {
    pub(crate) text: String,
    /// Fingerprint of the bytes that were read and of the length.
    pub(crate) fingerprint: u64,
    /// Length of the file, in bytes; the text may be shorter, see [`READ_LIMIT`].
    pub(crate) length: u64,
}

/// Returns a function that makes an I/O error of an action on a path.
pub(crate) fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> MemoryError + use<> {
    let path = path.to_owned();
    move |source| MemoryError::Io {
        action,
        path,
        source,
    }
}

/// Reads text; `None` if there is no such file. A byte order mark is removed. Invalid UTF-8 is
/// replaced by replacement characters, and everything after [`READ_LIMIT`] is left out; both are
/// logged.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<FileText>, MemoryError> {
    let failed = || failed("read", path);
    let file = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed())?,
    };
    let length = file.stamp().map_err(failed())?.length;
    let bytes = read_to_end(&*file, 0, READ_LIMIT).map_err(failed())?;
    if length > READ_LIMIT {
        tracing::warn!(path = %path.display(), length, limit = READ_LIMIT, "memory file is too long, using its beginning");
    }
    let fingerprint = fingerprint(&bytes, length);
    let mut text = String::from_utf8(bytes).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), "memory file is not valid UTF-8, replacing the invalid bytes");
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    if text.starts_with(BYTE_ORDER_MARK) {
        text.remove(0);
    }
    Ok(Some(FileText {
        text,
        fingerprint,
        length,
    }))
}

/// Returns the stamp of a file; `None` if there is no such file.
pub(crate) fn stamp(disk: &dyn Disk, path: &Path) -> Result<Option<FileStamp>, MemoryError> {
    let stamp = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.and_then(|file| file.stamp()),
    };
    stamp.map(Some).map_err(failed("read", path))
}

/// FNV-1a: stable across programs and versions, unlike the hasher of `std`. The fingerprint of an
/// empty file is 0, like that of a file that does not exist.
pub(crate) fn fingerprint(bytes: &[u8], length: u64) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    if length == 0 {
        0
    } else {
        length
            .to_le_bytes()
            .iter()
            .chain(bytes)
            .fold(0xcbf2_9ce4_8422_2325, mix)
    }
}

/// Appends in one write, after a blank line if the file does not end with a newline.
pub(crate) fn append(disk: &dyn Disk, path: &Path, text: &str) -> Result<(), MemoryError> {
    let written = || -> io::Result<()> {
        let mut file = disk.open(path, Access::Append)?;
        file.lock()?;
        let length = file.stamp()?.length;
        if length == 0 {
            // Sync the name before anything is written, so that a file with content has a durable
            // name.
            sync_names(disk, path)?;
        }
        let separator = if ends_a_line(&*file, length)? {
            ""
        } else {
            "\n\n"
        };
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

/// Replaces a file atomically. A symbolic link is followed, so that it stays a link.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), MemoryError> {
    let target = match disk.resolve(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        resolved => resolved.map_err(failed("find", path))?,
    };
    write(disk, &target, bytes)
}

/// Writes a file atomically.
pub(crate) fn write(disk: &dyn Disk, target: &Path, bytes: &[u8]) -> Result<(), MemoryError> {
    replace_file(
        disk,
        target,
        bytes,
        FileDraft::Like(target),
        Durability::Disk,
    )
    .map_err(failed("write", target))
}
