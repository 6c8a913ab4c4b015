//! The WebSocket of Socket Mode.
//!
//! Decision: slack-morphism's own listener is not used: it acknowledges before events are stored,
//! reconnects at once for ever, logs the ticket and does not report the socket's signs of life.

use std::time::Duration;

use nanobot_channel_kit::WebSocket;
use nanobot_channel_kit::websocket::Incoming;
use serde_json::json;

use crate::api::Api;
use crate::error::CallError;

/// The time that the handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(45);
/// Interval of pings.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Silence after which a connection is dead.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// The next event of a connection.
#[derive(Debug)]
pub(crate) enum SocketEvent {
    /// A frame of Slack.
    Frame(String),
    /// A sign of life.
    Activity,
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Socket(WebSocket);

impl Socket {
    /// Opens a new connection, whose first frame is to be a greeting.
    pub(crate) async fn open(api: &Api) -> Result<Self, CallError> {
        let ticket = api.open_connection().await?;
        let socket = WebSocket::open(&api.rest, &ticket, HANDSHAKE_TIMEOUT).await?;
        Ok(Self(socket.with_pings(PING_INTERVAL, IDLE_TIMEOUT)))
    }

    /// Waits for what comes next. Cancel safe.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub(crate) async fn next(&mut self) -> Result<SocketEvent, String> {
        match self.0.next().await? {
            Incoming::Text(text) => Ok(SocketEvent::Frame(text)),
            Incoming::Binary(_) | Incoming::Control => Ok(SocketEvent::Activity),
            Incoming::Closed(_) => Err("Slack closed it".to_owned()),
        }
    }

    /// Acknowledges an envelope.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub(crate) async fn acknowledge(&mut self, envelopes: &[String]) -> Result<(), String> {
        let frames = envelopes.iter().map(|id| json!({"envelope_id": id}));
        self.0.send_all(frames.map(|frame| frame.to_string())).await
    }
}
