//! Turns the body of an answer into whole, bounded lines of an event stream.
//!
//! Decision: what comes is judged by its first character, not by its content type, because
//! servers get that wrong. A JSON document becomes one event, so that a server which ignores
//! `stream` is understood; a web page is an error. A line is passed on only when it is complete:
//! the event parsers behind this then never see a character or a frame in halves, and one line
//! cannot fill the memory.

use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use nanobot_provider::ProviderError;
use reqwest::Response;
use serde_json::Value;

use crate::client::network_error;

/// The longest line of an event stream.
const LINE_LIMIT: usize = 4 << 20;

/// The longest frame of an event stream: what its parser may have to hold.
const FRAME_LIMIT: usize = 2 * LINE_LIMIT;

/// The longest answer that is not a stream.
const DOCUMENT_LIMIT: usize = 16 << 20;

/// The longest error that is read.
const ERROR_LIMIT: usize = 64 << 10;

/// A place where the reader of a body leaves what went wrong, for those who only learn that
/// something did.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<ProviderError>>);

impl Trouble {
    pub(crate) fn take(&self) -> Option<ProviderError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put(&self, error: ProviderError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// The beginning of an error's body; what cannot be read is left out.
pub(crate) async fn error_body(response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        body.extend_from_slice(&chunk);
        if body.len() >= ERROR_LIMIT {
            body.truncate(ERROR_LIMIT);
            break;
        }
    }
    body
}

/// The lines of a successful answer, each with its end. Waits for the first byte.
///
/// # Errors
/// Before the first line, when there is no body, or one that is no model's answer.
pub(crate) async fn lines(
    response: Response,
) -> Result<impl Stream<Item = Result<Bytes, ProviderError>> + Send + 'static, ProviderError> {
    let url = response.url().clone();
    let mut chunks =
        response.bytes_stream().map(move |chunk| chunk.map_err(|error| network_error(&url, error))).boxed();
    let mut head = BytesMut::new();
    let first = loop {
        match chunks.next().await {
            Some(chunk) => head.extend_from_slice(&chunk?),
            None => return Err(ProviderError::Malformed("the answer has no content".to_owned())),
        }
        if let Some(first) = head.iter().find(|byte| !byte.is_ascii_whitespace()) {
            break *first;
        }
    };
    if first == b'<' {
        return Err(ProviderError::Malformed("the server answered with a web page".to_owned()));
    }
    if !matches!(first, b'{' | b'[' | b'n') {
        return Ok(Lines { chunks, pending: head, frame: 0, ended: false }.into_stream().boxed());
    }
    while let Some(chunk) = chunks.next().await {
        head.extend_from_slice(&chunk?);
        if head.len() > DOCUMENT_LIMIT {
            return Err(ProviderError::Malformed(format!("the answer is longer than {DOCUMENT_LIMIT} bytes")));
        }
    }
    let document: Value = serde_json::from_slice(&head)
        .map_err(|error| ProviderError::Malformed(format!("the answer is neither a stream nor JSON: {error}")))?;
    let frame = Bytes::from(format!("data: {document}\n\n"));
    Ok(futures_util::stream::iter([Ok(frame)]).boxed())
}

struct Lines<S> {
    chunks: S,
    pending: BytesMut,
    /// Bytes passed on of a frame that has not ended.
    frame: usize,
    ended: bool,
}

impl<S: Stream<Item = Result<Bytes, ProviderError>> + Unpin + Send> Lines<S> {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, ProviderError>> + Send {
        futures_util::stream::unfold(self, |mut lines| async move { lines.next().await.map(|item| (item, lines)) })
    }

    async fn next(&mut self) -> Option<Result<Bytes, ProviderError>> {
        // Everything before this was searched already.
        let mut searched = 0;
        while !self.ended {
            let unseen = self.pending.get(searched..).unwrap_or_default();
            if let Some(position) = unseen.iter().rposition(|byte| *byte == b'\n') {
                let lines = self.pending.split_to(searched + position + 1).freeze();
                let lines = self.alive(sound(lines));
                return Some(if self.frame > FRAME_LIMIT { Err(self.too_long(FRAME_LIMIT)) } else { Ok(lines) });
            }
            searched = self.pending.len();
            if searched > LINE_LIMIT {
                return Some(Err(self.too_long(LINE_LIMIT)));
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.pending.extend_from_slice(&chunk),
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                None => {
                    self.ended = true;
                    // Some servers leave out the end of their last frame.
                    self.pending.extend_from_slice(b"\n\n");
                    return Some(Ok(sound(self.pending.split().freeze())));
                }
            }
        }
        None
    }
}

impl<S> Lines<S> {
    /// Puts an empty object in front of a comment between frames. Event parsers drop comments, but
    /// they are how some servers say that they are still at work.
    fn alive(&mut self, lines: Bytes) -> Bytes {
        let is_comment = self.frame == 0 && lines.starts_with(b":");
        let ends_frame = lines.ends_with(b"\n\n") || lines.ends_with(b"\n\r\n") || lines.trim_ascii().is_empty();
        self.frame = if ends_frame { 0 } else { self.frame + lines.len() };
        if is_comment { Bytes::from([b"data: {}\n\n", &*lines].concat()) } else { lines }
    }

    fn too_long(&mut self, limit: usize) -> ProviderError {
        self.ended = true;
        ProviderError::Malformed(format!("a part of the answer is longer than {limit} bytes"))
    }
}

/// The lines with a replacement character for what is not UTF-8.
fn sound(lines: Bytes) -> Bytes {
    match String::from_utf8_lossy(&lines) {
        std::borrow::Cow::Borrowed(_) => lines,
        std::borrow::Cow::Owned(repaired) => Bytes::from(repaired),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(chunks: Vec<Bytes>) -> (usize, Option<ProviderError>) {
        let chunks = futures_util::stream::iter(chunks.into_iter().map(Ok));
        let mut lines = Lines { chunks, pending: BytesMut::new(), frame: 0, ended: false };
        let mut length = 0;
        loop {
            match lines.next().await {
                Some(Ok(bytes)) => length += bytes.len(),
                Some(Err(error)) => return (length, Some(error)),
                None => return (length, None),
            }
        }
    }

    #[tokio::test]
    async fn neither_a_line_nor_a_frame_grows_without_end() {
        let mib = |end: &str| Bytes::from([vec![b'x'; 1 << 20], end.as_bytes().to_vec()].concat());
        let endless_line = vec![mib(""); 20];
        let (length, error) = read(endless_line).await;
        assert!(length == 0 && error.is_some(), "{length} {error:?}");
        let endless_frame = vec![mib("\n"); 20];
        let (length, error) = read(endless_frame).await;
        assert!(length <= FRAME_LIMIT && error.is_some(), "{length} {error:?}");
        let frames = vec![mib("\n\n"); 20];
        let (length, error) = read(frames).await;
        assert_eq!((length, error), (20 * ((1 << 20) + 2) + 2, None));
    }

    #[tokio::test]
    async fn comments_between_frames_are_signs_of_life() {
        let table = [
            (vec![": hi\n\n", "data: 1\n\n"], "data: {}\n\n: hi\n\ndata: 1\n\n\n\n"),
            (vec!["data: 1\n", ": hi\n", "\n"], "data: 1\n: hi\n\n\n\n"),
            (vec!["da", "ta: 1"], "data: 1\n\n"),
        ];
        for (chunks, expected) in table {
            let chunks = futures_util::stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))));
            let lines = Lines { chunks, pending: BytesMut::new(), frame: 0, ended: false }.into_stream();
            let passed: Vec<Bytes> = lines.map(Result::unwrap).collect().await;
            assert_eq!(String::from_utf8(passed.concat()).unwrap(), expected);
        }
    }
}
