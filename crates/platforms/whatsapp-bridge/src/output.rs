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
/// Lines that are kept, the last ones.
const MAX_KEPT: usize = 10;

/// The last lines of a process. Contains no secret.
#[derive(Debug)]
pub(crate) struct Output {
    secrets: Secrets,
    kept: Mutex<VecDeque<String>>,
}

impl Output {
    /// Creates an empty output, in which `secrets` will be redacted.
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self {
            secrets,
            kept: Mutex::default(),
        }
    }

    /// Reads a pipe to its end: its lines are logged and kept.
    pub(crate) async fn follow(&self, pipe: impl AsyncRead + Unpin, program: &'static str) {
        let mut pipe = BufReader::new(pipe);
        // A pipe that cannot be read has ended.
        while let Ok(Some(line)) = read_line(&mut pipe, MAX_READ).await {
            self.add(&line, program);
        }
    }

    /// Logs and keeps a line.
    pub(crate) fn add(&self, line: &[u8], program: &'static str) {
        let text = String::from_utf8_lossy(line);
        let text = sanitize_line(&self.secrets.redact(&text));
        let line: String = text.trim_end().chars().take(MAX_LINE).collect();
        tracing::debug!(program, line, "output of the WhatsApp bridge");
        if line.trim().is_empty() {
            return;
        }
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(line);
    }

    /// Returns the kept lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.kept().iter().cloned().collect()
    }

    /// Returns `text`, followed by the kept lines.
    pub(crate) fn explain(&self, text: &str) -> String {
        match self.lines() {
            lines if lines.is_empty() => text.to_owned(),
            lines => format!("{text}:\n{}", lines.join("\n")),
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<String>> {
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
        let output = Output::new(Secrets::new([]));
        output.follow(text.as_slice(), "test").await;
        let lines = output.lines();
        assert_eq!(lines.len(), MAX_KEPT);
        assert_eq!(lines[0], "line 23");
        assert_eq!(lines[7], "x".repeat(MAX_LINE));
        assert!(!lines[8].contains('\x1b'), "{lines:?}");
        assert_eq!(lines[9], "end");
    }

    #[tokio::test]
    async fn secret_at_the_limit_of_a_line_is_not_cut_but_redacted() {
        let secret = "0123456789abcdef".repeat(4);
        let line = format!("{}{secret} end\n", "x ".repeat(MAX_LINE / 2 - 8));
        let output = Output::new(Secrets::new([secret.clone()]));
        output.follow(line.as_bytes(), "test").await;
        let text = output.explain("it ended");
        assert!(text.starts_with("it ended:\nx x "), "{text}");
        assert!(!text.contains(&secret[..8]), "{text}");
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
