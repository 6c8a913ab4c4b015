//! The last lines that the program wrote to its stderr.

use std::{collections::VecDeque, io};

use tokio::{io::AsyncReadExt as _, process::ChildStderr};

/// Maximum number of bytes that are kept.
const MAX_KEPT: usize = 2048;

/// Bytes that are read at once.
const CHUNK: usize = 1024;

/// The stderr of the program, of which the end is kept.
#[derive(Debug)]
pub(crate) struct Tail {
    source: Option<ChildStderr>,
    kept: VecDeque<u8>,
}

impl Tail {
    /// Keeps the end of `source`.
    pub(crate) fn new(source: Option<ChildStderr>) -> Self {
        Self {
            source,
            kept: VecDeque::new(),
        }
    }

    /// Reads until the program closes its stderr, then waits forever. It can be cancelled and
    /// called again.
    pub(crate) async fn drain(&mut self) {
        while self.step().await.is_some() {}
        std::future::pending::<()>().await;
    }

    /// Reads what is left, until the program closes its stderr.
    pub(crate) async fn finish(&mut self) {
        while self.step().await.is_some() {}
    }

    async fn step(&mut self) -> Option<()> {
        let source = self.source.as_mut()?;
        let mut chunk = [0; CHUNK];
        let read = match source.read(&mut chunk).await {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Some(()),
            Err(_) => 0,
        };
        if read == 0 {
            self.source = None;
            return None;
        }
        self.keep(chunk.iter().take(read).copied());
        Some(())
    }

    fn keep(&mut self, bytes: impl Iterator<Item = u8>) {
        self.kept.extend(bytes);
        let excess = self.kept.len().saturating_sub(MAX_KEPT);
        self.kept.drain(..excess);
    }

    /// Returns what is kept, as lines joined by `; `, without control characters.
    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let text = lines.collect::<Vec<_>>().join("; ");
        text.chars().filter(|c| !c.is_control()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_without_control_characters() {
        let mut tail = Tail::new(None);
        tail.keep(b"first\n\n\x1b[31msecond\r\n".iter().copied());
        assert_eq!(tail.text(), "first; [31msecond");
        tail.keep(std::iter::repeat_n(b'a', 10 * MAX_KEPT));
        assert_eq!(tail.text(), "a".repeat(MAX_KEPT));
    }
}
