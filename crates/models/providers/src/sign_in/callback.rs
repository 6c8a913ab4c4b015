//! The end of a login in the browser: a request to a loopback port of this program.
//!
//! Decision: the server is a few lines of its own. It answers one path, reads no more than a head,
//! and ends with the first request to that path. Browsers open connections without a request, so
//! connections are read at the same time.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::codex::CALLBACK_PATH;

/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Maximum number of connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 16;
/// Time for one request.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// A listening port, if it was free.
#[derive(Debug)]
pub(super) struct Callback {
    listener: Option<TcpListener>,
    port: u16,
}

impl Callback {
    /// Listens on a port; on a free one if it is 0.
    pub(super) async fn listen(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        if let Err(error) = &listener {
            tracing::debug!(%error, port, "no port for the browser's answer");
        }
        let listener = listener.ok();
        let bound = listener.as_ref().and_then(|one| one.local_addr().ok());
        Self {
            port: bound.map_or(port, |address| address.port()),
            listener,
        }
    }

    /// Returns the address that the browser is sent to.
    pub(super) fn address(&self) -> String {
        format!("http://localhost:{}{CALLBACK_PATH}", self.port)
    }

    /// `true` if another program has the port, so that the browser's answer has to be pasted.
    pub(super) const fn is_taken(&self) -> bool {
        self.listener.is_none()
    }

    /// Waits for the browser and returns the query that it brings; forever without a port. Other
    /// requests are answered with status 404.
    pub(super) async fn query(&self) -> String {
        let Some(listener) = &self.listener else {
            return std::future::pending().await;
        };
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if open.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => open.push(tokio::time::timeout(REQUEST_TIME, serve(stream))),
                    Err(error) => {
                        tracing::debug!(%error, "could not accept a connection of the browser");
                        // Such an error lasts: the limit of open files, for example.
                        tokio::time::sleep(REQUEST_TIME).await;
                    }
                },
                Some(served) = open.next() => {
                    if let Ok(Some(query)) = served {
                        return query;
                    }
                }
            }
        }
    }
}

/// Answers a request, and returns its query if it is the one that is waited for.
async fn serve(mut stream: TcpStream) -> Option<String> {
    let query = query_of(&read_head(&mut stream).await?);
    let (status, text) = match query {
        Some(_) => (
            "200 OK",
            "nanobot has received the answer. Its terminal shows the result; this page can be closed.",
        ),
        None => ("404 Not Found", "There is nothing here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{text}",
        text.len(),
    );
    // The answer counts even if the browser does not wait for the page.
    if let Err(error) = stream.write_all(answer.as_bytes()).await {
        tracing::debug!(%error, "could not answer the browser");
    }
    query
}

async fn read_head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read_buf(&mut head).await.ok()?;
        if read == 0 || head.len() > MAX_HEAD {
            return None;
        }
    }
    Some(head)
}

/// Returns the query of a GET request to the path.
fn query_of(head: &[u8]) -> Option<String> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (method == "GET" && path == CALLBACK_PATH).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_of_the_path_is_an_answer() {
        for (head, expected) in [
            ("GET /auth/callback?a=b HTTP/1.1\r\n\r\n", Some("a=b")),
            ("GET /auth/callback HTTP/1.1\r\n\r\n", Some("")),
            ("POST /auth/callback?a=b HTTP/1.1\r\n\r\n", None),
            ("GET /auth/callback/x?a=b HTTP/1.1\r\n\r\n", None),
            ("GET\r\n\r\n", None),
        ] {
            assert_eq!(query_of(head.as_bytes()).as_deref(), expected, "{head:?}");
        }
    }

    #[tokio::test]
    async fn a_taken_port_leaves_only_the_pasted_answer() {
        let first = Callback::listen(0).await;
        let second = Callback::listen(first.port).await;
        assert!(!first.is_taken() && second.is_taken());
        assert_eq!(first.address(), second.address());
    }
}
