//! Durability of an append.
//!
//! Decision: only the sync of appended data can be left out. File names and copies of sessions are
//! always made durable: they are rare, and without them a power cut could take a whole
//! conversation.

use std::io;

use nanobot_disk::{DiskFile, Durability, write_all};

/// Appends `bytes` to a file whose end is at `length`. If that fails, a partial write is removed
/// again, if the disk allows it.
pub(crate) fn append(
    durability: Durability,
    file: &mut dyn DiskFile,
    bytes: &[u8],
    length: u64,
) -> io::Result<()> {
    match durability {
        Durability::Disk => nanobot_disk::append(file, bytes, length),
        Durability::Os => write_all(file, bytes).map_err(|error| match file.truncate(length) {
            Ok(()) => error,
            Err(_) => io::Error::new(
                error.kind(),
                format!("{error}; the partial write is still there"),
            ),
        }),
    }
}
