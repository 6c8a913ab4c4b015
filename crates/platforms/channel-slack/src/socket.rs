//! The WebSocket of Socket Mode.
//!
//! Decision: slack-morphism's own listener is not used: it acknowledges when it likes, connects again
//! at once for ever, shows the ticket in its log and keeps the socket's signs of life to itself.

use std::time::Duration;

use nanobot_channel_kit::WebSocket;
use nanobot_channel_kit::websocket::Incoming;
use serde_json::json;

use crate::api::Api;
use crate::error::CallError;

/// The time that the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(45);
/// Interval of pings.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Silence after which a connection is dead.
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
pub(crate) struct Socket(WebSocket);

impl Socket {
    /// Opens a new connection, whose first frame is to be a greeting.
    pub(crate) async fn open(api: &Api) -> Result<Self, CallError> {
        let ticket = api.open_connection().await?;
        let socket = WebSocket::open(&api.rest, &ticket, HANDSHAKE).await?;
        Ok(Self(socket.pinging(PING_EVERY, LONGEST_SILENCE)))
    }

    /// Waits for what comes next. Cancel safe.
    ///
    /// # Errors
    /// Why the connection is over, in words.
    pub(crate) async fn next(&mut self) -> Result<Heard, String> {
        match self.0.next().await? {
            Incoming::Text(text) => Ok(Heard::Frame(text)),
            Incoming::Binary(_) | Incoming::Life => Ok(Heard::Life),
            Incoming::Closed(_) => Err("Slack closed it".to_owned()),
        }
    }

    /// Tells Slack that it may forget an envelope.
    ///
    /// # Errors
    /// Why the connection is over, in words.
    pub(crate) async fn acknowledge(&mut self, envelope: &str) -> Result<(), String> {
        self.0
            .send(json!({"envelope_id": envelope}).to_string())
            .await
    }
}
