//! A proxy that speaks HTTP (including `CONNECT`) and SOCKS5 on one port.
//!
//! All connections go to one server, whatever host the client names. A host name that does not
//! resolve therefore proves that the proxy was used. If credentials are required, clients without
//! them are rejected.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::TestkitError;
use crate::sync::Watched;

const HEAD_LIMIT: usize = 64 * 1024;

/// A running proxy; it stops on drop.
pub struct Proxy {
    address: SocketAddr,
    asked: Watched<Vec<String>>,
    _stops: DropGuard,
}

/// State shared by all connections.
#[derive(Clone)]
struct Rules {
    target: SocketAddr,
    credentials: Option<(String, String)>,
    asked: Watched<Vec<String>>,
}

impl Proxy {
    /// Starts a proxy that connects to `target`.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start(target: SocketAddr) -> Result<Self, TestkitError> {
        Self::listen(target, None).await
    }

    /// Like [`Proxy::start`], but requires a user name and a password.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn with_password(
        target: SocketAddr,
        name: &str,
        password: &str,
    ) -> Result<Self, TestkitError> {
        Self::listen(target, Some((name.to_owned(), password.to_owned()))).await
    }

    async fn listen(
        target: SocketAddr,
        credentials: Option<(String, String)>,
    ) -> Result<Self, TestkitError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(TestkitError::Listen)?;
        let address = listener.local_addr().map_err(TestkitError::Listen)?;
        let asked = Watched::new(Vec::new());
        let rules = Rules {
            target,
            credentials,
            asked: asked.clone(),
        };
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let (served, ends) = (tasks.clone(), cancel.clone());
        tasks.spawn(async move {
            while let Some(accepted) = ends.run_until_cancelled(listener.accept()).await {
                let Ok((stream, _)) = accepted else { continue };
                let (rules, ends) = (rules.clone(), ends.clone());
                // A client that disconnects midway is not an error of the proxy.
                served.spawn(async move {
                    ends.run_until_cancelled(rules.serve(stream))
                        .await
                        .and_then(Result::err)
                });
            }
        });
        Ok(Self {
            address,
            asked,
            _stops: cancel.drop_guard(),
        })
    }

    /// Returns `127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requested hosts with their ports, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.read(Clone::clone)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Rules {
    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first == [5] {
            self.serve_socks(stream).await
        } else {
            self.serve_http(stream).await
        }
    }

    async fn serve_http(&self, mut client: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() > HEAD_LIMIT {
                return Err(io::ErrorKind::InvalidData.into());
            }
            head.push(client.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        if !self
            .credentials
            .as_ref()
            .is_none_or(|(name, password)| shows(&head, name, password))
        {
            let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\
                 Content-Length: 0\r\nConnection: close\r\n\r\n";
            return client.write_all(refusal.as_bytes()).await;
        }
        let (line, rest) = head.split_once("\r\n").unwrap_or_default();
        let mut words = line.split(' ');
        let (method, place) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        if method == "CONNECT" {
            self.note(place);
            let mut server = TcpStream::connect(self.target).await?;
            client
                .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .await?;
            return copy_bidirectional(&mut client, &mut server).await.map(drop);
        }
        let after = place
            .strip_prefix("http://")
            .ok_or(io::ErrorKind::InvalidData)?;
        let (host, path) = after.split_once('/').unwrap_or((after, ""));
        self.note(host);
        let mut server = TcpStream::connect(self.target).await?;
        // Close after one request: the proxy would not inspect a second one.
        server
            .write_all(
                format!("{method} /{path} HTTP/1.1\r\nConnection: close\r\n{rest}").as_bytes(),
            )
            .await?;
        copy_bidirectional(&mut client, &mut server).await.map(drop)
    }

    /// Serves SOCKS5 (RFC 1928), with password authentication (RFC 1929).
    async fn serve_socks(&self, mut client: TcpStream) -> io::Result<()> {
        let [_version, count] = read(&mut client).await?;
        let mut methods = vec![0; usize::from(count)];
        client.read_exact(&mut methods).await?;
        let wanted = if self.credentials.is_some() { 2 } else { 0 };
        if !methods.contains(&wanted) {
            return client.write_all(&[5, 0xff]).await;
        }
        client.write_all(&[5, wanted]).await?;
        if let Some((name, password)) = &self.credentials {
            let [_version] = read(&mut client).await?;
            let shown = (read_text(&mut client).await?, read_text(&mut client).await?);
            let is_right = shown == (name.clone(), password.clone());
            client.write_all(&[1, u8::from(!is_right)]).await?;
            if !is_right {
                return Ok(());
            }
        }
        let [_version, _command, _reserved, kind] = read(&mut client).await?;
        let host = match kind {
            1 => Ipv4Addr::from(read::<4>(&mut client).await?).to_string(),
            3 => read_text(&mut client).await?,
            _ => return client.write_all(&[5, 8, 0, 1, 0, 0, 0, 0, 0, 0]).await,
        };
        let port = client.read_u16().await?;
        self.note(&format!("{host}:{port}"));
        let mut server = TcpStream::connect(self.target).await?;
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        copy_bidirectional(&mut client, &mut server).await.map(drop)
    }

    fn note(&self, host: &str) {
        self.asked.change(|asked| asked.push(host.to_owned()));
    }
}

/// Returns `true` if the request's head has these credentials.
fn shows(head: &str, name: &str, password: &str) -> bool {
    let expected = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"));
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .any(|(field, value)| {
            field.eq_ignore_ascii_case("proxy-authorization")
                && value
                    .trim()
                    .strip_prefix("Basic ")
                    .is_some_and(|shown| shown == expected)
        })
}

async fn read<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Reads a text prefixed by its length in one byte.
async fn read_text(stream: &mut TcpStream) -> io::Result<String> {
    let [length] = read(stream).await?;
    let mut text = vec![0; usize::from(length)];
    stream.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
