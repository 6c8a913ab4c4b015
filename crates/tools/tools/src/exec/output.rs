//! Output of a command, bounded while it is read and truncated for the model.
//!
//! Decision: the first and the last mebibyte of each stream are kept and the characters between are
//! counted, so that a command that prints gigabytes costs a few megabytes. The model reads the two
//! ends of what was kept; the kept text as a whole is stored in a file.

use std::{collections::VecDeque, io};

use nanobot_types::WholeText;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::text::grouped;

/// Maximum number of characters of output that are returned, half of them from the end.
pub(super) const LIMIT: usize = 10_000;
/// Bytes kept of each end of a stream.
const KEPT_BYTES: usize = 1 << 20;
/// Bytes read at once, and maximum size of a chunk of the tail.
const PIECE: usize = 16 << 10;

/// The two ends of a stream.
#[derive(Debug, Default)]
pub(super) struct CapturedStream {
    head: String,
    /// Chunks of the tail; the first is dropped once the others hold enough.
    tail: VecDeque<String>,
    tail_bytes: usize,
    /// Number of characters dropped between head and tail.
    dropped: usize,
    /// The start of a character that is not complete yet.
    pending: Vec<u8>,
}

impl CapturedStream {
    /// Captures a text.
    pub(super) fn of(text: &str) -> Self {
        let mut stream = Self::default();
        stream.push(text);
        stream
    }

    /// Reads `source` to its end, replacing invalid UTF-8 by replacement characters.
    pub(super) async fn fill(&mut self, mut source: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
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
        let room = text.floor_char_boundary(KEPT_BYTES.saturating_sub(self.head.len()));
        // Once the tail has begun, nothing is added to the head.
        let room = if self.tail.is_empty() { room } else { 0 };
        let (head, rest) = text.split_at_checked(room).unwrap_or((text, ""));
        self.head.push_str(head);
        if rest.is_empty() {
            return;
        }
        self.tail_bytes += rest.len();
        match self.tail.back_mut() {
            Some(last) if last.len() + rest.len() <= PIECE => last.push_str(rest),
            _ => self.tail.push_back(rest.to_owned()),
        }
        while let Some(first) = self
            .tail
            .front()
            .filter(|first| self.tail_bytes - first.len() >= KEPT_BYTES)
        {
            self.tail_bytes -= first.len();
            self.dropped += first.chars().count();
            self.tail.pop_front();
        }
    }

    fn is_blank(&self) -> bool {
        self.head.trim().is_empty()
            && self.dropped == 0
            && self.tail.iter().all(|piece| piece.trim().is_empty())
    }

    /// Appends the kept text, with a line about the dropped part. Returns the number of the
    /// stream's characters that are missing in the text; negative if that line is longer than the
    /// part it replaces.
    fn write_to(&self, text: &mut String) -> isize {
        text.push_str(&self.head);
        let mut missing = 0;
        if self.dropped > 0 {
            let gap = format!("\n\n... ({} chars not kept) ...\n\n", grouped(self.dropped));
            missing = self.dropped.cast_signed() - gap.len().cast_signed();
            text.push_str(&gap);
        }
        self.tail.iter().for_each(|piece| text.push_str(piece));
        missing
    }
}

/// Returns the start of an incomplete character at the end of `bytes`, or their length.
fn trailing_start(bytes: &[u8]) -> usize {
    let after_last = bytes
        .utf8_chunks()
        .last()
        .map_or(0, |chunk| chunk.invalid().len());
    let invalid_at = bytes.len() - after_last;
    let tail = bytes.get(invalid_at..).unwrap_or_default();
    match std::str::from_utf8(tail) {
        Err(error) if error.error_len().is_none() => invalid_at,
        _ => bytes.len(),
    }
}

/// The part of an output that the model reads, and the whole kept text if that is longer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RenderedOutput {
    pub(super) text: String,
    pub(super) whole: Option<WholeText>,
}

/// Formats standard output, standard error if not blank, and the exit code if there is one, in
/// about `limit` characters.
pub(super) fn render(
    stdout: &CapturedStream,
    stderr: &CapturedStream,
    code: Option<i32>,
    limit: usize,
) -> RenderedOutput {
    let mut text = String::new();
    let mut missing = stdout.write_to(&mut text);
    if !stderr.is_blank() {
        separate(&mut text);
        text.push_str("STDERR:\n");
        missing += stderr.write_to(&mut text);
    }
    if let Some(code) = code {
        separate(&mut text);
        text.push_str(&format!("\nExit code: {code}"));
    }
    let length = text.chars().count();
    if length <= limit {
        return RenderedOutput { text, whole: None };
    }
    let half = limit / 2;
    let boundary = |character: usize| {
        text.char_indices()
            .nth(character)
            .map_or(text.len(), |(at, _)| at)
    };
    let first = text.get(..boundary(half)).unwrap_or_default();
    let last = text.get(boundary(length - half)..).unwrap_or_default();
    let left_out = grouped((length - 2 * half).saturating_add_signed(missing));
    let is_complete = stdout.dropped + stderr.dropped == 0;
    let shown = format!("{first}\n\n... ({left_out} chars truncated) ...\n\n{last}");
    RenderedOutput {
        text: shown,
        whole: Some(WholeText {
            text,
            shown: half,
            is_complete,
        }),
    }
}

fn separate(text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_format_is_stable() {
        let table = [
            ("", "", Some(0), "\nExit code: 0"),
            ("hi\n", "", Some(0), "hi\n\n\nExit code: 0"),
            (
                "out\n",
                "err\n",
                Some(3),
                "out\n\nSTDERR:\nerr\n\n\nExit code: 3",
            ),
            ("", "err\n", Some(1), "STDERR:\nerr\n\n\nExit code: 1"),
            ("x", " \n", Some(0), "x\n\nExit code: 0"),
            ("part", "", None, "part"),
        ];
        for (stdout, stderr, code, expected) in table {
            let rendered = render(&captured(stdout), &captured(stderr), code, LIMIT);
            assert_eq!(
                rendered,
                RenderedOutput {
                    text: expected.to_owned(),
                    whole: None
                }
            );
        }
    }

    fn captured(text: &str) -> CapturedStream {
        let mut captured = CapturedStream::default();
        text.as_bytes()
            .chunks(PIECE)
            .for_each(|piece| captured.decode(piece));
        captured
    }

    #[test]
    fn long_output_is_shown_by_its_ends_and_kept_whole() {
        let stdout = format!("<{}>", "z".repeat(1_000_000));
        let RenderedOutput { text, whole } = render(
            &captured(&stdout),
            &CapturedStream::default(),
            Some(0),
            LIMIT,
        );
        let end = ">\n\nExit code: 0";
        assert!(text.starts_with("<zzz") && text.ends_with(end));
        assert!(
            text.contains("\n\n... (990,016 chars truncated) ...\n\n"),
            "{}",
            text.len()
        );
        assert_eq!(
            text.chars().filter(|c| *c == 'z').count(),
            10_000 - 1 - end.len()
        );
        let all = format!("{stdout}\n\nExit code: 0");
        assert_eq!(
            whole,
            Some(WholeText {
                text: all,
                shown: 5_000,
                is_complete: true
            })
        );
    }

    #[test]
    fn endless_output_keeps_both_ends_and_marks_the_gap() {
        let (half, lines) = (KEPT_BYTES / 8, 1_000_000);
        let stdout: String = (0..lines).map(|line| format!("{line:07}\n")).collect();
        let stream = captured(&stdout);
        assert!(stream.head.len() + stream.tail_bytes <= 2 * KEPT_BYTES + PIECE);
        let RenderedOutput { text, whole } = render(&stream, &captured("oops"), Some(1), LIMIT);
        let all = stdout.len() + "\nSTDERR:\noops\n\nExit code: 1".len();
        assert!(text.contains(&format!(
            "... ({} chars truncated) ...",
            grouped(all - LIMIT)
        )));
        let whole = whole.unwrap();
        assert!(!whole.is_complete);
        let kept: Vec<usize> = whole
            .text
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect();
        assert_eq!(kept.first().zip(kept.last()), Some((&0, &(lines - 1))));
        let gap = kept
            .windows(2)
            .filter(|pair| pair[0] + 1 < pair[1])
            .collect::<Vec<_>>();
        assert_eq!(gap.len(), 1);
        let missing = gap[0][1] - gap[0][0] - 1;
        assert!(missing >= lines - 2 * half - PIECE / 8, "{missing}");
        assert!(
            whole.text.contains(&format!(
                "\n\n... ({} chars not kept) ...\n\n",
                grouped(missing * 8)
            )),
            "{missing}"
        );
    }

    #[tokio::test]
    async fn decodes_characters_split_between_reads() {
        let mut captured = CapturedStream::default();
        for piece in "咖啡\u{1f600}".as_bytes().chunks(1) {
            captured.decode(piece);
        }
        captured.decode(b"\xff!");
        captured.fill(&b"\xe5"[..]).await.unwrap();
        assert_eq!(captured.head, "咖啡\u{1f600}\u{fffd}!\u{fffd}");
    }
}
