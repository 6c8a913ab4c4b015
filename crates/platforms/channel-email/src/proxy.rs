//! TCP connections to servers: direct, or through a proxy.
//!
//! Decision: a proxy is asked for a connection (`CONNECT` of HTTP, or SOCKS 5), so encryption is
//! end to end and the proxy learns the address alone. `NO_PROXY` in the environment lists hosts
//! that are reached directly, as for every other client; this machine always is, because many
//! mailboxes are reached through a helper that runs here.
//!
//! It does not encrypt connections to the proxy itself.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use nanobot_channel::ChannelError;
use nanobot_channel_kit::wrong;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::error::shortened;

/// Number of addresses of a server that share the time limit: some of them may be unreachable.
const ADDRESSES: u32 = 3;
/// Maximum length of a proxy's answer, in bytes.
const MAX_ANSWER_SIZE: usize = 16 << 10;

/// Opens connections to servers.
#[derive(Debug)]
pub(crate) struct Dialer {
    proxy: Option<Matcher>,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub(crate) stream: TcpStream,
    /// `true` if the server is on this machine, so that the connection is private.
    pub(crate) is_local: bool,
}

impl Dialer {
    /// A dialer that uses the proxy of that address, if there is one.
    pub(crate) fn new(proxy: Option<&str>) -> Result<Self, ChannelError> {
        let Some(address) = proxy.map(str::trim).filter(|address| !address.is_empty()) else {
            return Ok(Self { proxy: None });
        };
        let is_usable = |proxy: &Intercept| {
            matches!(
                proxy.uri().scheme_str(),
                Some("http" | "socks5" | "socks5h")
            )
        };
        let everywhere = Matcher::builder().all(address).build();
        if !proxy_for(&everywhere, "mail.test:993").is_some_and(|proxy| is_usable(&proxy)) {
            let message = "is no address of a proxy that mail can go through; write one like http://host:3128 or \
                           socks5://host:1080, or \"\" for none";
            return Err(wrong("proxy", message));
        }
        let exceptions = ["NO_PROXY", "no_proxy"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok());
        Ok(Self {
            proxy: Some(
                Matcher::builder()
                    .all(address)
                    .no(exceptions.unwrap_or_default())
                    .build(),
            ),
        })
    }

    /// Connects. `limit` is the time for all addresses together, which the caller enforces.
    pub(crate) async fn dial(&self, host: &str, port: u16, limit: Duration) -> io::Result<Dialed> {
        let address = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let proxy = self.proxy.as_ref().filter(|_| !is_loopback(host));
        let dialed = match proxy.and_then(|proxy| proxy_for(proxy, &address)) {
            Some(proxy) => Dialed {
                stream: connect_through(&proxy, &address, host, port, limit).await?,
                is_local: false,
            },
            None => {
                let stream = connect_direct(host, port, limit).await?;
                let is_local = stream.peer_addr()?.ip().to_canonical().is_loopback();
                Dialed { stream, is_local }
            }
        };
        dialed.stream.set_nodelay(true)?;
        Ok(dialed)
    }
}

/// `true` if a name means this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Returns the proxy for a server.
fn proxy_for(proxy: &Matcher, place: &str) -> Option<Intercept> {
    proxy.intercept(&format!("https://{place}/").parse::<Uri>().ok()?)
}

/// Connects to the first address that answers.
async fn connect_direct(host: &str, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in lookup_host((host, port)).await? {
        match timeout(limit / ADDRESSES, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_elapsed) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn connect_through(
    proxy: &Intercept,
    place: &str,
    host: &str,
    port: u16,
    limit: Duration,
) -> io::Result<TcpStream> {
    let uri = proxy.uri();
    let own_host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_http = uri.scheme_str() == Some("http");
    let own_port = uri.port_u16().unwrap_or(if is_http { 80 } else { 1080 });
    let failed = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("the proxy {own_host}:{own_port}: {error}"),
        )
    };
    let mut stream = connect_direct(own_host, own_port, limit)
        .await
        .map_err(failed)?;
    let connected = if is_http {
        connect_http(&mut stream, place, proxy).await
    } else {
        // By the rules of curl, `socks5h` leaves names to the proxy and `socks5` does not.
        let target = if uri.scheme_str() == Some("socks5h") {
            SocksTarget::named(host, port)
        } else {
            SocksTarget::resolved(host, port).await
        };
        match target {
            Ok(target) => connect_socks(&mut stream, &target, proxy.raw_auth()).await,
            Err(error) => Err(error),
        }
    };
    connected.map_err(failed)?;
    Ok(stream)
}

/// Requests the connection by HTTP (RFC 9110, section 9.3.6).
async fn connect_http(stream: &mut TcpStream, place: &str, proxy: &Intercept) -> io::Result<()> {
    let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
    if let Some(credentials) = proxy.basic_auth().and_then(|value| value.to_str().ok()) {
        write!(request, "Proxy-Authorization: {credentials}\r\n").map_err(io::Error::other)?;
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    // Bytes after the answer belong to the server, so nothing is read ahead.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > MAX_ANSWER_SIZE {
            return Err(refusal("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    let status = line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
        .unwrap_or_default();
    match status {
        "407" => Err(refusal(
            "it wants a name and a password, or others: http://name:password@host:port",
        )),
        status if status.starts_with('2') => Ok(()),
        _ => Err(refusal(&format!(
            "it does not connect to {place}: {}",
            shortened(line)
        ))),
    }
}

/// The address in a SOCKS request.
struct SocksTarget(Vec<u8>);

impl SocksTarget {
    fn named(host: &str, port: u16) -> io::Result<Self> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Self::address(SocketAddr::new(address, port)));
        }
        let mut bytes = vec![3];
        bytes.extend(length_prefixed(host)?);
        bytes.extend(port.to_be_bytes());
        Ok(Self(bytes))
    }

    async fn resolved(host: &str, port: u16) -> io::Result<Self> {
        let address = lookup_host((host, port)).await?.next();
        address
            .map(Self::address)
            .ok_or_else(|| refusal("the server's name has no address"))
    }

    fn address(address: SocketAddr) -> Self {
        let mut bytes = match address.ip() {
            IpAddr::V4(ip) => [&[1][..], &ip.octets()].concat(),
            IpAddr::V6(ip) => [&[4][..], &ip.octets()].concat(),
        };
        bytes.extend(address.port().to_be_bytes());
        Self(bytes)
    }
}

/// Requests the connection by SOCKS 5 (RFC 1928; RFC 1929 for the password).
async fn connect_socks(
    stream: &mut TcpStream,
    target: &SocksTarget,
    credentials: Option<(&str, &str)>,
) -> io::Result<()> {
    const NOTHING: u8 = 0;
    const PASSWORD: u8 = 2;
    let offered: &[u8] = if credentials.is_some() {
        &[5, 2, NOTHING, PASSWORD]
    } else {
        &[5, 1, NOTHING]
    };
    stream.write_all(offered).await?;
    match (read::<2>(stream).await?, credentials) {
        ([5, NOTHING], _) => {}
        ([5, PASSWORD], Some((name, password))) => {
            let shown = [vec![1], length_prefixed(name)?, length_prefixed(password)?].concat();
            stream.write_all(&shown).await?;
            if read::<2>(stream).await?[1] != 0 {
                return Err(refusal("it does not take the name and the password"));
            }
        }
        ([5, _], _) => {
            return Err(refusal(
                "it wants a name and a password: socks5://name:password@host:port",
            ));
        }
        _ => return Err(refusal("it does not speak SOCKS 5")),
    }
    stream
        .write_all(&[&[5, 1, 0], target.0.as_slice()].concat())
        .await?;
    let [_version, outcome, _reserved, kind] = read(stream).await?;
    if outcome != 0 {
        let why = match outcome {
            2 => "its rules do not allow that",
            3 | 4 => "the server cannot be reached from there",
            5 => "the server refuses the connection",
            _ => "it failed",
        };
        return Err(refusal(&format!(
            "it does not connect: {why} (code {outcome})"
        )));
    }
    // The address that the proxy connects from is skipped.
    let length = match kind {
        1 => 4,
        4 => 16,
        _ => usize::from(stream.read_u8().await?),
    };
    stream.read_exact(&mut vec![0; length + 2]).await.map(drop)
}

async fn read<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Prefixes a text with its length in one byte.
fn length_prefixed(text: &str) -> io::Result<Vec<u8>> {
    let length = u8::try_from(text.len()).map_err(|_error| refusal("a name is too long for it"))?;
    Ok([&[length], text.as_bytes()].concat())
}

fn refusal(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn loopback_bypasses_the_proxy() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dialer = Dialer::new(Some("http://proxy.invalid:1")).unwrap();
        let dialed = dialer
            .dial("127.0.0.1", port, Duration::from_secs(30))
            .await
            .unwrap();
        assert_eq!(
            (dialed.is_local, dialed.stream.peer_addr().unwrap().port()),
            (true, port)
        );
        assert!(is_loopback("LocalHost") && is_loopback("::1") && !is_loopback("local.test"));
    }

    #[test]
    fn unsupported_proxy_addresses_are_rejected() {
        for address in [
            "http://p.test:3128",
            "p.test:3128",
            "socks5://a:b@p.test",
            "socks5h://[::1]:1080",
            "",
            " ",
        ] {
            assert!(Dialer::new(Some(address)).is_ok(), "{address}");
        }
        for address in [
            "https://p.test",
            "socks4://p.test",
            "ftp://p.test",
            "http://",
            "two words",
        ] {
            let error = Dialer::new(Some(address)).unwrap_err().to_string();
            assert!(
                error.starts_with("proxy: is no address of a proxy"),
                "{address}: {error}"
            );
        }
    }
}
