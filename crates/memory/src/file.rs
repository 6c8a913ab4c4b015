//! The few things done to files here: a bounded read, an append, a replacement that keeps what it
//! replaces. Each write is durable when it returns.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

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
pub(crate) fn read(path: &Path) -> Result<Option<Text>, MemoryError> {
    let failed = || failed("read", path);
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed())?,
    };
    let length = file.metadata().map_err(failed())?.len();
    let mut bytes = Vec::new();
    file.take(READ_LIMIT).read_to_end(&mut bytes).map_err(failed())?;
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

/// Makes a folder and everything above it.
pub(crate) fn create_folder(folder: &Path) -> Result<(), MemoryError> {
    std::fs::create_dir_all(folder).map_err(failed("create", folder))
}

/// Appends in one write, behind a blank line if the file does not end a line.
pub(crate) fn append(path: &Path, text: &str) -> Result<(), MemoryError> {
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let length = file.metadata()?.len();
        let separator = if ends_a_line(&mut file, length)? { "" } else { "\n\n" };
        file.write_all(format!("{separator}{text}").as_bytes())?;
        file.sync_data()?;
        if length == 0 { path.parent().map_or(Ok(()), sync_folder) } else { Ok(()) }
    };
    written().map_err(failed("append to", path))
}

fn ends_a_line(file: &mut File, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    file.seek(SeekFrom::Start(last))?;
    file.read_exact(&mut byte)?;
    Ok(byte == *b"\n")
}

/// Replaces a file: old or new, never a mixture. The last versions stay beside it as `.bak`,
/// `.bak.1` and so on. A link is followed, so that it stays one.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), MemoryError> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // The new text is durable first: a full disk must not push old versions out.
    let draft = write_draft(&target, bytes).map_err(failed("write", &target))?;
    keep_version(&target).map_err(failed("back up", &target))?;
    put_in_place(&draft, &target).map_err(failed("replace", &target))
}

/// Writes a file by rename, with nothing kept.
pub(crate) fn write(target: &Path, bytes: &[u8]) -> Result<(), MemoryError> {
    let written = write_draft(target, bytes).and_then(|draft| put_in_place(&draft, target));
    written.map_err(failed("write", target))
}

fn write_draft(target: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let draft = with_suffix(target, ".draft");
    let mut file = File::create(&draft)?;
    if let Ok(metadata) = target.metadata() {
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(draft)
}

fn put_in_place(draft: &Path, target: &Path) -> io::Result<()> {
    std::fs::rename(draft, target)?;
    target.parent().map_or(Ok(()), sync_folder)
}

fn keep_version(target: &Path) -> io::Result<()> {
    if !target.try_exists()? {
        return Ok(());
    }
    for number in (1..VERSIONS).rev() {
        match std::fs::rename(version(target, number - 1), version(target, number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let newest = version(target, 0);
    std::fs::copy(target, &newest)?;
    File::open(newest)?.sync_all()
}

fn version(target: &Path, number: u32) -> PathBuf {
    if number == 0 { with_suffix(target, ".bak") } else { with_suffix(target, &format!(".bak.{number}")) }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
