//! The output of npm and the bridge: bounded lines without secrets, of which the last ones are
//! kept for errors.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_escape::sanitize_line;
use nanobot_redact::Secrets;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, BufReader};

/// Maximum length of a line in logs and errors, in characters.
const MAX_LINE: usize = 500;
/// Bytes of a line that are read for it. More than are shown, so that a secret that begins in the
/// shown part is complete and is recognised.
const MAX_READ: usize = 8 * 1024;
/// Lines of a pipe that are kept, the last ones.
const MAX_KEPT: usize = 10;

/// The last lines of a process. Contains no secret.
#[derive(Debug)]
pub(crate) struct Output {
    program: &'static str,
    secrets: Secrets,
    kept: Mutex<Kept>,
}

/// The last lines of each pipe: it is chance in which order two pipes are read, and much output
/// must not displace the errors.
#[derive(Debug, Default)]
struct Kept {
    output: VecDeque<String>,
    errors: VecDeque<String>,
}

/// A pipe of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pipe {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

impl Output {
    /// Creates an empty output of `program`, in which `secrets` will be redacted.
    pub(crate) fn new(program: &'static str, secrets: Secrets) -> Self {
        Self {
            program,
            secrets,
            kept: Mutex::default(),
        }
    }

    /// Reads a pipe to its end: its lines are logged and kept.
    pub(crate) async fn follow(&self, pipe: Pipe, reader: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(reader);
        // A pipe that cannot be read has ended.
        while let Ok(Some(line)) = read_line(&mut reader, MAX_READ).await {
            self.add(pipe, &line);
        }
    }

    /// Logs and keeps a line.
    pub(crate) fn add(&self, pipe: Pipe, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = sanitize_line(&self.secrets.redact(&text));
        let line: String = text.trim_end().chars().take(MAX_LINE).collect();
        tracing::debug!(
            program = self.program,
            line,
            "output of the WhatsApp bridge"
        );
        if line.trim().is_empty() {
            return;
        }
        let mut kept = self.kept();
        let kept = match pipe {
            Pipe::Output => &mut kept.output,
            Pipe::Errors => &mut kept.errors,
        };
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(line);
    }

    /// Returns the kept lines, errors last.
    pub(crate) fn lines(&self) -> Vec<String> {
        let kept = self.kept();
        kept.output.iter().chain(&kept.errors).cloned().collect()
    }

    /// Returns `text`, followed by the kept lines.
    pub(crate) fn explain(&self, text: &str) -> String {
        match self.lines() {
            lines if lines.is_empty() => text.to_owned(),
            lines => format!("{text}:\n{}", lines.join("\n")),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads one line without its line feed; `None` at the end. At most `limit` bytes of it are kept,
/// the rest is skipped.
pub(crate) async fn read_line(
    pipe: &mut (impl AsyncBufRead + Unpin),
    limit: usize,
) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut has_begun = false;
    loop {
        let buffer = pipe.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(has_begun.then_some(line));
        }
        has_begun = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(buffer.len());
        let room = limit.saturating_sub(line.len());
        line.extend(buffer.iter().take(length.min(room)));
        pipe.consume(length + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_bounded_and_only_the_last_ones_are_kept() {
        let mut text: Vec<u8> = (0..30)
            .flat_map(|n| format!("line {n}\n").into_bytes())
            .collect();
        text.extend([b'x'; 100_000]);
        text.extend(b"\n\n\x1b[31mred\xff \r\nend");
        let output = Output::new("test", Secrets::new([]));
        output.follow(Pipe::Output, text.as_slice()).await;
        let lines = output.lines();
        assert_eq!(lines.len(), MAX_KEPT);
        assert_eq!(lines[0], "line 23");
        assert_eq!(lines[7], "x".repeat(MAX_LINE));
        assert!(!lines[8].contains('\x1b'), "{lines:?}");
        assert_eq!(lines[9], "end");
        output.add(Pipe::Errors, b"error");
        output.add(Pipe::Output, b"more");
        let lines = output.lines();
        assert_eq!(lines.len(), MAX_KEPT + 1);
        assert_eq!(lines[9..], ["more", "error"]);
    }

    #[tokio::test]
    async fn secret_at_the_limit_of_a_line_is_not_cut_but_redacted() {
        let secret = "0123456789abcdef".repeat(4);
        let line = format!("{}{secret} end\n", "x ".repeat(MAX_LINE / 2 - 8));
        let output = Output::new("test", Secrets::new([secret.clone()]));
        output.follow(Pipe::Errors, line.as_bytes()).await;
        let text = output.explain("it ended");
        assert!(text.starts_with("it ended:\nx x "), "{text}");
        assert!(!text.contains("01234567"), "{text}");
    }

    #[tokio::test]
    async fn line_without_an_end_is_read_within_its_limit() {
        let mut endless = BufReader::new(tokio::io::repeat(b'x'));
        let mut limited = BufReader::new(tokio::io::AsyncReadExt::take(&mut endless, 1 << 20));
        let line = read_line(&mut limited, 10).await.unwrap();
        assert_eq!(line, Some(b"xxxxxxxxxx".to_vec()));
        assert_eq!(read_line(&mut limited, 10).await.unwrap(), None);
    }
}
