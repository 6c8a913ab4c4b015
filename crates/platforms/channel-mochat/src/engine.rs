//! Engine.IO 4 over a WebSocket: the layer below Socket.IO.
//!
//! A packet is one frame: text whose first character is its type, or binary, which is a message.
//! The server pings; a connection without any frame for the server's interval and timeout is dead.
//! Longer messages than [`json::BODY_LIMIT`] end the connection.
//!
//! Polling and the upgrade from it are left out: the server is connected to by WebSocket at once.

use std::time::Duration;

use nanobot_channel::json;
use nanobot_channel_kit::websocket::Incoming;
use nanobot_channel_kit::{Rest, WebSocket};
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use crate::error::CallError;

/// Bounds of the silence after which a connection is dead, whatever the server says.
const MIN_SILENCE: Duration = Duration::from_secs(1);
const MAX_SILENCE: Duration = Duration::from_mins(5);

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineMessage {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

/// A packet from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EnginePacket {
    /// The handshake, in JSON.
    Open(String),
    /// The end of the connection.
    Close,
    /// A sign of life, to be answered with the same content.
    Ping(String),
    /// A message.
    Message(EngineMessage),
    /// Nothing of use here.
    Noop,
}

impl EnginePacket {
    /// Reads a frame. Unknown types are [`Self::Noop`].
    pub(crate) fn parse(frame: EngineMessage) -> Self {
        let text = match frame {
            EngineMessage::Binary(bytes) => return Self::Message(EngineMessage::Binary(bytes)),
            EngineMessage::Text(text) => text,
        };
        let mut letters = text.chars();
        let kind = letters.next();
        let content = letters.as_str();
        match kind {
            Some('0') => Self::Open(content.to_owned()),
            Some('1') => Self::Close,
            Some('2') => Self::Ping(content.to_owned()),
            Some('4') => Self::Message(EngineMessage::Text(content.to_owned())),
            _ => Self::Noop,
        }
    }
}

/// Something that the connection brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineEvent {
    /// A message.
    Message(EngineMessage),
    /// A sign of life.
    Ping,
    /// Nothing of use here.
    Nothing,
}

/// The times of the handshake, in milliseconds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Handshake {
    ping_interval: u64,
    ping_timeout: u64,
}

impl Handshake {
    fn longest_silence(&self) -> Duration {
        Duration::from_millis(self.ping_interval.saturating_add(self.ping_timeout))
            .clamp(MIN_SILENCE, MAX_SILENCE)
    }
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Engine {
    socket: WebSocket,
    longest_silence: Duration,
    heard: Instant,
}

impl Engine {
    /// Opens a connection and waits for the handshake, within `patience` each.
    pub(crate) async fn open(
        rest: &Rest,
        address: &str,
        patience: Duration,
    ) -> Result<Self, CallError> {
        let mut socket = WebSocket::open(rest, address, patience).await?;
        let opened = timeout(patience, handshake(&mut socket)).await;
        let opened = opened.unwrap_or_else(|_| Err("the handshake took too long".to_owned()));
        Ok(Self {
            longest_silence: opened.map_err(CallError::Unreachable)?,
            socket,
            heard: Instant::now(),
        })
    }

    /// Waits for the next packet, and answers pings. Cancel safe, except for such an answer.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub(crate) async fn next(&mut self) -> Result<EngineEvent, String> {
        let silent = self.heard + self.longest_silence;
        let frame = tokio::select! {
            biased;
            frame = self.socket.next() => read(frame?)?,
            () = tokio::time::sleep_until(silent) => return Err("it fell silent".to_owned()),
        };
        self.heard = Instant::now();
        let Some(frame) = frame else {
            return Ok(EngineEvent::Nothing);
        };
        match EnginePacket::parse(frame) {
            EnginePacket::Message(message) => Ok(EngineEvent::Message(message)),
            EnginePacket::Ping(content) => {
                self.socket.send(format!("3{content}")).await?;
                Ok(EngineEvent::Ping)
            }
            EnginePacket::Close => Err("the server closed it".to_owned()),
            EnginePacket::Open(_) | EnginePacket::Noop => Ok(EngineEvent::Nothing),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub(crate) async fn send(&mut self, message: EngineMessage) -> Result<(), String> {
        match message {
            EngineMessage::Text(text) => self.socket.send(format!("4{text}")).await,
            EngineMessage::Binary(bytes) => self.socket.send_binary(bytes).await,
        }
    }
}

/// Returns the content of a frame; `None` for frames of the WebSocket itself.
fn read(frame: Incoming) -> Result<Option<EngineMessage>, String> {
    match frame {
        Incoming::Text(text) => Ok(Some(EngineMessage::Text(text))),
        Incoming::Binary(bytes) => Ok(Some(EngineMessage::Binary(bytes))),
        Incoming::Control => Ok(None),
        Incoming::Closed(_) => Err("the server closed it".to_owned()),
    }
}

/// Waits for the handshake. Returns the longest silence of the connection.
async fn handshake(socket: &mut WebSocket) -> Result<Duration, String> {
    loop {
        let Some(frame) = read(socket.next().await?)? else {
            continue;
        };
        let EnginePacket::Open(content) = EnginePacket::parse(frame) else {
            return Err("the server does not speak Engine.IO".to_owned());
        };
        let handshake: Result<Handshake, _> = json::from_str(&content);
        return match handshake {
            Ok(handshake) => Ok(handshake.longest_silence()),
            Err(error) => Err(format!("the handshake cannot be read: {error}")),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_by_their_first_character() {
        let text = |text: &str| EnginePacket::parse(EngineMessage::Text(text.to_owned()));
        let message = |text: &str| EnginePacket::Message(EngineMessage::Text(text.to_owned()));
        let table = [
            ("0{}", EnginePacket::Open("{}".to_owned())),
            ("1", EnginePacket::Close),
            ("2probe", EnginePacket::Ping("probe".to_owned())),
            ("40", message("0")),
            ("4語", message("語")),
            ("3", EnginePacket::Noop),
            ("6", EnginePacket::Noop),
            ("", EnginePacket::Noop),
            ("語", EnginePacket::Noop),
        ];
        for (frame, expected) in table {
            assert_eq!(text(frame), expected, "{frame}");
        }
        let bytes = EngineMessage::Binary(vec![0x34]);
        assert_eq!(
            EnginePacket::parse(bytes.clone()),
            EnginePacket::Message(bytes)
        );
    }

    #[test]
    fn silence_is_bounded() {
        let silence = |ping_interval, ping_timeout| {
            let handshake = Handshake {
                ping_interval,
                ping_timeout,
            };
            handshake.longest_silence().as_secs()
        };
        assert_eq!(silence(25_000, 20_000), 45);
        assert_eq!((silence(0, 0), silence(u64::MAX, u64::MAX)), (1, 300));
    }
}
