//! Responses as steps to carry out on the socket.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::gate::Gate;

/// A step of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseStep {
    /// Writes these bytes and flushes them.
    Bytes(Bytes),
    /// Does nothing for this long.
    Wait(Duration),
    /// Does nothing until a test opens the gate.
    Until(Gate),
    /// Does nothing until the client leaves or the server stops.
    Hang,
    /// Closes the connection in good order (FIN) at once, whatever the framing promised.
    Fin,
    /// Resets the connection (RST).
    Reset,
}

impl ResponseStep {
    /// Returns a step that writes a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bytes(Bytes::from(text.into()))
    }
}

/// Framing: the way the client detects the end of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length` with this number of bytes, true or not.
    Length(usize),
    /// Chunked transfer coding, one chunk per [`ResponseStep::Bytes`].
    Chunked,
    /// `Connection: close`: the body ends with the connection.
    UntilClose,
    /// No status line and no headers: only the steps are sent.
    Headless,
}

/// A response: head, framing and the steps of the body.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Header fields in addition to those of the framing.
    pub headers: Vec<(String, String)>,
    /// Framing of the body.
    pub framing: Framing,
    /// The body.
    pub steps: Vec<ResponseStep>,
}

impl Response {
    /// Returns a complete response of known length.
    pub fn bytes(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            framing: Framing::Length(body.len()),
            steps: vec![ResponseStep::Bytes(body)],
        }
    }

    /// Returns a complete JSON response.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::bytes(status, "application/json", body.to_string())
    }

    /// Returns a streamed response in chunked coding.
    #[must_use]
    pub fn chunked(status: u16, content_type: &str, steps: Vec<ResponseStep>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self {
            status,
            headers,
            framing: Framing::Chunked,
            steps,
        }
    }

    /// Returns a response that ends with the connection.
    #[must_use]
    pub fn until_close(
        status: u16,
        headers: Vec<(String, String)>,
        steps: Vec<ResponseStep>,
    ) -> Self {
        Self {
            status,
            headers,
            framing: Framing::UntilClose,
            steps,
        }
    }

    /// Returns steps to carry out on the socket without an HTTP response.
    #[must_use]
    pub fn headless(steps: Vec<ResponseStep>) -> Self {
        Self {
            status: 0,
            headers: Vec::new(),
            framing: Framing::Headless,
            steps,
        }
    }

    /// Adds a header field.
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
