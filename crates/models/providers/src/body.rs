//! Turns a response body into complete, bounded lines of an event stream.
//!
//! Decision: the body is classified by its first character, not by its content type, because
//! servers get that wrong. A JSON document becomes one event, so that a server that ignores
//! `stream` still works; a web page is an error. A line is passed on only when it is complete: the
//! event parsers that read these lines never see half a character or half a frame, and one line
//! cannot fill the memory.

use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use nanobot_provider::ProviderError;
use nanobot_types::json::{self, MemoryEstimate};
use reqwest::Response;
use serde_json::value::RawValue;

use crate::client::network_error;

/// Maximum length of a line of an event stream, in bytes.
const LINE_LIMIT: usize = 4 << 20;

/// Maximum length of a frame of an event stream, which its parser may have to hold, in bytes.
const FRAME_LIMIT: usize = 2 * LINE_LIMIT;

/// Maximum length of a response that is not a stream, in bytes.
const DOCUMENT_LIMIT: usize = json::BODY_LIMIT;

/// Maximum number of bytes passed on at once when they are more than one line. The event parser
/// copies the remainder after each line.
const BATCH: usize = 2 << 10;

/// The byte order mark that some servers send before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Maximum number of bytes read of an error response.
const ERROR_LIMIT: usize = 64 << 10;

/// A slot for the error that the reader of a body hit. The consumer at the other end of
/// async-openai learns only that there was an error, and takes the cause from here.
#[derive(Debug, Default)]
pub(crate) struct ErrorSlot(Mutex<Option<ProviderError>>);

impl ErrorSlot {
    pub(crate) fn take(&self) -> Option<ProviderError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put(&self, error: ProviderError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// Reads the beginning of an error response. A read error ends it early.
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

/// Returns the lines of a successful response, each with its line ending. Waits for the first byte.
///
/// # Errors
/// Returns an error before the first line if there is no body, if the body cannot be read, or if it
/// is not a model's response.
pub(crate) async fn lines(
    response: Response,
) -> Result<impl Stream<Item = Result<Bytes, ProviderError>> + Send + 'static, ProviderError> {
    let url = response.url().clone();
    let mut chunks = response
        .bytes_stream()
        .map(move |chunk| chunk.map_err(|error| network_error(&url, error)))
        .boxed();
    let mut head = BytesMut::new();
    let first = loop {
        match chunks.next().await {
            Some(chunk) => head.extend_from_slice(&chunk?),
            None => {
                return Err(ProviderError::Malformed(
                    "the answer has no content".to_owned(),
                ));
            }
        }
        // The event parser panics on a byte order mark that is left.
        while head.starts_with(BYTE_ORDER_MARK) {
            drop(head.split_to(BYTE_ORDER_MARK.len()));
        }
        if BYTE_ORDER_MARK.starts_with(&head) {
            continue;
        }
        if let Some(first) = head.iter().find(|byte| !byte.is_ascii_whitespace()) {
            break *first;
        }
    };
    if first == b'<' {
        return Err(ProviderError::Malformed(
            "the server answered with a web page".to_owned(),
        ));
    }
    if !matches!(first, b'{' | b'[' | b'n') {
        return Ok(BodyLines::new(chunks, head).into_stream().boxed());
    }
    while let Some(chunk) = chunks.next().await {
        head.extend_from_slice(&chunk?);
        if head.len() > DOCUMENT_LIMIT {
            return Err(ProviderError::Malformed(format!(
                "the answer is longer than {DOCUMENT_LIMIT} bytes"
            )));
        }
    }
    let frame = [
        Ok(Bytes::from_static(b"data: ")),
        Ok(one_line(head)?),
        Ok(Bytes::from_static(b"\n\n")),
    ];
    Ok(futures_util::stream::iter(frame).boxed())
}

/// Puts a JSON document on one line. It is validated but not parsed into values.
fn one_line(mut document: BytesMut) -> Result<Bytes, ProviderError> {
    let checked: Result<&RawValue, _> = json::from_slice(&document);
    checked.map_err(|error| {
        ProviderError::Malformed(format!("the answer is neither a stream nor JSON: {error}"))
    })?;
    // Every line break is outside of strings: one inside a string would have been an error.
    document
        .iter_mut()
        .filter(|byte| matches!(byte, b'\n' | b'\r'))
        .for_each(|byte| *byte = b' ');
    Ok(document.freeze())
}

/// Reads a whole response that is not a stream.
pub(crate) async fn document(response: Response) -> Result<Vec<u8>, ProviderError> {
    let url = response.url().clone();
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(|error| network_error(&url, error))?);
        if body.len() > DOCUMENT_LIMIT {
            return Err(ProviderError::Malformed(format!(
                "the answer is longer than {DOCUMENT_LIMIT} bytes"
            )));
        }
    }
    Ok(body)
}

struct BodyLines<S> {
    chunks: S,
    pending: BytesMut,
    /// Bytes already passed on of the frame in progress.
    frame: usize,
    /// Estimated memory of the values in that frame.
    values: MemoryEstimate,
    /// `true` if nothing comes after what is pending.
    is_last: bool,
    ended: bool,
}

impl<S: Stream<Item = Result<Bytes, ProviderError>> + Unpin + Send> BodyLines<S> {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, ProviderError>> + Send {
        futures_util::stream::unfold(self, |mut lines| async move {
            lines.next().await.map(|item| (item, lines))
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, ProviderError>> {
        // The bytes before this position have been searched for a line ending.
        let mut searched = 0;
        while !self.ended {
            if let Some(end) = self.batch_end(searched) {
                let lines = self.pending.split_to(end).freeze();
                let lines = self.alive(repair_utf8(lines));
                return Some(match self.weigh(&lines) {
                    _ if self.frame > FRAME_LIMIT => Err(self.too_long(FRAME_LIMIT)),
                    Ok(()) => Ok(lines),
                    Err(error) => Err(error),
                });
            }
            searched = self.pending.len();
            if searched > LINE_LIMIT {
                return Some(Err(self.too_long(LINE_LIMIT)));
            }
            if self.is_last {
                break;
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.pending.extend_from_slice(&chunk),
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                None => {
                    self.is_last = true;
                    // Some servers leave out the end of their last frame.
                    self.pending.extend_from_slice(b"\n\n");
                }
            }
        }
        None
    }
}

impl<S> BodyLines<S> {
    fn new(chunks: S, pending: BytesMut) -> Self {
        Self {
            chunks,
            pending,
            frame: 0,
            values: MemoryEstimate::default(),
            is_last: false,
            ended: false,
        }
    }

    /// Returns the end of the lines to pass on next: one line, or as many as fit into a batch. No
    /// line ends before `searched`. A carriage return is not an end while a newline may follow.
    fn batch_end(&self, searched: usize) -> Option<usize> {
        let is_end = |at: &usize| match self.pending.get(*at) {
            Some(b'\n') => true,
            Some(b'\r') => self.pending.get(at + 1).is_some_and(|next| *next != b'\n'),
            _ => false,
        };
        let first = (searched.saturating_sub(1)..self.pending.len()).find(is_end)?;
        let last = (first..self.pending.len().min(BATCH)).rev().find(is_end);
        Some(last.unwrap_or(first) + 1)
    }

    /// Adds lines to the memory estimate of their frame.
    fn weigh(&mut self, lines: &[u8]) -> Result<(), ProviderError> {
        let lines = lines
            .strip_suffix(b"\n")
            .unwrap_or(lines)
            .split(|byte| *byte == b'\n');
        // A carriage return also ends a line, unless a newline follows.
        let lines = lines.flat_map(|line| {
            line.strip_suffix(b"\r")
                .unwrap_or(line)
                .split(|byte| *byte == b'\r')
        });
        for line in lines {
            if line.is_empty() {
                self.values = MemoryEstimate::default();
            } else if let Some(data) = line.strip_prefix(b"data:") {
                self.values.add(data);
            }
            if self.values.bytes() > json::MEMORY_LIMIT {
                self.ended = true;
                return Err(ProviderError::Malformed(
                    "a part of the answer holds too many values".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Inserts an empty object before a comment between frames. Event parsers drop comments, but
    /// some servers send them as keep-alives.
    fn alive(&mut self, lines: Bytes) -> Bytes {
        let is_comment = self.frame == 0 && lines.starts_with(b":");
        let ends_frame =
            lines.ends_with(b"\n\n") || lines.ends_with(b"\n\r\n") || lines.trim_ascii().is_empty();
        self.frame = if ends_frame {
            0
        } else {
            self.frame + lines.len()
        };
        if is_comment {
            Bytes::from([b"data: {}\n\n", &*lines].concat())
        } else {
            lines
        }
    }

    fn too_long(&mut self, limit: usize) -> ProviderError {
        self.ended = true;
        ProviderError::Malformed(format!("a part of the answer is longer than {limit} bytes"))
    }
}

/// Replaces invalid UTF-8 with the replacement character.
fn repair_utf8(lines: Bytes) -> Bytes {
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
        let mut lines = BodyLines::new(chunks, BytesMut::new());
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
    async fn lines_and_frames_are_bounded() {
        let mib = |end: &str| Bytes::from([vec![b'x'; 1 << 20], end.as_bytes().to_vec()].concat());
        let endless_line = vec![mib(""); 20];
        let (length, error) = read(endless_line).await;
        assert!(length == 0 && error.is_some(), "{length} {error:?}");
        let endless_frame = vec![mib("\n"); 20];
        let (length, error) = read(endless_frame).await;
        assert!(
            length <= FRAME_LIMIT && error.is_some(),
            "{length} {error:?}"
        );
        let frames = vec![mib("\n\n"); 20];
        let (length, error) = read(frames).await;
        assert_eq!((length, error), (20 * ((1 << 20) + 2) + 2, None));
    }

    #[tokio::test]
    async fn rejects_frames_of_too_many_values_with_any_line_end() {
        let values = format!("data: [{}\n", "[],".repeat(1 << 19));
        let per_line = "[],".repeat(1000);
        let table = [
            values.clone(),
            format!(": \"\n{values}"),
            format!("data: [{per_line}\n").repeat(1000),
            format!("data: [{per_line}\r\n").repeat(1000),
            format!("data: [{per_line}\r").repeat(1000) + "\n",
        ];
        for text in table {
            let (_, error) = read(vec![Bytes::from(text.clone())]).await;
            let expected =
                ProviderError::Malformed("a part of the answer holds too many values".to_owned());
            assert_eq!(error, Some(expected), "{:?}", text.get(..40));
        }
        let frames = format!("data: [{per_line}\n\n").repeat(1000);
        assert_eq!(read(vec![Bytes::from(frames)]).await.1, None);
    }

    #[tokio::test]
    async fn passes_many_lines_on_in_small_batches() {
        for unit in ["\n", "\r", "\r\n", "data: 1\r"] {
            let body = unit.repeat((1 << 20) / unit.len());
            let chunks = futures_util::stream::iter([Ok(Bytes::from(body.clone()))]);
            let lines = BodyLines::new(chunks, BytesMut::new()).into_stream();
            let batches: Vec<Bytes> = lines.map(Result::unwrap).collect().await;
            assert!(
                batches.iter().all(|batch| batch.len() <= BATCH + 1),
                "{unit:?}"
            );
            assert_eq!(
                batches.concat(),
                [body.as_bytes(), b"\n\n"].concat(),
                "{unit:?}"
            );
        }
    }

    #[test]
    fn joins_a_document_into_one_line_and_checks_its_size() {
        let read = |text: &str| {
            one_line(BytesMut::from(text)).map(|line| String::from_utf8(line.to_vec()).unwrap())
        };
        assert_eq!(read("{\r\n \"a\\n\": 1\n}").unwrap(), "{   \"a\\n\": 1 }");
        for text in [
            "{\"a\nb\": 1}".to_owned(),
            format!("[{}0]", "[],".repeat(1 << 20)),
            "[".repeat(1 << 20),
        ] {
            assert!(
                one_line(BytesMut::from(&*text)).is_err(),
                "{:?}",
                text.get(..20)
            );
        }
    }

    #[tokio::test]
    async fn comments_between_frames_count_as_keep_alive() {
        let table = [
            (
                vec![": hi\n\n", "data: 1\n\n"],
                "data: {}\n\n: hi\n\ndata: 1\n\n\n\n",
            ),
            (vec!["data: 1\n", ": hi\n", "\n"], "data: 1\n: hi\n\n\n\n"),
            (vec!["da", "ta: 1"], "data: 1\n\n"),
        ];
        for (chunks, expected) in table {
            let chunks =
                futures_util::stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))));
            let lines = BodyLines::new(chunks, BytesMut::new()).into_stream();
            let passed: Vec<Bytes> = lines.map(Result::unwrap).collect().await;
            assert_eq!(String::from_utf8(passed.concat()).unwrap(), expected);
        }
    }
}
