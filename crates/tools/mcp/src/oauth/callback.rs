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

use crate::McpError;

/// Path of the address that the browser is sent to.
const PATH: &str = "/callback";
/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Maximum number of connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 16;
/// Time for one request.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// A listening port.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    address: String,
}

impl Callback {
    /// Listens on a free port.
    pub(super) async fn listen() -> Result<Self, McpError> {
        let failed = |error: std::io::Error| {
            McpError::Authorization(format!("no port for the browser's answer: {error}"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self {
            listener,
            address: format!("http://127.0.0.1:{port}{PATH}"),
        })
    }

    /// Returns the address that the browser is sent to.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the browser and returns the query that it brings. Other requests are answered with
    /// status 404.
    pub(super) async fn query(&self) -> String {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < MAX_CONNECTIONS => match accepted {
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
    (method == "GET" && path == PATH).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(port: &str, target: &str) -> String {
        let mut stream = TcpStream::connect(port).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn other_requests_and_silent_connections_do_not_end_the_wait() {
        let callback = Callback::listen().await.unwrap();
        let host = callback.address().strip_prefix("http://").unwrap();
        let port = host.strip_suffix(PATH).unwrap();
        let browser = async {
            let silent = TcpStream::connect(port).await.unwrap();
            let missing = get(port, "/favicon.ico").await;
            let found = get(port, "/callback?code=a&state=b").await;
            drop(silent);
            (missing, found)
        };
        let (query, (missing, found)) = tokio::join!(callback.query(), browser);
        assert_eq!(query, "code=a&state=b");
        assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
        assert!(found.starts_with("HTTP/1.1 200 "), "{found}");
    }

    #[test]
    fn only_a_get_of_the_path_is_an_answer() {
        for (head, expected) in [
            ("GET /callback?a=b HTTP/1.1\r\n\r\n", Some("a=b")),
            ("GET /callback HTTP/1.1\r\n\r\n", Some("")),
            ("POST /callback?a=b HTTP/1.1\r\n\r\n", None),
            ("GET /callback/x?a=b HTTP/1.1\r\n\r\n", None),
            ("GET\r\n\r\n", None),
        ] {
            assert_eq!(query_of(head.as_bytes()).as_deref(), expected, "{head:?}");
        }
        assert_eq!(query_of(b"GET /callback?\xff HTTP/1.1\r\n\r\n"), None);
    }
}
