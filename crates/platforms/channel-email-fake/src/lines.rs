//! Reads the lines of both protocols.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Reads the next line, without its line ending. Returns `None` if the stream ends first.
pub(crate) async fn line(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> std::io::Result<Option<String>> {
    line_into(reader, &mut Vec::new()).await
}

/// Like [`line`], but cancel-safe: if the future is dropped, the bytes read so far stay in `begun`
/// for the next call.
pub(crate) async fn line_into(
    reader: &mut (impl AsyncBufRead + Unpin),
    begun: &mut Vec<u8>,
) -> std::io::Result<Option<String>> {
    reader.read_until(b'\n', begun).await?;
    let line = std::mem::take(begun);
    // An unterminated line is not a command: the client was killed or gave up while sending it.
    if !line.ends_with(b"\n") {
        return Ok(None);
    }
    Ok(Some(
        String::from_utf8_lossy(&line)
            .trim_end_matches(['\r', '\n'])
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn incomplete_line_is_not_returned() {
        let mut reader = &b"a1 NOOP\r\na2"[..];
        assert_eq!(line(&mut reader).await.unwrap().as_deref(), Some("a1 NOOP"));
        assert_eq!(line(&mut reader).await.unwrap(), None);
        assert_eq!(line(&mut reader).await.unwrap(), None);
    }
}
