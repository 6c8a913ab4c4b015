//! The endpoint against hostile clients, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nanobot_server::{HealthReport, HealthServer, HealthSource, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Timeout for results that come at once, or after the 10 seconds that a header may take.
const WAIT: Duration = Duration::from_secs(120);

struct Well;

impl HealthSource for Well {
    fn health(&self) -> HealthReport {
        HealthReport {
            version: "1".to_owned(),
            uptime_s: 0,
            channels: BTreeMap::new(),
        }
    }
}

struct Endpoint {
    address: SocketAddr,
    cancel: CancellationToken,
    serving: JoinHandle<()>,
}

async fn start(token: &str) -> Endpoint {
    let config = ServerConfig {
        port: 0,
        token: token.to_owned(),
        ..ServerConfig::default()
    };
    let server = HealthServer::bind(&config).await.unwrap();
    let (address, cancel) = (server.address(), CancellationToken::new());
    let serving = TaskTracker::new().spawn(server.serve(Arc::new(Well), cancel.clone()));
    Endpoint {
        address,
        cancel,
        serving,
    }
}

impl Endpoint {
    /// Opens a connection and sends `text` on it.
    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, headers: &str) -> String {
        let stream = self
            .send(&format!(
                "GET /health HTTP/1.1\r\nConnection: close\r\n{headers}\r\n"
            ))
            .await;
        rest(stream).await
    }
}

/// Reads everything until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // A server that closes a connection with unread input resets it.
    let read = tokio::time::timeout(WAIT, stream.read_to_end(&mut said)).await;
    drop(read.expect("the server hangs up"));
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn requests_for_other_hosts_are_refused_without_a_token() {
    let endpoint = start("").await;
    for (headers, status) in [
        ("Host: localhost\r\n", "200"),
        ("Host: 127.0.0.1:18790\r\n", "200"),
        ("Host: [::1]:1\r\n", "200"),
        ("Host: evil.example\r\n", "421"),
        ("Host: localhost.evil.example:18790\r\n", "421"),
        ("Host: localhost\r\nHost: evil.example\r\n", "421"),
        ("", "421"),
    ] {
        let answer = endpoint.ask(headers).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{headers:?}: {answer}"
        );
        assert_eq!(
            answer.contains("version"),
            status == "200",
            "{headers:?}: {answer}"
        );
    }
    let guarded = start("a-token-of-a-decent-length").await;
    let shown = "Host: nas.example\r\nAuthorization: Bearer a-token-of-a-decent-length\r\n";
    assert!(guarded.ask(shown).await.starts_with("HTTP/1.1 200 "));
    assert!(
        guarded
            .ask("Host: nas.example\r\n")
            .await
            .starts_with("HTTP/1.1 401 ")
    );
}

#[tokio::test]
async fn missing_or_endless_headers_time_out() {
    let endpoint = start("").await;
    let silent = endpoint.send("").await;
    let partial = endpoint.send("GET /health HTTP/1.1\r\nHost: local").await;
    let endless = endpoint
        .send(&format!(
            "GET /health HTTP/1.1\r\nX: {}",
            "x".repeat(20 << 10)
        ))
        .await;
    let many: String = (0..200)
        .map(|number| format!("X-{number}: y\r\n"))
        .collect();
    let many = endpoint
        .send(&format!(
            "GET /health HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"
        ))
        .await;
    let answers = tokio::join!(rest(silent), rest(partial), rest(endless), rest(many));
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        assert!(!answer.contains("200 OK"), "{answer}");
    }
}

#[tokio::test]
async fn partial_requests_do_not_block_shutdown() {
    let endpoint = start("").await;
    let partial = endpoint
        .send("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        .await;
    let body = endpoint
        .send("POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
        .await;
    // The server accepted those two connections first, and still serves others.
    assert!(endpoint.ask("Host: localhost\r\n").await.contains("200 OK"));
    endpoint.cancel.cancel();
    tokio::time::timeout(WAIT, endpoint.serving)
        .await
        .expect("it ends")
        .unwrap();
    drop((partial, body));
}

#[tokio::test]
async fn silent_connections_are_evicted() {
    let endpoint = start("").await;
    let mut silent = Vec::new();
    for _ in 0..1100 {
        silent.push(TcpStream::connect(endpoint.address).await.unwrap());
    }
    assert!(endpoint.ask("Host: localhost\r\n").await.contains("200 OK"));
    // The oldest connections have been evicted.
    let mut oldest = silent.remove(0);
    assert_eq!(
        tokio::time::timeout(WAIT, oldest.read(&mut [0]))
            .await
            .unwrap()
            .unwrap_or(0),
        0
    );
}
