//! How far an append has to get before it counts.
//!
//! Decision: only the sync of what was appended can be left out. Names of files and copies of
//! sessions are made durable in any case: they are rare, and without them a power cut could take a
//! whole conversation.

use std::io;

use nanobot_disk::{DiskFile, append, write_all};
use serde::{Deserialize, Serialize};

/// What an acknowledged append survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// It is on the disk: a power cut loses nothing.
    #[default]
    Disk,
    /// The operating system has it: a crash of the process loses nothing. A power cut or a crash
    /// of the system may take what was appended in the last seconds, block by block in any order;
    /// what is left is in order and readable, and what the disk had before is there.
    Os,
}

impl Durability {
    /// Writes behind the end, which is at `length`. What is written of it when that fails is taken
    /// back, if the disk lets it.
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
                    format!("{error}; what was written of it is still there"),
                ),
            }),
        }
    }
}
