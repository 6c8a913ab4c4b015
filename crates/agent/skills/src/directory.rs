//! Looks at the directory of a zip archive before anything is built from it.
//!
//! Decision: the entries are counted in the bytes, wherever they are, and not as the end of the archive
//! says: readers choose among several ends, and what they build takes many times the bytes of an entry.

use std::io::{self, Read, Seek, SeekFrom};

/// The beginning of an entry of the directory.
const SIGNATURE: [u8; 4] = *b"PK\x01\x02";

/// The length of an entry without its name and what else is of variable length.
const ENTRY: usize = 46;

/// The most entries, with room for archives that are stored in this one.
const ENTRIES: usize = 4000;

/// The most bytes of names, comments and extra fields together.
const NAMES: usize = 4 << 20;

/// Reads at once.
const CHUNK: usize = 64 << 10;

/// Why a directory is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oversized {
    Entries,
    Names,
}

/// Looks for a directory that is too large.
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
        // An entry may lie across two reads.
        window.drain(..window.len().saturating_sub(ENTRY - 1));
    }
}
