//! Durability of an append.
//!
//! Decision: only the sync of appended data can be left out. File names and copies of sessions are
//! always made durable: they are rare, and without them a power cut could take a whole
//! conversation.

use std::io;

use nanobot_disk::{DiskFile, append, write_all};
use serde::{Deserialize, Serialize};

/// Failures that an acknowledged append survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The data is on disk: a power cut loses nothing.
    #[default]
    Disk,
    /// The operating system has the data: a crash of the process loses nothing. A power cut or a
    /// system crash may lose data appended in the last seconds, block by block and in any order.
    /// The remaining data is readable and in order, and data that was on disk before is not
    /// affected.
    Os,
}

impl Durability {
    /// Appends `bytes` to a file whose end is at `length`. If that fails, a partial write is
    /// removed again, if the disk allows it.
    pub(crate) fn append(
        self,
        file: &mut dyn DiskFile,
        bytes: &[u8],
        length: u64,
    ) -> io::Result<()> {
        match self {
            Self::Disk => append(file, bytes, length),
            Self::Os => write_all(file, bytes).map_err(|error| match file.truncate(length) {
                Ok(()) => error,
                Err(_) => io::Error::new(
                    error.kind(),
                    format!("{error}; the partial write is still there"),
                ),
            }),
        }
    }
}
