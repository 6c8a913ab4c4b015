//! A WebSocket to a platform.
//!
//! Decision: it is an upgraded request of the HTTP client that makes all other calls, so that
//! proxies, roots of trust and timeouts are the same for both. Messages are bounded to
//! [`json::BODY_LIMIT`]; the library's own limit is eight times that. Pings of the other side are
//! answered by the library.
//!
//! It does not reconnect. That is a loop with
//! [`jittered_backoff`](crate::jittered_backoff), because only the platform knows which ends of a
//! connection are normal.

use std::fmt::Display;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::json;
use reqwest::header::{
    CONNECTION, HeaderMap, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{StatusCode, Upgraded, Url};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::call::CallError;
use crate::rest::Rest;

/// The time that one frame, or several that are sent together, may take to leave.
const SEND: Duration = Duration::from_secs(10);
/// The read buffer of a connection, in bytes; longer frames extend it. It is filled with zeros as
/// long as the connection is open, so the default of 128 KiB would be resident for each channel.
const READ_BUFFER: usize = 8 * 1_024;
/// The time that a goodbye may take.
const CLOSE: Duration = Duration::from_millis(200);

/// The next event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A text frame.
    Text(String),
    /// A binary frame.
    Binary(Vec<u8>),
    /// A ping or a pong.
    Control,
    /// The other side closed the connection, with this code and reason where it gave them.
    Closed(Option<(u16, String)>),
}

/// An open connection. Dropping it closes it without a goodbye.
#[derive(Debug)]
pub struct WebSocket {
    stream: WebSocketStream<Upgraded>,
    pings: Option<Pings>,
}

/// Detection of dead connections.
#[derive(Debug)]
struct Pings {
    every: Duration,
    longest_silence: Duration,
    heard: Instant,
    next: Instant,
    /// The time of the first ping since the last frame.
    unanswered: Option<Instant>,
}

impl Pings {
    /// Returns the time at which the connection counts as dead. None is sent while a connection is
    /// not read, so that such a pause is no silence of the other side.
    fn deadline(&self) -> Option<Instant> {
        let pinged = self.unanswered?;
        Some((self.heard + self.longest_silence).max(pinged + self.every))
    }
}

impl WebSocket {
    /// Connects to a `ws` or `wss` address within `patience`.
    ///
    /// # Errors
    /// The reason why there is no connection. Never [ambiguous](CallError::is_ambiguous): opening
    /// one changes nothing.
    pub async fn open<R>(
        rest: &Rest,
        address: &str,
        patience: Duration,
    ) -> Result<Self, CallError<R>> {
        Self::open_or(rest, address, patience, |_| None).await
    }

    /// Connects like [`Self::open`]. `refusal` reads the reason of a refused handshake from its
    /// headers, on platforms that write it there.
    ///
    /// # Errors
    /// As [`Self::open`], and the refusal.
    pub async fn open_or<R>(
        rest: &Rest,
        address: &str,
        patience: Duration,
        refusal: impl FnOnce(&HeaderMap) -> Option<CallError<R>>,
    ) -> Result<Self, CallError<R>> {
        let upgraded = timeout(patience, upgrade(rest, address, refusal)).await;
        let stream = upgraded
            .unwrap_or_else(|_| Err(CallError::Unreachable("the handshake took too long".into())))
            .map_err(|error| match error {
                CallError::Interrupted(why) => CallError::Unreachable(why),
                error => error,
            })?;
        let limits = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .max_message_size(Some(json::BODY_LIMIT))
            .max_frame_size(Some(json::BODY_LIMIT));
        Ok(Self {
            stream: WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await,
            pings: None,
        })
    }

    /// Enables pings; the connection is over after `longest_silence` without any frame, and not
    /// before a ping was without an answer for `every`. For protocols without a heartbeat of their
    /// own.
    #[must_use]
    pub fn with_pings(mut self, every: Duration, longest_silence: Duration) -> Self {
        let now = Instant::now();
        self.pings = Some(Pings {
            every,
            longest_silence,
            heard: now,
            next: now + every,
            unanswered: None,
        });
        self
    }

    /// Waits for the next event. Cancel safe.
    ///
    /// # Errors
    /// The reason why the connection is over, which may quote the other side.
    pub async fn next(&mut self) -> Result<Incoming, String> {
        loop {
            let (silent, ping) = self
                .pings
                .as_ref()
                .map_or((None, None), |pings| (pings.deadline(), Some(pings.next)));
            let frame = tokio::select! {
                biased;
                frame = self.stream.next() => frame,
                () = at(silent) => return Err("it fell silent".to_owned()),
                () = at(ping) => {
                    if let Some(pings) = &mut self.pings {
                        let now = Instant::now();
                        pings.next = now + pings.every;
                        pings.unanswered.get_or_insert(now);
                    }
                    self.push(Message::Ping(Vec::new().into())).await?;
                    continue;
                }
            };
            if let Some(pings) = &mut self.pings {
                pings.heard = Instant::now();
                pings.unanswered = None;
            }
            return match frame {
                Some(Ok(Message::Text(text))) => Ok(Incoming::Text(text.as_str().to_owned())),
                Some(Ok(Message::Binary(bytes))) => Ok(Incoming::Binary(bytes.into())),
                Some(Ok(Message::Close(frame))) => {
                    Ok(Incoming::Closed(frame.map(|frame| {
                        (frame.code.into(), frame.reason.to_string())
                    })))
                }
                Some(Ok(_)) => Ok(Incoming::Control),
                Some(Err(error)) => Err(format!("it broke: {error}")),
                None => Ok(Incoming::Closed(None)),
            };
        }
    }

    /// Sends a text frame.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub async fn send(&mut self, text: String) -> Result<(), String> {
        self.push(Message::text(text)).await
    }

    /// Sends a binary frame.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub async fn send_binary(&mut self, bytes: Vec<u8>) -> Result<(), String> {
        self.push(Message::binary(bytes)).await
    }

    /// Sends several frames, text or binary, with as few writes as possible.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub async fn send_all(
        &mut self,
        frames: impl IntoIterator<Item = impl Into<Message>> + Send,
    ) -> Result<(), String> {
        let frames: Vec<Message> = frames.into_iter().map(Into::into).collect();
        let stream = &mut self.stream;
        let sending = async move {
            for frame in frames {
                stream.feed(frame).await?;
            }
            stream.flush().await
        };
        sent_in_time(sending).await
    }

    /// Closes the connection with a code, without waiting for the other side.
    pub async fn close(mut self, code: u16) {
        let frame = CloseFrame {
            code: code.into(),
            reason: Utf8Bytes::default(),
        };
        let closing = self.stream.send(Message::Close(Some(frame)));
        if !matches!(timeout(CLOSE, closing).await, Ok(Ok(()))) {
            tracing::trace!("a connection was left without a goodbye");
        }
    }

    async fn push(&mut self, message: Message) -> Result<(), String> {
        sent_in_time(self.stream.send(message)).await
    }
}

async fn sent_in_time<E: Display>(
    sending: impl Future<Output = Result<(), E>>,
) -> Result<(), String> {
    match timeout(SEND, sending).await {
        Ok(sent) => sent.map_err(|error| format!("it broke: {error}")),
        Err(_) => Err("it takes nothing any more".to_owned()),
    }
}

/// Waits until this time; for ever for `None`.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Upgrades a request to a WebSocket (RFC 6455, section 4.1).
async fn upgrade<R>(
    rest: &Rest,
    address: &str,
    refusal: impl FnOnce(&HeaderMap) -> Option<CallError<R>>,
) -> Result<Upgraded, CallError<R>> {
    let key = generate_key();
    // Without a timeout: it would hold for the connection, too.
    let request = rest
        .client()?
        .get(http_address(address)?)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key);
    let response = rest.send(request).await?;
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refusal(response.headers()).unwrap_or_else(|| {
            CallError::Unreachable(format!("the socket was refused with {status}"))
        }));
    }
    let accepted = response
        .headers()
        .get(SEC_WEBSOCKET_ACCEPT)
        .and_then(|value| value.to_str().ok());
    if accepted != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err(CallError::Unreachable(
            "the server does not speak WebSocket".to_owned(),
        ));
    }
    response
        .upgrade()
        .await
        .map_err(|error| rest.failure(error))
}

/// Returns the HTTP address for an upgrade. The error does not repeat it: it may hold a ticket.
fn http_address<R>(address: &str) -> Result<Url, CallError<R>> {
    let unusable = || CallError::Unreachable("the address of the socket cannot be used".to_owned());
    let address = match address.trim().split_once("://") {
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(("ws", rest)) => format!("http://{rest}"),
        _ => return Err(unusable()),
    };
    Url::parse(&address).map_err(|_unreadable| unusable())
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::http::ProxyMode;

    type Error = CallError<String>;

    fn rest() -> Rest {
        Rest::new("http://localhost", "", ProxyMode::Direct, SEND).unwrap()
    }

    /// A server for one connection.
    async fn serve() -> (String, tokio::task::JoinHandle<WebSocketStream<TcpStream>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap());
        let server = async move {
            let (stream, _) = listener.accept().await.unwrap();
            tokio_tungstenite::accept_async(stream).await.unwrap()
        };
        #[expect(clippy::disallowed_methods, reason = "the server ends with the test")]
        (address, tokio::spawn(server))
    }

    #[tokio::test]
    async fn frames_are_exchanged_and_close_code_is_returned() {
        let (address, server) = serve().await;
        let mut socket = WebSocket::open::<String>(&rest(), &address, SEND)
            .await
            .unwrap();
        let mut server = server.await.unwrap();
        socket.send("hello".to_owned()).await.unwrap();
        assert_eq!(
            server.next().await.unwrap().unwrap(),
            Message::text("hello")
        );
        server.send(Message::text("hi")).await.unwrap();
        server.send(Message::Pong(Vec::new().into())).await.unwrap();
        server
            .send(Message::Close(Some(CloseFrame {
                code: 4004.into(),
                reason: "no".into(),
            })))
            .await
            .unwrap();
        let mut heard = Vec::new();
        for _ in 0..3 {
            heard.push(socket.next().await.unwrap());
        }
        let closed = Incoming::Closed(Some((4004, "no".to_owned())));
        assert_eq!(
            heard,
            [Incoming::Text("hi".to_owned()), Incoming::Control, closed]
        );
    }

    #[tokio::test]
    async fn refused_handshake_is_explained_by_its_headers() {
        for (header, expected) in [
            ("x-reason", "too many"),
            ("x-other", "the socket was refused with 400 Bad Request"),
        ] {
            let server = nanobot_testkit::http::Server::start(move |_| async move {
                let refused = nanobot_testkit::http::Response::bytes(400, "text/plain", "");
                refused.with_header(header, "too many")
            });
            let server = server.await.unwrap();
            let address = server.url().replace("http", "ws");
            let refusal = |headers: &HeaderMap| {
                let reason = headers.get("x-reason")?.to_str().ok()?;
                Some(CallError::Unreachable(reason.to_owned()))
            };
            let refused = WebSocket::open_or(&rest(), &address, SEND, refusal).await;
            let error: Error = refused.unwrap_err();
            assert_eq!(error, CallError::Unreachable(expected.to_owned()));
        }
    }

    #[tokio::test]
    async fn silent_connection_times_out() {
        let (address, server) = serve().await;
        let (every, longest) = (Duration::from_millis(20), Duration::from_millis(60));
        let mut socket = WebSocket::open::<String>(&rest(), &address, SEND)
            .await
            .unwrap()
            .with_pings(every, longest);
        // It is not read, so that pings are not answered.
        let _server = server.await.unwrap();
        assert_eq!(socket.next().await.unwrap_err(), "it fell silent");
    }

    #[tokio::test]
    async fn pause_of_reading_is_no_silence() {
        let (address, server) = serve().await;
        let (every, longest) = (Duration::from_secs(20), Duration::from_mins(1));
        let socket = WebSocket::open::<String>(&rest(), &address, SEND).await;
        let mut socket = socket.unwrap().with_pings(every, longest);
        let mut server = server.await.unwrap();
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(10)).await;
        tokio::time::resume();
        let answer = async { while let Some(Ok(_)) = server.next().await {} };
        tokio::select! {
            heard = socket.next() => assert_eq!(heard, Ok(Incoming::Control)),
            () = answer => panic!("the connection is over"),
        }
    }

    #[tokio::test]
    async fn unusable_address_is_not_quoted_in_the_error() {
        for address in ["http://ticket", "ticket", "ws://"] {
            let error: Error = WebSocket::open(&rest(), address, SEND).await.unwrap_err();
            let unusable = "the address of the socket cannot be used";
            assert_eq!(error, CallError::Unreachable(unusable.to_owned()));
        }
    }
}
