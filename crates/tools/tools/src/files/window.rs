//! Reads part of a text file line by line, with memory use independent of the file's size.
//!
//! The whole file is read, because the result gives the number of lines and guarantees that all of
//! the file is UTF-8. Only the lines that are shown are kept, and no more than the budget.

use std::io::{self, Read};

use crate::text::breaks_line;

/// Maximum number of characters shown.
pub(super) const BUDGET: usize = 128_000;

/// Reason why a text could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    Io(io::Error),
    NotUtf8 { offset: u64 },
}

/// The requested lines with their numbers, and facts about the file.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Lines as `N| text`, joined by newlines.
    pub(super) shown: String,
    /// Number of the last line in `shown`; one less than the first requested line if there is none.
    pub(super) last: u64,
    /// Number of lines in the file.
    pub(super) total: u64,
    /// Length of the first line in characters, if it alone exceeds the budget.
    pub(super) clipped: Option<u64>,
}

/// Reads the window of `limit` lines from line `offset` (1-based).
pub(super) fn read(mut source: impl Read, offset: u64, limit: u64) -> Result<Window, ReadError> {
    let mut reader = WindowReader {
        first: offset,
        end: offset.saturating_add(limit),
        window: Window {
            last: offset.saturating_sub(1),
            ..Window::default()
        },
        ..WindowReader::default()
    };
    let mut buffer = vec![0; 64 << 10];
    let mut pending = Vec::new();
    let mut consumed = 0;
    loop {
        let read = match source.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ReadError::Io(error)),
        };
        pending.extend(buffer.iter().take(read));
        let valid = reader
            .decode(&pending, read == 0)
            .map_err(|at| ReadError::NotUtf8 {
                offset: consumed + at as u64,
            })?;
        consumed += valid as u64;
        pending.drain(..valid);
        if read == 0 {
            return Ok(reader.finish());
        }
    }
}

#[derive(Default)]
struct WindowReader {
    first: u64,
    end: u64,
    window: Window,
    /// Number of characters in `window.shown`.
    used: usize,
    /// Set once nothing more is shown.
    full: bool,
    line: String,
    /// Number of characters in the current line, kept or not.
    length: u64,
    after_return: bool,
    in_line: bool,
}

impl WindowReader {
    /// Consumes the valid text at the start of `bytes` and returns its length, or the offset of an
    /// invalid byte as the error. An incomplete character at the end is left for the next call
    /// unless `at_end`.
    fn decode(&mut self, bytes: &[u8], at_end: bool) -> Result<usize, usize> {
        let valid = match std::str::from_utf8(bytes) {
            Ok(text) => {
                self.take(text);
                return Ok(bytes.len());
            }
            Err(error) if error.error_len().is_some() || at_end => return Err(error.valid_up_to()),
            Err(error) => error.valid_up_to(),
        };
        if let Some(Ok(text)) = bytes.get(..valid).map(std::str::from_utf8) {
            self.take(text);
        }
        Ok(valid)
    }

    fn take(&mut self, text: &str) {
        for character in text.chars() {
            let second_half = self.after_return && character == '\n';
            self.after_return = character == '\r';
            if second_half {
                continue;
            }
            if breaks_line(character) {
                self.end_line();
                continue;
            }
            self.in_line = true;
            self.length += 1;
            if self.wanted() && self.length <= BUDGET as u64 {
                self.line.push(character);
            }
        }
    }

    fn wanted(&self) -> bool {
        let number = self.window.total + 1;
        !self.full && (self.first..self.end).contains(&number)
    }

    fn end_line(&mut self) {
        if self.wanted() {
            self.show_line();
        }
        self.window.total += 1;
        self.line.clear();
        self.length = 0;
        self.in_line = false;
    }

    fn show_line(&mut self) {
        let number = self.window.total + 1;
        let numbered = format!("{number}| {}", self.line);
        let characters = numbered.chars().count() + 1;
        if self.used == 0 && self.length > BUDGET as u64 {
            self.window.clipped = Some(self.length);
            self.full = true;
        } else if self.used + characters > BUDGET && self.used > 0 {
            self.full = true;
            return;
        }
        if self.used > 0 {
            self.window.shown.push('\n');
        }
        self.window.shown.push_str(&numbered);
        self.window.last = number;
        self.used += characters;
    }

    fn finish(mut self) -> Window {
        if self.in_line {
            self.end_line();
        }
        self.window
    }
}
