//! Reads requests from a connection and carries out the steps of responses.

use std::future;
use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Framing, Request, Response, ResponseStep};

const HEAD_LIMIT: usize = 64 * 1024;
const BODY_LIMIT: usize = 128 * 1024 * 1024;

/// State of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    KeepOpen,
    Close,
}

pub(super) struct HttpConnection {
    stream: TcpStream,
    buffer: BytesMut,
}

impl HttpConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// Reads the next request; `None` if the client closed the connection between two requests.
    pub(super) async fn read_request(&mut self) -> io::Result<Option<Request>> {
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.split_to(end);
                self.buffer.advance(4);
                break String::from_utf8_lossy(&head).into_owned();
            }
            if self.buffer.len() > HEAD_LIMIT {
                return Err(invalid("request head is too long"));
            }
            if !self.fill().await? {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        };
        let mut request = parse_head(&head)?;
        if request
            .header("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
        {
            self.stream
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await?;
        }
        request.body = self.read_body(&request).await?;
        Ok(Some(request))
    }

    async fn read_body(&mut self, request: &Request) -> io::Result<Bytes> {
        if request
            .header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
        {
            return self.read_chunks().await;
        }
        let length = match request.header("content-length") {
            Some(length) => length
                .parse()
                .map_err(|_not_a_number| invalid("bad content-length"))?,
            None => 0,
        };
        self.take(length).await
    }

    async fn read_chunks(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let line = self.read_line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_not_a_number| invalid("bad chunk size"))?;
            if size == 0 {
                while !self.read_line().await?.is_empty() {}
                return Ok(body.freeze());
            }
            body.extend_from_slice(&self.take(size).await?);
            self.read_line().await?;
        }
    }

    async fn read_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = self.buffer.split_to(end);
                self.buffer.advance(2);
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            self.fill_some().await?;
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Bytes> {
        if length > BODY_LIMIT {
            return Err(invalid("request body is too long"));
        }
        while self.buffer.len() < length {
            self.fill_some().await?;
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn fill_some(&mut self) -> io::Result<()> {
        if self.fill().await? {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    async fn fill(&mut self) -> io::Result<bool> {
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }

    /// Returns once the client has closed its side or the connection broke.
    pub(super) async fn client_gone(&self) {
        match self.stream.peek(&mut [0]).await {
            Ok(0) | Err(_) => {}
            Ok(_) => future::pending().await,
        }
    }

    /// Sends a response. An error means that the client left before the end.
    pub(super) async fn respond(&mut self, response: &Response) -> io::Result<After> {
        self.stream.write_all(response.head().as_bytes()).await?;
        for step in &response.steps {
            match step {
                ResponseStep::Bytes(bytes) => self.write(bytes, response.framing).await?,
                ResponseStep::Wait(duration) => {
                    tokio::select! {
                        () = tokio::time::sleep(*duration) => {}
                        () = self.client_gone() => return Err(io::ErrorKind::BrokenPipe.into()),
                    }
                }
                ResponseStep::Until(gate) => {
                    tokio::select! {
                        () = gate.passed() => {}
                        () = self.client_gone() => return Err(io::ErrorKind::BrokenPipe.into()),
                    }
                }
                ResponseStep::Hang => {
                    self.client_gone().await;
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                ResponseStep::Fin => {
                    self.stream.shutdown().await?;
                    return Ok(After::Close);
                }
                ResponseStep::Reset => {
                    self.stream.set_zero_linger()?;
                    return Ok(After::Close);
                }
            }
        }
        match response.framing {
            Framing::Length(_) => Ok(After::KeepOpen),
            Framing::Chunked => {
                self.stream.write_all(b"0\r\n\r\n").await?;
                Ok(After::KeepOpen)
            }
            Framing::UntilClose | Framing::Headless => {
                self.stream.shutdown().await?;
                Ok(After::Close)
            }
        }
    }

    async fn write(&mut self, bytes: &Bytes, framing: Framing) -> io::Result<()> {
        if framing != Framing::Chunked {
            return self.stream.write_all(bytes).await;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.stream.write_all(&chunk).await
    }
}

fn parse_head(head: &str) -> io::Result<Request> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(_version)) = (words.next(), words.next(), words.next())
    else {
        return Err(invalid("bad request line"));
    };
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok(Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        body: Bytes::new(),
    })
}

/// Returns the position of `needle`.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
