//! Receives messages from the stream, and acknowledges each after it was stored.

use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, json};
use nanobot_channel_kit::intake::{self, Next};
use nanobot_channel_kit::websocket::Incoming;
use nanobot_channel_kit::{Lanes, Reconnect, WebSocket};
use serde::Deserialize;
use serde_json::Value;

use crate::channel::Beacon;
use crate::error::CallError;
use crate::intake::candidate;
use crate::wire::{Frame, Message, RawMessage};

/// Pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Failed connections in a row after which the channel counts as down: after about ten seconds.
const MAX_FAILURES: u32 = 10;
/// Timeout of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Interval of pings.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Silence after which a connection counts as dead.
const LONGEST_SILENCE: Duration = Duration::from_secs(50);
/// Number of rooms that are handled at the same time.
const CONCURRENT_ROOMS: usize = 16;
/// Number of messages after which reading pauses.
const BACKLOG: usize = 256;

impl Beacon {
    /// Receives until the run ends.
    pub(crate) async fn receive_messages(
        &self,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let mut reconnect = Reconnect::new("Beacon", FIRST_PAUSE, MAX_FAILURES);
        loop {
            let Err(error) = self.read_stream(&mut reconnect, context).await else {
                return Ok(());
            };
            let pause = reconnect.failed(error, context.progress.as_ref())?;
            tokio::time::sleep(pause).await;
        }
    }

    /// Opens a connection and handles its messages. Returns `Ok` if the run ends.
    async fn read_stream(
        &self,
        reconnect: &mut Reconnect,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let mut socket = self.connect().await.map_err(CallError::repeatable)?;
        context.progress.alive();
        // Messages in progress are dropped with the connection: Beacon sends them again.
        let mut lanes = Lanes::new(CONCURRENT_ROOMS);
        loop {
            tokio::select! {
                (id, next) = lanes.next() => match next {
                    Next::Confirm => acknowledge(&mut socket, id).await?,
                    Next::Stop => return Ok(()),
                },
                incoming = socket.next(), if lanes.len() < BACKLOG => {
                    let frame = match incoming.map_err(ChannelError::Unavailable)? {
                        Incoming::Text(frame) => frame,
                        Incoming::Binary(_) | Incoming::Control => String::new(),
                        Incoming::Closed(_) => {
                            let why = "Beacon closed the stream".to_owned();
                            return Err(ChannelError::Unavailable(why));
                        }
                    };
                    context.progress.alive();
                    reconnect.succeeded();
                    if let Ok(Frame { message: Some(message) }) = json::from_str(&frame) {
                        let room = message.content.get("room").map(Value::to_string);
                        lanes.add(room, self.handle(message, context));
                    }
                }
            }
        }
    }

    async fn connect(&self) -> Result<WebSocket, CallError> {
        #[derive(Deserialize)]
        struct Stream {
            url: String,
        }
        let stream: Stream = self.api.call("v1/stream", &serde_json::json!({})).await?;
        let socket = WebSocket::open(&self.api.rest, &stream.url, HANDSHAKE).await?;
        Ok(socket.with_pings(PING_EVERY, LONGEST_SILENCE))
    }

    /// Hands a message to the assistant. Returns its id and the consequence.
    async fn handle(&self, raw: RawMessage, context: &ChannelContext) -> (String, Next) {
        let RawMessage { id, content } = raw;
        let content = Value::Object(content);
        let bytes = content.to_string();
        let quarantine = &self.base.quarantine;
        let admitted = quarantine.admit(&id, bytes.as_bytes(), context.progress.as_ref());
        let Some(handling) = admitted.await else {
            return (id, Next::Confirm);
        };
        let next = match Message::deserialize(content) {
            Ok(message) => {
                let candidate = candidate(&id, message);
                intake::accept(self, &candidate, Some(handling), context).await
            }
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, "an unreadable message was skipped");
                handling.end().await;
                Next::Confirm
            }
        };
        (id, next)
    }
}

async fn acknowledge(socket: &mut WebSocket, id: String) -> Result<(), ChannelError> {
    let frame = serde_json::json!({"ack": id}).to_string();
    socket.send(frame).await.map_err(ChannelError::Unavailable)
}
