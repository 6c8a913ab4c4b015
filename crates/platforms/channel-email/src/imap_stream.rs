//! The connection to the IMAP server, with a limit on what it may send.
//!
//! Decision: async-imap allocates a literal as soon as its size is announced, so a server that
//! announces half a gigabyte has to be stopped before that. The bytes are counted here: each
//! command grants what it may bring, and an announced literal or a flood beyond it ends the
//! connection. The end of the connection is an error here, too, because async-imap takes it for the
//! end of an answer, and a mail that was cut off would count as complete.
//!
//! Writes are buffered until they are flushed: async-imap writes a command in four pieces, and each
//! would be a packet and a TLS record.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};

/// Bytes that a command may bring besides the mail it asks for.
pub(crate) const SMALL_TALK: u64 = 16 << 20;

/// A byte stream of any kind.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> ByteStream for T {}

/// A stream that returns no more bytes than were granted.
pub(crate) struct LimitedStream {
    inner: BufWriter<Box<dyn ByteStream>>,
    granted: u64,
    received: Arc<AtomicU64>,
    literals: LiteralWatch,
}

impl LimitedStream {
    pub(crate) fn new(inner: impl ByteStream + 'static) -> Self {
        let inner: Box<dyn ByteStream> = Box::new(inner);
        Self {
            inner: BufWriter::new(inner),
            granted: SMALL_TALK,
            received: Arc::default(),
            literals: LiteralWatch::default(),
        }
    }

    /// Sets the number of bytes that may arrive from now on.
    pub(crate) fn grant(&mut self, bytes: u64) {
        self.granted = bytes;
    }

    /// Returns the counter of bytes that have arrived.
    pub(crate) fn received(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.received)
    }

    /// Returns the underlying stream.
    pub(crate) fn into_inner(self) -> Box<dyn ByteStream> {
        self.inner.into_inner()
    }
}

impl fmt::Debug for LimitedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedStream")
            .field("granted", &self.granted)
            .finish_non_exhaustive()
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let news = buf.filled().get(before..).unwrap_or_default();
        let announced = self.literals.watch(news);
        if news.is_empty() && buf.remaining() > 0 {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server has hung up",
            )));
        }
        let came = u64::try_from(news.len()).unwrap_or(u64::MAX);
        if came > self.granted || announced > self.granted {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the server sends more than was asked for",
            )));
        }
        self.granted -= came;
        self.received.fetch_add(came, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Finds announcements of literals (`{123}` at the end of a line), and skips the literals.
#[derive(Debug, Default)]
struct LiteralWatch {
    /// Bytes of the current literal that have not arrived.
    left: u64,
    announced: LiteralState,
}

#[derive(Debug, Default)]
enum LiteralState {
    #[default]
    Nothing,
    Digits(u64),
    Closed(u64),
    LineEnds(u64),
}

impl LiteralWatch {
    /// Returns the size of the largest literal that these bytes announce.
    fn watch(&mut self, bytes: &[u8]) -> u64 {
        let mut largest = 0;
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.left > 0 {
                let passed = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(rest.len());
                rest = rest.get(passed..).unwrap_or_default();
                self.left -= u64::try_from(passed).unwrap_or(self.left);
                continue;
            }
            rest = after;
            self.announced = match (&self.announced, byte) {
                (_, b'{') => LiteralState::Digits(0),
                (LiteralState::Digits(size), b'0'..=b'9') => LiteralState::Digits(
                    size.saturating_mul(10)
                        .saturating_add(u64::from(byte - b'0')),
                ),
                (LiteralState::Digits(size), b'}') => LiteralState::Closed(*size),
                (LiteralState::Closed(size), b'\r') => LiteralState::LineEnds(*size),
                (LiteralState::LineEnds(size), b'\n') => {
                    self.left = *size;
                    largest = largest.max(*size);
                    LiteralState::Nothing
                }
                _ => LiteralState::Nothing,
            };
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn literal_sizes_are_found_across_chunk_boundaries() {
        let text =
            b"* 1 FETCH (BODY[] {12}\r\n{900000}\r\nab FLAGS ()) {7}\r\n1234567 {x}\r\n{5}x\r\n";
        for size in 1..text.len() {
            let mut watch = LiteralWatch::default();
            let announced: Vec<_> = text
                .chunks(size)
                .map(|piece| watch.watch(piece))
                .filter(|size| *size > 0)
                .collect();
            // The twelve bytes of the first literal look like an announcement, and are none.
            let largest = announced.iter().max().copied();
            assert_eq!(largest, Some(12), "pieces of {size}: {announced:?}");
        }
        assert_eq!(
            LiteralWatch::default().watch(b"{99999999999999999999999}\r\n"),
            u64::MAX
        );
    }

    #[tokio::test]
    async fn pieces_of_a_command_are_sent_together() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut wire = LimitedStream::new(near);
        for piece in ["A1", " ", "NOOP", "\r\n"] {
            wire.write_all(piece.as_bytes()).await.unwrap();
        }
        wire.flush().await.unwrap();
        let mut bytes = [0; 64];
        let length = far.read(&mut bytes).await.unwrap();
        assert_eq!(&bytes[..length], b"A1 NOOP\r\n");
    }

    #[tokio::test]
    async fn reading_beyond_the_grant_fails() {
        for (text, granted, fits) in [
            ("* OK {5}\r\n", 10, true),
            ("* OK {11}\r\n", 100, true),
            ("* OK {101}\r\n", 100, false),
            ("12345678901", 10, false),
        ] {
            let (near, mut far) = tokio::io::duplex(64);
            far.write_all(text.as_bytes()).await.unwrap();
            let mut wire = LimitedStream::new(near);
            wire.grant(granted);
            assert_eq!(wire.read(&mut [0; 64]).await.is_ok(), fits, "{text}");
        }
    }
}
