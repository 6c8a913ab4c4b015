//! Bounded lines.

use std::io::{self, BufRead, Read as _, Write};

use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

use crate::protocol::MAX_LINE;

/// Reads a line without its end; `None` at the end of the input.
///
/// # Errors
/// Returns `InvalidData` for a line of more than [`MAX_LINE`] bytes, `UnexpectedEof` for a line
/// without an end, and the errors of `input`.
pub fn read_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(limit()).read_until(b'\n', &mut line)?;
    complete(line)
}

/// Writes `value` as a line and flushes.
///
/// # Errors
/// Returns `InvalidData`, and writes nothing, if the line has more than [`MAX_LINE`] bytes. Returns
/// the errors of `output`.
pub fn write_line(output: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    output.write_all(&encode(value)?)?;
    output.flush()
}

/// Returns `value` as a line with its end.
pub(crate) fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
    if line.len() > MAX_LINE {
        return Err(too_long());
    }
    line.push(b'\n');
    Ok(line)
}

/// Reads a line as [`read_line`] does. Cancelling it loses what was read.
pub(crate) async fn receive(
    input: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(limit()).read_until(b'\n', &mut line).await?;
    complete(line)
}

/// The bytes of the longest line with its end.
fn limit() -> u64 {
    u64::try_from(MAX_LINE)
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

fn complete(mut line: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Some(line));
    }
    if line.len() > MAX_LINE {
        return Err(too_long());
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a line has more than {MAX_LINE} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_read_one_by_one() {
        let mut input = b"one\n\ntwo\n".as_slice();
        assert_eq!(read_line(&mut input).unwrap(), Some(b"one".to_vec()));
        assert_eq!(read_line(&mut input).unwrap(), Some(Vec::new()));
        assert_eq!(read_line(&mut input).unwrap(), Some(b"two".to_vec()));
        assert_eq!(read_line(&mut input).unwrap(), None);
    }

    #[test]
    fn an_incomplete_line_is_not_taken_for_a_line() {
        let error = read_line(&mut b"{\"id\":1".as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_longest_line_is_read_and_a_longer_one_refused() {
        let mut line = vec![b'a'; MAX_LINE];
        line.push(b'\n');
        let read = read_line(&mut line.as_slice()).unwrap().unwrap();
        assert_eq!(read.len(), MAX_LINE);
        line.insert(0, b'a');
        let error = read_line(&mut line.as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_value_that_is_too_long_is_not_written() {
        let mut output = Vec::new();
        let long = json!("a".repeat(MAX_LINE));
        assert!(write_line(&mut output, &long).is_err());
        assert!(output.is_empty());
        write_line(&mut output, &json!({"line": "a\nb"})).unwrap();
        assert_eq!(output, b"{\"line\":\"a\\nb\"}\n");
    }
}
