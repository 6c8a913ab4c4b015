//! A WebSocket client that reads JSON events, for tests of the gateway.

use std::fmt;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::{TestkitError, WAIT_LIMIT};

/// Interval between attempts to connect to a server that does not listen yet.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// An open connection. Dropping it closes it without a close handshake.
pub struct WebSocketClient {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl WebSocketClient {
    /// Connects to a `ws://` URL; parameters (`client_id`, `token`) are in its query.
    ///
    /// # Errors
    /// Returns [`TestkitError::WebSocket`] if the server refuses the upgrade.
    pub async fn connect(url: &str) -> Result<Self, TestkitError> {
        let (stream, _) = connect_async(url)
            .await
            .map_err(|error| failed("connecting", error))?;
        Ok(Self { stream })
    }

    /// Like [`WebSocketClient::connect`], but retries until the server listens.
    ///
    /// # Errors
    /// Returns the last refusal if no attempt succeeds within [`WAIT_LIMIT`].
    pub async fn connect_soon(url: &str) -> Result<Self, TestkitError> {
        let give_up = Instant::now() + WAIT_LIMIT;
        loop {
            match Self::connect(url).await {
                Err(_) if Instant::now() < give_up => tokio::time::sleep(LOOK_EVERY).await,
                outcome => return outcome,
            }
        }
    }

    /// Sends plain text.
    ///
    /// # Errors
    /// Returns [`TestkitError::WebSocket`] if the frame cannot be sent.
    pub async fn send_text(&mut self, text: impl Into<String>) -> Result<(), TestkitError> {
        self.stream
            .send(Message::text(text.into()))
            .await
            .map_err(|error| failed("sending", error))
    }

    /// Sends a JSON frame.
    ///
    /// # Errors
    /// Returns [`TestkitError::WebSocket`] if the frame cannot be sent.
    pub async fn send(&mut self, event: &Value) -> Result<(), TestkitError> {
        self.send_text(event.to_string()).await
    }

    /// Receives the next text frame. Text that is not JSON is returned as a JSON string.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if no frame arrives in time, or
    /// [`TestkitError::WebSocket`] if the connection ends.
    pub async fn receive(&mut self) -> Result<Value, TestkitError> {
        let next = async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Text(text))) => {
                        let text = text.as_str();
                        return Ok(serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)));
                    }
                    Some(Ok(Message::Close(_))) | None => {
                        return Err(TestkitError::WebSocket {
                            what: "the peer closed",
                            source: None,
                        });
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(failed("receiving", error)),
                }
            }
        };
        match tokio::time::timeout(WAIT_LIMIT, next).await {
            Ok(received) => received,
            Err(_) => Err(TestkitError::TimedOut {
                what: "a WebSocket frame".to_owned(),
                limit: WAIT_LIMIT,
            }),
        }
    }

    /// Receives events up to and including the first whose `event` is `name`.
    ///
    /// # Errors
    /// Returns the errors of [`WebSocketClient::receive`].
    pub async fn receive_until(&mut self, name: &str) -> Result<Vec<Value>, TestkitError> {
        let mut events = Vec::new();
        loop {
            let event = self.receive().await?;
            let is_last = event.get("event").and_then(Value::as_str) == Some(name);
            events.push(event);
            if is_last {
                return Ok(events);
            }
        }
    }

    /// Closes the connection cleanly.
    ///
    /// # Errors
    /// Returns [`TestkitError::WebSocket`] if that fails.
    pub async fn close(mut self) -> Result<(), TestkitError> {
        self.stream
            .close(None)
            .await
            .map_err(|error| failed("closing", error))
    }
}

impl fmt::Debug for WebSocketClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketClient").finish_non_exhaustive()
    }
}

fn failed(what: &'static str, error: Error) -> TestkitError {
    TestkitError::WebSocket {
        what,
        source: Some(Box::new(error)),
    }
}
