//! What a handler wants to happen on the socket.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::reply::Gate;

/// One thing to do on the connection while answering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write these bytes and flush them.
    Bytes(Bytes),
    /// Do nothing for that long.
    Wait(Duration),
    /// Do nothing until a test opens the gate.
    Until(Gate),
    /// Do nothing until the client leaves or the server stops.
    Hang,
    /// Close in good order (FIN) at once, whatever the framing promised.
    Fin,
    /// Reset the connection (RST).
    Reset,
}

impl Step {
    /// A write of some text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bytes(Bytes::from(text.into()))
    }
}

/// How the client learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length` of that many bytes, true or not.
    Length(usize),
    /// Chunked transfer coding: a chunk per [`Step::Bytes`].
    Chunked,
    /// `Connection: close`: the body ends with the connection.
    UntilClose,
    /// No status line and no header at all: the steps are everything that is sent.
    Headless,
}

/// An answer: head, framing and the steps of the body.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Header fields besides those that the framing needs.
    pub headers: Vec<(String, String)>,
    /// How the body's end is told.
    pub framing: Framing,
    /// The body.
    pub steps: Vec<Step>,
}

impl Response {
    /// A complete answer of known length.
    pub fn bytes(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            framing: Framing::Length(body.len()),
            steps: vec![Step::Bytes(body)],
        }
    }

    /// A complete JSON answer.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::bytes(status, "application/json", body.to_string())
    }

    /// A streamed answer in chunked coding.
    #[must_use]
    pub fn chunked(status: u16, content_type: &str, steps: Vec<Step>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self {
            status,
            headers,
            framing: Framing::Chunked,
            steps,
        }
    }

    /// An answer whose end is the end of the connection.
    #[must_use]
    pub fn until_close(status: u16, headers: Vec<(String, String)>, steps: Vec<Step>) -> Self {
        Self {
            status,
            headers,
            framing: Framing::UntilClose,
            steps,
        }
    }

    /// Not an answer: only these steps happen on the socket.
    #[must_use]
    pub fn headless(steps: Vec<Step>) -> Self {
        Self {
            status: 0,
            headers: Vec::new(),
            framing: Framing::Headless,
            steps,
        }
    }

    /// The same with one more header field.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(super) fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.framing {
            Framing::Length(length) => head.push_str(&format!("content-length: {length}\r\n")),
            Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
            Framing::UntilClose => head.push_str("connection: close\r\n"),
            Framing::Headless => return String::new(),
        }
        head.push_str("\r\n");
        head
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}
