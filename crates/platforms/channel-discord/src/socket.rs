//! The gateway's WebSocket.
//!
//! Decision: the connection is made by the HTTP client that makes all others, so that proxies,
//! roots of trust and timeouts hold here too.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::json;
use reqwest::{StatusCode, Upgraded, Url};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::api::Api;
use crate::error::CallError;

/// How long connecting, or one frame on its way out, may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// Closing so keeps the session, unlike 1000.
const TO_RESUME: u16 = 4000;

/// What comes from the gateway.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A frame.
    Text(Utf8Bytes),
    /// It closed the connection, with this code and reason.
    Closed(Option<(u16, String)>),
    /// The connection broke.
    Broken(String),
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Socket(WebSocketStream<Upgraded>);

impl Socket {
    /// Connects to a gateway by its `ws` or `wss` address.
    pub(crate) async fn open(api: &Api, address: &str) -> Result<Self, CallError> {
        match tokio::time::timeout(PATIENCE, Self::connect(api, address)).await {
            Ok(opened) => opened,
            Err(_) => Err(CallError::Unreachable(
                "the gateway does not answer".to_owned(),
            )),
        }
    }

    async fn connect(api: &Api, address: &str) -> Result<Self, CallError> {
        let key = generate_key();
        let request = api
            .get(http_address(address)?.as_str())?
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", &key);
        let response = request.send().await.map_err(|error| api.failure(error))?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(CallError::Unreachable(format!(
                "the gateway answered {status}"
            )));
        }
        let accepted = response
            .headers()
            .get("sec-websocket-accept")
            .and_then(|key| key.to_str().ok());
        if accepted != Some(derive_accept_key(key.as_bytes()).as_str()) {
            return Err(CallError::Misunderstood("this is no gateway".to_owned()));
        }
        let stream = response
            .upgrade()
            .await
            .map_err(|error| api.failure(error))?;
        Ok(Self(
            WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits())).await,
        ))
    }

    /// The next thing that comes. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Incoming {
        loop {
            return match self.0.next().await {
                Some(Ok(Message::Text(text))) => Incoming::Text(text),
                Some(Ok(Message::Close(frame))) => Incoming::Closed(
                    frame.map(|frame| (frame.code.into(), frame.reason.to_string())),
                ),
                // Pings are answered by the library, and compression was not asked for.
                Some(Ok(_)) => continue,
                Some(Err(error)) => Incoming::Broken(error.to_string()),
                None => Incoming::Closed(None),
            };
        }
    }

    /// Sends a frame.
    pub(crate) async fn send(&mut self, frame: &serde_json::Value) -> Result<(), String> {
        let sent = self.0.send(Message::text(frame.to_string()));
        match tokio::time::timeout(PATIENCE, sent).await {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err("nothing can be sent".to_owned()),
        }
    }

    /// Says goodbye in a way that lets the session be resumed. Waits for nothing.
    pub(crate) async fn leave(mut self) {
        let frame = CloseFrame {
            code: CloseCode::from(TO_RESUME),
            reason: Utf8Bytes::default(),
        };
        let leaving = self.0.send(Message::Close(Some(frame)));
        if !matches!(
            tokio::time::timeout(Duration::from_millis(200), leaving).await,
            Ok(Ok(()))
        ) {
            tracing::trace!("the gateway was left without a goodbye");
        }
    }
}

/// Bounds messages to what is worth reading; the library's own limit is eight times that.
fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(json::BODY_LIMIT))
        .max_frame_size(Some(json::BODY_LIMIT))
}

/// Where the upgrade is asked for, with the protocol's version.
fn http_address(address: &str) -> Result<Url, CallError> {
    let setup = || CallError::Setup("the address of the gateway is no address".to_owned());
    let (scheme, rest) = address.trim().split_once("://").ok_or_else(setup)?;
    let scheme = match scheme {
        "ws" => "http",
        "wss" => "https",
        _ => return Err(setup()),
    };
    let mut url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_not_an_address| setup())?;
    if url.query().is_none() {
        url.set_query(Some("v=10&encoding=json"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_named_once() {
        let table = [
            (
                "wss://gateway.discord.gg",
                Some("https://gateway.discord.gg/?v=10&encoding=json"),
            ),
            (
                "wss://gateway.discord.gg/?v=10&encoding=json",
                Some("https://gateway.discord.gg/?v=10&encoding=json"),
            ),
            (
                "ws://127.0.0.1:9/",
                Some("http://127.0.0.1:9/?v=10&encoding=json"),
            ),
            ("http://127.0.0.1:9/", None),
            ("gateway", None),
        ];
        for (address, expected) in table {
            let url = http_address(address).ok();
            assert_eq!(url.as_ref().map(Url::as_str), expected, "{address}");
        }
    }
}
