//! The WebSocket of Socket Mode.
//!
//! Decision: it is opened as an upgraded request of the same HTTP client, so that proxies, roots of
//! trust and timeouts are the same for calls and for events. slack-morphism's own listener is not
//! used: it acknowledges when it likes, connects again at once for ever, shows the ticket in its log
//! and keeps the socket's signs of life to itself.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::json::BODY_LIMIT;
use reqwest::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{StatusCode, Upgraded, Url};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use crate::api::Api;
use crate::error::CallError;

/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(45);
/// How long a frame may take to leave.
const SEND: Duration = Duration::from_secs(10);
/// How often the other side is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(15);
/// A connection that says nothing for so long is dead.
const LONGEST_SILENCE: Duration = Duration::from_secs(50);

/// What a connection gives.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A frame of Slack's.
    Frame(String),
    /// A sign of life.
    Life,
}

/// An open connection. It is closed without ceremony when dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: WebSocketStream<Upgraded>,
    heard: Instant,
    ping: Instant,
}

impl Socket {
    /// Opens a new connection, whose first frame is to be a greeting.
    pub(crate) async fn open(api: &Api) -> Result<Self, CallError> {
        let ticket = api.open_connection().await?;
        let upgraded = timeout(HANDSHAKE, upgrade(api, &ticket)).await;
        let upgraded = upgraded.unwrap_or_else(|_| {
            Err(CallError::Unreachable("the handshake took too long".into()))
        })?;
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(limits())).await;
        let now = Instant::now();
        Ok(Self {
            stream,
            heard: now,
            ping: now + PING_EVERY,
        })
    }

    /// Waits for what comes next. Cancel safe.
    ///
    /// # Errors
    /// Why the connection is over, in words.
    pub(crate) async fn next(&mut self) -> Result<Heard, String> {
        loop {
            let dead = self.heard + LONGEST_SILENCE;
            let frame = tokio::select! {
                biased;
                frame = self.stream.next() => frame,
                () = tokio::time::sleep_until(dead) => return Err("it fell silent".to_owned()),
                () = tokio::time::sleep_until(self.ping) => {
                    self.ping = Instant::now() + PING_EVERY;
                    self.send(Message::Ping(Vec::new().into())).await?;
                    continue;
                }
            };
            match frame {
                Some(Ok(Message::Close(_))) | None => return Err("Slack closed it".to_owned()),
                Some(Err(error)) => return Err(format!("it broke: {error}")),
                Some(Ok(frame)) => {
                    self.heard = Instant::now();
                    return Ok(match frame {
                        Message::Text(text) => Heard::Frame(text.as_str().to_owned()),
                        _ => Heard::Life,
                    });
                }
            }
        }
    }

    /// Tells Slack that it may forget an envelope.
    ///
    /// # Errors
    /// Why the connection is over, in words.
    pub(crate) async fn acknowledge(&mut self, envelope: &str) -> Result<(), String> {
        self.send(Message::text(json!({"envelope_id": envelope}).to_string()))
            .await
    }

    async fn send(&mut self, message: Message) -> Result<(), String> {
        match timeout(SEND, self.stream.send(message)).await {
            Ok(sent) => sent.map_err(|error| format!("it broke: {error}")),
            Err(_) => Err("it takes nothing any more".to_owned()),
        }
    }
}

/// Bounds messages to what is worth reading; the library's own limit is eight times that.
fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(BODY_LIMIT))
        .max_frame_size(Some(BODY_LIMIT))
}

/// Asks the server to speak WebSocket from here on (RFC 6455, section 4.1).
async fn upgrade(api: &Api, ticket: &str) -> Result<Upgraded, CallError> {
    let unusable =
        || CallError::Unreachable("Slack gave an address that cannot be used".to_owned());
    let address = match ticket.split_once("://") {
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(("ws", rest)) => format!("http://{rest}"),
        _ => return Err(unusable()),
    };
    let address = Url::parse(&address).map_err(|_unreadable| unusable())?;
    let key = generate_key();
    let request = api.client()?.get(address);
    let request = request
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key);
    let response = api.send(request).await?;
    let accepted = response
        .headers()
        .get(SEC_WEBSOCKET_ACCEPT)
        .and_then(|value| value.to_str().ok());
    if response.status() != StatusCode::SWITCHING_PROTOCOLS
        || accepted != Some(&derive_accept_key(key.as_bytes()))
    {
        return Err(CallError::Unreachable(format!(
            "the socket was refused with {}",
            response.status()
        )));
    }
    response.upgrade().await.map_err(|error| api.failure(error))
}
