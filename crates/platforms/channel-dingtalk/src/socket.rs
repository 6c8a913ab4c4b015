//! The WebSocket of Stream mode.
//!
//! DingTalk confirms pings of the WebSocket and sends some of its own. Any frame is a sign of life,
//! and so is the handshake, in which DingTalk accepts the ticket; a socket that stays open is none.

use std::time::Duration;

use nanobot_channel_kit::WebSocket;
use nanobot_channel_kit::push::{PushConnection, PushEnd, Pushed};
use nanobot_channel_kit::websocket::Incoming;

use crate::api::Api;
use crate::error::CallError;
use crate::frame::{Frame, FrameKind, acknowledgement};
use crate::wire::{MESSAGE_TOPIC, MessageOrigin};

/// The time that the handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(45);
/// Interval of pings, and the silence after which a connection is dead.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const LONGEST_SILENCE: Duration = Duration::from_secs(90);

/// A message to handle, and the id to acknowledge it with.
#[derive(Debug)]
pub struct ReceivedMessage {
    pub(crate) id: String,
    pub(crate) origin: MessageOrigin,
    pub(crate) payload: String,
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub struct Socket {
    frames: WebSocket,
    /// `true` until the handshake was reported as a sign of life.
    is_new: bool,
}

impl Socket {
    /// Opens a new connection, with a ticket of its own: a ticket is valid once, for a short time.
    pub(crate) async fn open(api: &Api) -> Result<Self, CallError> {
        let connection = api.open_connection().await;
        let address = connection.map_err(CallError::unambiguous)?.address();
        let unusable = || CallError::Unreachable("DingTalk gave no usable address".to_owned());
        let address = address.ok_or_else(unusable)?;
        let socket = WebSocket::open(&api.rest, address.as_str(), HANDSHAKE_TIMEOUT).await?;
        Ok(Self {
            frames: socket.with_pings(PING_INTERVAL, LONGEST_SILENCE),
            is_new: true,
        })
    }

    async fn read(&mut self, text: &str) -> Result<Pushed<ReceivedMessage>, String> {
        let frame = match Frame::parse(text) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(error, "a frame could not be read and was passed over");
                return Ok(Pushed::Nothing);
            }
        };
        match frame.kind {
            FrameKind::Callback if frame.topic == MESSAGE_TOPIC => {
                Ok(Pushed::Event(ReceivedMessage {
                    id: frame.id,
                    origin: MessageOrigin::peek(&frame.data),
                    payload: frame.data,
                }))
            }
            FrameKind::System if frame.topic == "disconnect" => {
                self.frames.send(frame.echo()).await?;
                Err("DingTalk asked for a new connection".to_owned())
            }
            FrameKind::System => {
                self.frames.send(frame.echo()).await?;
                Ok(Pushed::Activity)
            }
            FrameKind::Callback | FrameKind::Other => {
                if !frame.id.is_empty() {
                    self.frames.send(frame.echo()).await?;
                }
                Ok(Pushed::Nothing)
            }
        }
    }
}

impl PushConnection for Socket {
    type Event = ReceivedMessage;
    /// The id of a frame.
    type Receipt = String;

    async fn next(&mut self) -> Result<Pushed<ReceivedMessage>, PushEnd> {
        if std::mem::take(&mut self.is_new) {
            return Ok(Pushed::Activity);
        }
        match self.frames.next().await? {
            Incoming::Text(text) => Ok(self.read(&text).await?),
            Incoming::Control => Ok(Pushed::Activity),
            Incoming::Binary(_) => Ok(Pushed::Nothing),
            Incoming::Closed(_) => Err(PushEnd::Lost("DingTalk closed it".to_owned())),
        }
    }

    async fn confirm(&mut self, ids: Vec<String>) -> Result<(), PushEnd> {
        let frames = ids.iter().map(|id| acknowledgement(id));
        Ok(self.frames.send_all(frames).await?)
    }
}
