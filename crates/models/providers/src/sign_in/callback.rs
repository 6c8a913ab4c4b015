//! The end of a login in the browser: a request to a loopback port of this program.
//!
//! Decision: the server is a few lines of its own. It answers one path, reads no more than a head,
//! and ends with the first request to that path. Browsers open connections without a request, so
//! connections are read at the same time. A vendor whose page loads the address by a script gets the
//! permission for it (CORS), asked for beforehand or not; others do not.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Maximum number of connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 16;
/// Time for one request.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The page that a browser is sent to.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallbackPage {
    /// Host of its address, as the login server knows it.
    pub(super) host: &'static str,
    /// Path of its address.
    pub(super) path: &'static str,
    /// The origin whose scripts may load it.
    pub(super) script_origin: Option<&'static str>,
}

/// A listening port, if it was free.
#[derive(Debug)]
pub(super) struct Callback {
    page: CallbackPage,
    listener: Option<TcpListener>,
    port: u16,
}

impl Callback {
    /// Listens on a port; on a free one if it is 0.
    pub(super) async fn listen(page: CallbackPage, port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        if let Err(error) = &listener {
            tracing::debug!(%error, port, "no port for the browser's answer");
        }
        let listener = listener.ok();
        let bound = listener.as_ref().and_then(|one| one.local_addr().ok());
        Self {
            page,
            port: bound.map_or(port, |address| address.port()),
            listener,
        }
    }

    /// Returns the address that the browser is sent to.
    pub(super) fn address(&self) -> String {
        let CallbackPage { host, path, .. } = self.page;
        format!("http://{host}:{}{path}", self.port)
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
                    Ok((stream, _)) => open.push(tokio::time::timeout(REQUEST_TIME, serve(stream, self.page))),
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
async fn serve(mut stream: TcpStream, page: CallbackPage) -> Option<String> {
    let head = read_head(&mut stream).await?;
    let request = Request::of(&head, page)?;
    let (status, text) = match request {
        Request::Answer(_) => (
            "200 OK",
            "nanobot has received the answer. Its terminal shows the result; this page can be closed.",
        ),
        Request::Permission => ("204 No Content", ""),
        Request::Other => ("404 Not Found", "There is nothing here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n{}Connection: close\r\n\r\n{text}",
        text.len(),
        permission(&head, page),
    );
    // The answer counts even if the browser does not wait for the page.
    if let Err(error) = stream.write_all(answer.as_bytes()).await {
        tracing::debug!(%error, "could not answer the browser");
    }
    match request {
        Request::Answer(query) => Some(query),
        Request::Permission | Request::Other => None,
    }
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

/// A request of the browser.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    /// The page is loaded with this query.
    Answer(String),
    /// The browser asks whether a script may load the page.
    Permission,
    /// Another page.
    Other,
}

impl Request {
    /// Parses the head of a request; `None` if it is none.
    fn of(head: &[u8], page: CallbackPage) -> Option<Self> {
        let line = head.split(|byte| *byte == b'\r').next()?;
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(match method {
            _ if path != page.path => Self::Other,
            "GET" => Self::Answer(query.to_owned()),
            "OPTIONS" => Self::Permission,
            _ => Self::Other,
        })
    }
}

/// Returns the header lines that let the script of a request load the page; empty without one from
/// the vendor.
fn permission(head: &[u8], page: CallbackPage) -> String {
    let asked = String::from_utf8_lossy(head);
    let asked = asked.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("origin").then(|| value.trim())
    });
    match page.script_origin.filter(|origin| asked == Some(*origin)) {
        Some(origin) => format!(
            "Access-Control-Allow-Origin: {origin}\r\nAccess-Control-Allow-Methods: GET\r\n\
             Access-Control-Allow-Private-Network: true\r\nVary: Origin\r\n"
        ),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{codex, grok};
    use super::*;

    #[test]
    fn only_a_get_of_the_path_is_an_answer() {
        let answer = |query: &str| Some(Request::Answer(query.to_owned()));
        for (head, expected) in [
            ("GET /auth/callback?a=b HTTP/1.1\r\n\r\n", answer("a=b")),
            ("GET /auth/callback HTTP/1.1\r\n\r\n", answer("")),
            (
                "OPTIONS /auth/callback HTTP/1.1\r\n\r\n",
                Some(Request::Permission),
            ),
            (
                "POST /auth/callback?a=b HTTP/1.1\r\n\r\n",
                Some(Request::Other),
            ),
            (
                "GET /auth/callback/x?a=b HTTP/1.1\r\n\r\n",
                Some(Request::Other),
            ),
            ("GET\r\n\r\n", None),
        ] {
            assert_eq!(
                Request::of(head.as_bytes(), codex::PAGE),
                expected,
                "{head:?}"
            );
        }
    }

    #[test]
    fn only_scripts_of_the_vendor_may_load_the_page() {
        let of = |origin: &str| format!("GET /callback HTTP/1.1\r\norigin: {origin}\r\n\r\n");
        let table = [
            (of("https://accounts.x.ai"), grok::PAGE, true),
            (of("https://accounts.x.ai.example.org"), grok::PAGE, false),
            (of("null"), grok::PAGE, false),
            (String::new(), grok::PAGE, false),
            (of("https://accounts.x.ai"), codex::PAGE, false),
        ];
        for (head, page, is_allowed) in table {
            let lines = permission(head.as_bytes(), page);
            assert_eq!(
                lines.contains("Access-Control-Allow-Origin: https://accounts.x.ai\r\n"),
                is_allowed,
                "{head:?}"
            );
            assert_eq!(lines.is_empty(), !is_allowed, "{head:?}");
        }
    }

    #[tokio::test]
    async fn a_script_of_the_vendor_asks_before_it_loads_the_page() {
        let callback = Callback::listen(grok::PAGE, 0).await;
        let address = (Ipv4Addr::LOCALHOST, callback.port);
        let request = async |line: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("{line} HTTP/1.1\r\nOrigin: https://accounts.x.ai\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let script = async {
            let asked = request("OPTIONS /callback?code=c").await;
            (asked, request("GET /callback?code=c&state=s").await)
        };
        let (query, (asked, loaded)) = tokio::join!(callback.query(), script);
        assert_eq!(query, "code=c&state=s");
        assert!(asked.starts_with("HTTP/1.1 204 "), "{asked}");
        assert!(
            asked.contains("\r\nAccess-Control-Allow-Private-Network: true\r\n"),
            "{asked}"
        );
        assert!(loaded.starts_with("HTTP/1.1 200 "), "{loaded}");
        let allowed = "\r\nAccess-Control-Allow-Origin: https://accounts.x.ai\r\n";
        assert!(loaded.contains(allowed), "{loaded}");
    }

    #[tokio::test]
    async fn a_taken_port_leaves_only_the_pasted_answer() {
        let first = Callback::listen(codex::PAGE, 0).await;
        let second = Callback::listen(codex::PAGE, first.port).await;
        assert!(!first.is_taken() && second.is_taken());
        assert_eq!(first.address(), second.address());
    }
}
