//! Iterates over the lines of a file from its end backwards, read in blocks.
//!
//! It holds one block and one line in memory; a line longer than [`LINE_LIMIT`] is skipped without
//! being held.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use nanobot_disk::{DiskFile, read_some};

const BLOCK: u64 = 32 * 1024;

/// Maximum length of a line, in bytes.
const LINE_LIMIT: usize = 64 * 1024 * 1024;

/// Iterator over lines without their newlines. The first item is the text after the last newline:
/// empty in a file that was written completely.
#[derive(Debug)]
pub(crate) struct LinesBackwards<'a> {
    file: &'a dyn DiskFile,
    bytes_read: &'a AtomicU64,
    /// Offset at which the unread bytes end.
    position: u64,
    /// Bytes before the current line.
    block: Vec<u8>,
    /// The pieces of the current line so far, the last piece first.
    pieces: Vec<Vec<u8>>,
    length: usize,
    at_start: bool,
}

impl<'a> LinesBackwards<'a> {
    /// Starts at `length`. Every byte read is added to `bytes_read`.
    pub(crate) fn new(file: &'a dyn DiskFile, length: u64, bytes_read: &'a AtomicU64) -> Self {
        Self {
            file,
            bytes_read,
            position: length,
            block: Vec::new(),
            pieces: Vec::new(),
            length: 0,
            at_start: false,
        }
    }

    /// Returns the offset of the last line returned.
    pub(crate) fn offset(&self) -> u64 {
        if self.at_start {
            0
        } else {
            self.position
                .saturating_add(self.block.len() as u64)
                .saturating_add(1)
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let size = self.position.min(BLOCK);
        self.position -= size;
        self.block = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        if read_some(self.file, self.position, &mut self.block)? < self.block.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes_read.fetch_add(size, Ordering::Relaxed);
        Ok(())
    }

    fn push(&mut self, piece: Vec<u8>) {
        self.length += piece.len();
        if self.length > LINE_LIMIT {
            self.pieces.clear();
        } else {
            self.pieces.push(piece);
        }
    }

    fn take_line(&mut self) -> RawLine {
        let length = std::mem::take(&mut self.length);
        if length > LINE_LIMIT {
            return RawLine::TooLong(length);
        }
        self.pieces.reverse();
        RawLine::Bytes(std::mem::take(&mut self.pieces).concat())
    }
}

/// A line, or the length of a line that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RawLine {
    /// The line.
    Bytes(Vec<u8>),
    /// Length of the skipped line, in bytes.
    TooLong(usize),
}

impl Iterator for LinesBackwards<'_> {
    type Item = io::Result<RawLine>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at_start {
            return None;
        }
        loop {
            if let Some(newline) = self.block.iter().rposition(|byte| *byte == b'\n') {
                let piece = self.block.split_off(newline + 1);
                self.block.truncate(newline);
                self.push(piece);
                return Some(Ok(self.take_line()));
            }
            let piece = std::mem::take(&mut self.block);
            self.push(piece);
            if self.position == 0 {
                self.at_start = true;
                return Some(Ok(self.take_line()));
            }
            if let Err(error) = self.fill() {
                self.at_start = true;
                return Some(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_disk::{Access, Disk as _, LocalDisk};

    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let file = LocalDisk.open(file.path(), Access::Read).unwrap();
        let counter = AtomicU64::new(0);
        let lines: Vec<Vec<u8>> = LinesBackwards::new(&*file, bytes.len() as u64, &counter)
            .map(|line| match line.unwrap() {
                RawLine::Bytes(bytes) => bytes,
                RawLine::TooLong(_) => panic!("too long"),
            })
            .collect();
        assert_eq!(counter.into_inner(), bytes.len() as u64);
        lines
    }

    #[test]
    fn reads_whole_lines_backwards_across_blocks() {
        let block = usize::try_from(BLOCK).unwrap();
        let wide = "x".repeat(block);
        for text in [
            "",
            "\n",
            "a",
            "a\n",
            "a\nb",
            "\n\na\n\n",
            &wide,
            &format!("a\n{wide}{wide}b\n\nc\n"),
        ] {
            for padding in [0, 1, block - 2, block - 1, block, block + 1] {
                let text = format!("{}\n{text}", "p".repeat(padding));
                let expected: Vec<Vec<u8>> = text
                    .rsplit('\n')
                    .map(|line| line.as_bytes().to_vec())
                    .collect();
                assert_eq!(lines(text.as_bytes()), expected);
            }
        }
    }
}
