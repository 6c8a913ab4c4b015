//! Bounds the central directory of a zip archive before a reader builds anything from it.
//!
//! Decision: entries are counted by their signature anywhere in the file, and the count in the end
//! record is ignored. Readers choose among several end records, and what they build takes many
//! times the size of an entry.

use std::io::{self, Read, Seek, SeekFrom};

/// Signature of an entry in the central directory.
const SIGNATURE: [u8; 4] = *b"PK\x01\x02";

/// Length of an entry without its variable-length fields, in bytes.
const ENTRY: usize = 46;

/// Maximum number of entries, with room for archives stored inside this one.
const ENTRIES: usize = 4000;

/// Maximum total size of names, extra fields and comments, in bytes.
const NAMES: usize = 4 << 20;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Limit that a directory exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oversized {
    Entries,
    Names,
}

/// Returns the limit that the archive's directory exceeds, if any. Leaves `file` at its start.
pub(crate) fn oversized(file: &mut (impl Read + Seek)) -> io::Result<Option<Oversized>> {
    file.seek(SeekFrom::Start(0))?;
    let (mut entries, mut names) = (0_usize, 0_usize);
    let mut window = Vec::with_capacity(CHUNK + ENTRY);
    loop {
        let read = file.by_ref().take(CHUNK as u64).read_to_end(&mut window)?;
        for entry in window
            .windows(ENTRY)
            .filter(|entry| entry.starts_with(&SIGNATURE))
        {
            entries += 1;
            let lengths = entry.get(28..34).unwrap_or_default().chunks(2);
            names += lengths
                .map(|two| {
                    two.iter()
                        .rev()
                        .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
                })
                .sum::<usize>();
        }
        if entries > ENTRIES {
            return Ok(Some(Oversized::Entries));
        }
        if names > NAMES {
            return Ok(Some(Oversized::Names));
        }
        if read == 0 {
            file.seek(SeekFrom::Start(0))?;
            return Ok(None);
        }
        // Keep the end of the window: an entry may span two reads.
        window.drain(..window.len().saturating_sub(ENTRY - 1));
    }
}
