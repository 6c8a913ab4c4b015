//! Backpressure: keeps the reader of a body from running ahead of the consumer of its events.
//!
//! async-openai parses in a task of its own, with an unbounded queue. Decision: from time to time a
//! frame of our own, the mark, is inserted between the vendor's, and the body is read on only after
//! the previous mark was consumed. A mark is a whole frame, so it always arrives. Counting other
//! frames does not work, because frames without data produce nothing.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use nanobot_provider::ProviderError;
use serde_json::Value;
use tokio::sync::Semaphore;

/// Minimum number of bytes between two marks.
const STRIDE: usize = 64 << 10;

/// The member that makes a frame a mark.
const MARK: &str = "nanobot_mark";

/// Backpressure state of one response.
#[derive(Debug)]
pub(super) struct Backpressure {
    /// Number that a vendor cannot guess. A vendor that sent marks itself would defeat the limit.
    secret: u64,
    consumed: Semaphore,
}

impl Default for Backpressure {
    fn default() -> Self {
        Self {
            secret: RandomState::new().build_hasher().finish(),
            consumed: Semaphore::new(1),
        }
    }
}

impl Backpressure {
    /// Takes a chunk that the consumer received; returns `true` if it is one of our marks.
    pub(super) fn consume_mark(&self, chunk: &Value) -> bool {
        let is_mark = chunk.get(MARK).and_then(Value::as_u64) == Some(self.secret);
        if is_mark {
            self.consumed.add_permits(1);
        }
        is_mark
    }

    /// Inserts marks into a stream of whole lines, and waits for them to be consumed.
    pub(super) fn throttle<S>(
        self: Arc<Self>,
        lines: S,
    ) -> impl Stream<Item = Result<Bytes, ProviderError>> + Send
    where
        S: Stream<Item = Result<Bytes, ProviderError>> + Send + Unpin + 'static,
    {
        futures_util::stream::unfold(
            (lines, 0, self),
            |(mut lines, mut ahead, pace)| async move {
                let next = match lines.next().await? {
                    Ok(next) => next,
                    Err(error) => return Some((Err(error), (lines, ahead, pace))),
                };
                ahead += next.len();
                let end = if ahead < STRIDE {
                    None
                } else {
                    end_of_frame(&next)
                };
                let Some(end) = end else {
                    return Some((Ok(next), (lines, ahead, pace)));
                };
                // The semaphore is never closed.
                if let Ok(permit) = pace.consumed.acquire().await {
                    permit.forget();
                }
                let paced = pace.mark(&next, end);
                Some((Ok(paced), (lines, 0, pace)))
            },
        )
    }

    /// Inserts a mark into the lines at `place`.
    fn mark(&self, lines: &Bytes, place: usize) -> Bytes {
        let mark = format!("data: {{\"{MARK}\":{}}}\n\n", self.secret);
        let mut paced = BytesMut::with_capacity(lines.len() + mark.len());
        paced.extend_from_slice(&lines.slice(..place));
        paced.extend_from_slice(mark.as_bytes());
        paced.extend_from_slice(&lines.slice(place..));
        paced.freeze()
    }
}

/// Finds the end of the first frame that ends in these whole lines: after an empty line.
fn end_of_frame(lines: &[u8]) -> Option<usize> {
    let mut start = 0;
    let mut bytes = lines.iter().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        let end = match byte {
            b'\r' if bytes.next_if(|(_, next)| **next == b'\n').is_some() => at + 2,
            b'\r' | b'\n' => at + 1,
            _ => continue,
        };
        if at == start {
            return Some(end);
        }
        start = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_with_an_empty_line() {
        let table = [
            ("data: 1\n", None),
            ("data: 1\n\ndata: 2\n", Some(9)),
            ("\ndata: 2\n", Some(1)),
            ("data: 1\r\n\r\n", Some(11)),
            ("data: 1\r\rx", Some(9)),
            ("", None),
        ];
        for (lines, expected) in table {
            assert_eq!(end_of_frame(lines.as_bytes()), expected, "{lines:?}");
        }
    }

    #[tokio::test]
    async fn backpressure_limits_reading_ahead() {
        let frame = Bytes::from(format!("data: {{\"x\":\"{}\"}}\n\n", "y".repeat(1000)));
        let pace = Arc::new(Backpressure::default());
        let lines = futures_util::stream::repeat(frame).take(1000).map(Ok);
        let mut paced = Box::pin(Arc::clone(&pace).throttle(lines));
        let (mut read, mut marks) = (0, 0);
        loop {
            // Only a consumed mark makes the stream ready again.
            let Some(next) = futures_util::FutureExt::now_or_never(paced.next()) else {
                assert!(read <= 2 * (STRIDE + 2000), "{read}");
                let mark = serde_json::json!({ MARK: pace.secret });
                assert!(
                    pace.consume_mark(&mark) && !pace.consume_mark(&serde_json::json!({ MARK: 7 }))
                );
                (read, marks) = (0, marks + 1);
                continue;
            };
            let Some(Ok(bytes)) = next else { break };
            read += bytes.len();
        }
        assert!((13..=15).contains(&marks), "{marks}");
    }
}
