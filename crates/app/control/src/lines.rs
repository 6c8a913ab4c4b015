//! JSON lines of bounded length.

use std::io;

use nanobot_types::json;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

/// Reads JSON lines up to a maximum length.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader of lines with at most `limit` bytes.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            limit,
        }
    }

    /// Reads the next value; returns `None` if the peer disconnected. Cancel-safe.
    ///
    /// # Errors
    /// Returns the system's error; [`io::ErrorKind::InvalidData`] for a line that is too long,
    /// truncated or not such a value.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let line = self.next_line().await?;
        line.map(|line| serde_json::from_slice(&line))
            .transpose()
            .map_err(io::Error::from)
    }

    /// Like [`next`](Self::next) for an untrusted client's value: its depth and size are limited.
    pub(crate) async fn next_bounded<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let line = self.next_line().await?;
        let invalid = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        line.map(|line| json::from_slice(&line))
            .transpose()
            .map_err(invalid)
    }

    async fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return if self.line.is_empty() {
                    Ok(None)
                } else {
                    Err(invalid("the last line is cut off"))
                };
            }
            let (taken, ends) = match available.iter().position(|byte| *byte == b'\n') {
                Some(index) => (index.saturating_add(1), true),
                None => (available.len(), false),
            };
            self.line.extend(available.iter().take(taken));
            self.reader.consume(taken);
            if self.line.len() > self.limit {
                return Err(invalid("the request or response is too long"));
            }
            if ends {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Writes a value as a line.
///
/// # Errors
/// Returns the system's error.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    value: &impl Serialize,
) -> io::Result<()> {
    write_line(writer, &line(value)?).await
}

/// Encodes a value as a line.
///
/// # Errors
/// Returns the error of the value's `Serialize` implementation.
pub(crate) fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes an encoded line.
///
/// # Errors
/// Returns the system's error.
pub(crate) async fn write_line<W: AsyncWrite + Unpin>(
    writer: &mut W,
    line: &[u8],
) -> io::Result<()> {
    writer.write_all(line).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn truncated_and_oversized_lines_are_errors() {
        let mut lines = LineReader::new(&b"1\n22\n"[..], 3);
        assert_eq!(lines.next::<u32>().await.unwrap(), Some(1));
        assert_eq!(lines.next::<u32>().await.unwrap(), Some(22));
        assert_eq!(lines.next::<u32>().await.unwrap(), None);
        for bad in [&b"1234567"[..], b"12", b"x\n"] {
            LineReader::new(bad, 3).next::<u32>().await.unwrap_err();
        }
    }
}
