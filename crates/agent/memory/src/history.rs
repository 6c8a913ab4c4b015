//! The history: `HISTORY.md` for people, and a mirror in `history.jsonl` if a v0.3 program left
//! such a file, so that going back to that program loses nothing.

use std::io;
use std::path::Path;

use chrono::Local;
use nanobot_disk::{Access, Disk, read_to_end};
use nanobot_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{MemoryError, file};

/// Size of the end of a file that is searched for the last number of the mirror, and for an entry
/// that may already be there, in bytes. An entry of v0.3 has at most 64,000 characters.
const TAIL: u64 = 512 * 1024;

#[derive(Serialize)]
struct MirrorLine<'a> {
    cursor: u64,
    timestamp: String,
    content: &'a str,
    /// `true` if strangers may have written what the entry is about. The v0.3 program ignores it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    untrusted: bool,
}

#[derive(Deserialize)]
struct MirrorNumber {
    cursor: u64,
}

/// Appends an entry. Success depends on `HISTORY.md` only. A failure to write the mirror is logged
/// but not returned, because a retry would write the entry twice.
pub(crate) fn append(
    disk: &dyn Disk,
    folder: &Path,
    at: &Timestamp,
    entry: &str,
) -> Result<(), MemoryError> {
    file::append(disk, &folder.join("HISTORY.md"), &format!("{entry}\n\n"))?;
    if let Err(error) = mirror(disk, folder, at, entry) {
        tracing::warn!(folder = %folder.display(), %error, "history.jsonl could not be updated to match HISTORY.md");
    }
    Ok(())
}

fn mirror(disk: &dyn Disk, folder: &Path, at: &Timestamp, entry: &str) -> Result<(), MemoryError> {
    let path = folder.join("history.jsonl");
    let counter = folder.join(".cursor");
    let Some(last) = last_number(disk, &path).map_err(file::failed("read", &path))? else {
        return Ok(());
    };
    let counted = file::read(disk, &counter)?
        .and_then(|read| read.text.trim().parse().ok())
        .unwrap_or(0);
    let cursor = last.max(counted).saturating_add(1);
    let timestamp = at
        .with_timezone(&Local)
        .format("%Y-%m-%d %H:%M")
        .to_string();
    let line = serde_json::to_string(&MirrorLine {
        cursor,
        timestamp,
        content: entry,
        untrusted: nanobot_escape::has_external_text(entry),
    });
    let line = line
        .map_err(io::Error::from)
        .map_err(file::failed("append to", &path))?;
    file::append(disk, &path, &format!("{line}\n"))?;
    file::write(disk, &counter, cursor.to_string().as_bytes())
}

/// `true` if the entry is one of the last entries.
pub(crate) fn holds(disk: &dyn Disk, folder: &Path, entry: &str) -> Result<bool, MemoryError> {
    let path = folder.join("HISTORY.md");
    let text = format!("{entry}\n\n");
    ends_with_entry(disk, &path, &text).map_err(file::failed("read", &path))
}

fn ends_with_entry(disk: &dyn Disk, path: &Path, text: &str) -> io::Result<bool> {
    let file = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let length = file.stamp()?.length;
    let tail = read_to_end(&*file, length.saturating_sub(TAIL), TAIL)?;
    let tail = String::from_utf8_lossy(&tail);
    Ok(tail.starts_with(text) || tail.contains(&format!("\n{text}")))
}

/// Returns the number on the last readable line; `None` if there is no mirror or it is empty.
fn last_number(disk: &dyn Disk, path: &Path) -> io::Result<Option<u64>> {
    let file = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let length = file.stamp()?.length;
    if length == 0 {
        return Ok(None);
    }
    let tail = read_to_end(&*file, length.saturating_sub(TAIL), TAIL)?;
    let numbers = tail
        .rsplit(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok());
    Ok(Some(
        numbers
            .map(|MirrorNumber { cursor }| cursor)
            .next()
            .unwrap_or(0),
    ))
}
