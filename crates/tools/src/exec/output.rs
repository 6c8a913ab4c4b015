//! Output of a command: bounded while it is read, whole where it is short.
//!
//! Of each stream the first and last characters are kept, enough to cut the whole answer to its
//! limit later; what lies between is counted and forgotten, so a command that prints gigabytes costs
//! kilobytes.

use std::{collections::VecDeque, io};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::text::grouped;

/// Characters of output that are returned at most, half of them from the end.
const LIMIT: usize = 10_000;
const HALF: usize = LIMIT / 2;

/// What was kept of a stream.
#[derive(Debug, Default, Clone)]
pub(super) struct Captured {
    head: String,
    head_length: usize,
    tail: VecDeque<char>,
    dropped: usize,
    /// The start of a character that is not complete yet.
    pending: Vec<u8>,
}

impl From<String> for Captured {
    fn from(text: String) -> Self {
        let mut captured = Self::default();
        captured.push(&text);
        captured
    }
}

impl Captured {
    /// Takes in all that `source` delivers, decoding what is not UTF-8 to replacement characters.
    pub(super) async fn fill(&mut self, mut source: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = source.read(&mut buffer).await?;
            if read == 0 {
                let rest = std::mem::take(&mut self.pending);
                self.push(&String::from_utf8_lossy(&rest));
                return Ok(());
            }
            self.decode(buffer.get(..read).unwrap_or_default());
        }
    }

    fn decode(&mut self, bytes: &[u8]) {
        let mut bytes = [std::mem::take(&mut self.pending).as_slice(), bytes].concat();
        let incomplete = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => trailing_start(&bytes),
        };
        self.pending = bytes.split_off(incomplete);
        self.push(&String::from_utf8_lossy(&bytes));
    }

    fn push(&mut self, text: &str) {
        for character in text.chars() {
            if self.head_length < HALF {
                self.head.push(character);
                self.head_length += 1;
                continue;
            }
            if self.tail.len() == HALF {
                self.tail.pop_front();
                self.dropped += 1;
            }
            self.tail.push_back(character);
        }
    }

    fn length(&self) -> usize {
        self.head_length + self.tail.len() + self.dropped
    }

    fn is_blank(&self) -> bool {
        self.head.trim().is_empty() && self.tail.iter().all(|character| character.is_whitespace())
    }

    /// All characters that were kept.
    fn characters(&self) -> impl DoubleEndedIterator<Item = char> {
        self.head.chars().chain(self.tail.iter().copied())
    }
}

/// Where an incomplete character at the end of `bytes` begins, or their length.
fn trailing_start(bytes: &[u8]) -> usize {
    let after_last = bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
    let invalid_at = bytes.len() - after_last;
    let tail = bytes.get(invalid_at..).unwrap_or_default();
    match std::str::from_utf8(tail) {
        Err(error) if error.error_len().is_none() => invalid_at,
        _ => bytes.len(),
    }
}

/// The answer: standard output, errors if any, and the exit code if there is one.
pub(super) fn render(stdout: &Captured, stderr: &Captured, code: Option<i32>) -> String {
    let mut parts: Vec<Captured> = Vec::new();
    if stdout.length() > 0 {
        parts.push(stdout.clone());
    }
    if !stderr.is_blank() {
        separate(&mut parts);
        parts.push("STDERR:\n".to_owned().into());
        parts.push(stderr.clone());
    }
    if let Some(code) = code {
        separate(&mut parts);
        parts.push(format!("\nExit code: {code}").into());
    }
    let total: usize = parts.iter().map(Captured::length).sum();
    if total <= LIMIT {
        return parts.iter().flat_map(Captured::characters).collect();
    }
    let first: String = parts.iter().flat_map(Captured::characters).take(HALF).collect();
    let mut last: Vec<char> = parts.iter().rev().flat_map(|part| part.characters().rev()).take(HALF).collect();
    last.reverse();
    let last: String = last.into_iter().collect();
    let left_out = grouped(total - LIMIT);
    format!("{first}\n\n... ({left_out} chars truncated) ...\n\n{last}")
}

fn separate(parts: &mut Vec<Captured>) {
    if !parts.is_empty() {
        parts.push("\n".to_owned().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_known_form() {
        let table = [
            ("", "", Some(0), "\nExit code: 0"),
            ("hi\n", "", Some(0), "hi\n\n\nExit code: 0"),
            ("out\n", "err\n", Some(3), "out\n\nSTDERR:\nerr\n\n\nExit code: 3"),
            ("", "err\n", Some(1), "STDERR:\nerr\n\n\nExit code: 1"),
            ("x", " \n", Some(0), "x\n\nExit code: 0"),
            ("part", "", None, "part"),
        ];
        for (stdout, stderr, code, expected) in table {
            let answer = render(&stdout.to_owned().into(), &stderr.to_owned().into(), code);
            assert_eq!(answer, expected);
        }
    }

    #[test]
    fn long_output_keeps_its_ends_and_says_how_much_is_gone() {
        let stdout: Captured = format!("<{}>", "z".repeat(1_000_000)).into();
        let answer = render(&stdout, &Captured::default(), Some(0));
        let end = ">\n\nExit code: 0";
        assert!(answer.starts_with("<zzz") && answer.ends_with(end));
        assert!(answer.contains("\n\n... (990,016 chars truncated) ...\n\n"), "{}", answer.len());
        assert_eq!(answer.chars().filter(|c| *c == 'z').count(), 10_000 - 1 - end.len());
    }

    #[tokio::test]
    async fn characters_split_between_reads_stay_whole() {
        let mut captured = Captured::default();
        for piece in "咖啡\u{1f600}".as_bytes().chunks(1) {
            captured.decode(piece);
        }
        captured.decode(b"\xff!");
        captured.fill(&b"\xe5"[..]).await.unwrap();
        assert_eq!(captured.head, "咖啡\u{1f600}\u{fffd}!\u{fffd}");
    }
}
