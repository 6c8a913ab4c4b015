//! Frames on the pipes: the number of parts, the length of each, and their bytes.
//!
//! Decision: numbers are four bytes, little-endian. Lengths are checked against the limit before
//! anything is read for them, and memory grows with the bytes received, never with an announced
//! length.

use std::io::{self, Read, Write};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::exchange::{MailText, Parts};

/// Maximum number of parts in a frame: metadata, a text, and the files of a mail.
const MAX_PARTS: usize = MailText::MAX_FILES + 2;
const NUMBER: usize = 4;

/// Error of reading or writing a frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The pipe is closed, or was closed within a frame.
    #[error("the pipe is closed")]
    Closed,
    /// The frame announces more parts or bytes than allowed.
    #[error("the frame is too large")]
    TooLarge,
}

/// Reads a frame whose parts have at most `limit` bytes in total. Returns `None` at the end of the
/// pipe.
pub(crate) fn read(from: &mut impl Read, limit: usize) -> io::Result<Option<Parts>> {
    let mut count = Vec::new();
    from.by_ref().take(NUMBER as u64).read_to_end(&mut count)?;
    if count.is_empty() {
        return Ok(None);
    }
    let sizes = part_count(&count)?;
    let mut lengths = Vec::new();
    from.by_ref().take(sizes as u64).read_to_end(&mut lengths)?;
    let mut parts = Vec::new();
    for length in part_lengths(&lengths, sizes, limit)? {
        let mut part = Vec::new();
        from.by_ref().take(length as u64).read_to_end(&mut part)?;
        parts.push(whole(part, length)?);
    }
    Ok(Some(parts))
}

/// Async version of [`read`], in which the end of the pipe is an error.
pub(crate) async fn receive(
    from: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<Parts> {
    let mut count = Vec::new();
    from.take(NUMBER as u64).read_to_end(&mut count).await?;
    let sizes = part_count(&count)?;
    let mut lengths = Vec::new();
    from.take(sizes as u64).read_to_end(&mut lengths).await?;
    let mut parts = Vec::new();
    for length in part_lengths(&lengths, sizes, limit)? {
        let mut part = Vec::new();
        from.take(length as u64).read_to_end(&mut part).await?;
        parts.push(whole(part, length)?);
    }
    Ok(parts)
}

/// Writes a frame.
pub(crate) fn write(to: &mut impl Write, parts: &Parts) -> io::Result<()> {
    to.write_all(&preamble(parts)?)?;
    for part in parts {
        to.write_all(part)?;
    }
    to.flush()
}

/// Async version of [`write`].
pub(crate) async fn send(to: &mut (impl AsyncWrite + Unpin), parts: &Parts) -> io::Result<()> {
    to.write_all(&preamble(parts)?).await?;
    for part in parts {
        to.write_all(part).await?;
    }
    to.flush().await
}

fn preamble(parts: &Parts) -> io::Result<Vec<u8>> {
    if parts.len() > MAX_PARTS {
        return Err(too_large());
    }
    let mut bytes = number(parts.len())?.to_vec();
    for part in parts {
        bytes.extend(number(part.len())?);
    }
    Ok(bytes)
}

fn number(value: usize) -> io::Result<[u8; NUMBER]> {
    u32::try_from(value)
        .map(u32::to_le_bytes)
        .map_err(|_too_large| too_large())
}

/// Decodes the number of parts and returns the total size of their length fields, in bytes.
fn part_count(bytes: &[u8]) -> io::Result<usize> {
    let bytes = <[u8; NUMBER]>::try_from(bytes).map_err(|_short| closed())?;
    let count = u32::from_le_bytes(bytes) as usize;
    if count > MAX_PARTS {
        Err(too_large())
    } else {
        Ok(count * NUMBER)
    }
}

fn part_lengths(bytes: &[u8], expected: usize, limit: usize) -> io::Result<Vec<usize>> {
    if bytes.len() != expected {
        return Err(closed());
    }
    let (numbers, _) = bytes.as_chunks::<NUMBER>();
    let lengths: Vec<usize> = numbers
        .iter()
        .map(|number| u32::from_le_bytes(*number) as usize)
        .collect();
    let total = lengths
        .iter()
        .fold(0_usize, |sum, length| sum.saturating_add(*length));
    if total > limit {
        Err(too_large())
    } else {
        Ok(lengths)
    }
}

fn whole(part: Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    if part.len() == length {
        Ok(part)
    } else {
        Err(closed())
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, FrameError::Closed)
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, FrameError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_exactly_the_written_frame() {
        let parts: Parts = vec![b"facts".to_vec(), Vec::new(), vec![7; 300]];
        let mut bytes = Vec::new();
        write(&mut bytes, &parts).unwrap();
        bytes.extend(b"rest");
        let mut sync = bytes.as_slice();
        assert_eq!(read(&mut sync, 305).unwrap(), Some(parts.clone()));
        assert_eq!(sync, b"rest");
        let mut other = bytes.as_slice();
        assert_eq!(receive(&mut other, 305).await.unwrap(), parts);
        assert_eq!(other, b"rest");
        assert_eq!(read(&mut [].as_slice(), 1).unwrap(), None);
    }

    #[tokio::test]
    async fn rejects_oversized_and_truncated_frames() {
        let mut whole = Vec::new();
        write(&mut whole, &vec![vec![1; 10], vec![2; 10]]).unwrap();
        let huge = [1_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        let many = u32::MAX.to_le_bytes().to_vec();
        for (bytes, limit, kind) in [
            (whole.clone(), 19, io::ErrorKind::InvalidData),
            (huge, usize::MAX >> 40, io::ErrorKind::InvalidData),
            (many, usize::MAX, io::ErrorKind::InvalidData),
            (whole[..31].to_vec(), 20, io::ErrorKind::UnexpectedEof),
            (whole[..9].to_vec(), 20, io::ErrorKind::UnexpectedEof),
            (whole[..3].to_vec(), 20, io::ErrorKind::UnexpectedEof),
        ] {
            assert_eq!(read(&mut bytes.as_slice(), limit).unwrap_err().kind(), kind);
            assert_eq!(
                receive(&mut bytes.as_slice(), limit)
                    .await
                    .unwrap_err()
                    .kind(),
                kind
            );
        }
    }
}
