//! The channel and its contract.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, DeliveryGuarantee, Drafts, Format, Measure,
    OutboundKind, OutboundMessage, OutboundPart, Probe, Sent, StreamId, TaskTracker, TextStyle,
    TurnEnds, async_trait,
};
use nanobot_listen::Listener;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::WebSocketConfig;
use crate::hub::Hub;
use crate::protocol::{MessageEvent, ServerEvent};
use crate::receive::GUESTS;

/// Maximum number of streams of which the last character is remembered.
const MAX_STREAMS: usize = 1024;
/// Time limit of closing all connections.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1500);

/// The channel `websocket`.
#[derive(Debug)]
pub struct WebSocketChannel {
    pub(crate) name: ChannelName,
    pub(crate) config: Arc<WebSocketConfig>,
    pub(crate) hub: Hub,
    pub(crate) address: watch::Sender<Option<SocketAddr>>,
    /// Streams whose last delta ended with `!`, which may begin an image.
    exclaimed: Mutex<HashSet<StreamId>>,
}

impl WebSocketChannel {
    /// A channel that listens once it runs.
    #[must_use]
    pub fn new(name: ChannelName, config: WebSocketConfig) -> Self {
        Self {
            name,
            config: Arc::new(config),
            hub: Hub::default(),
            address: watch::Sender::new(None),
            exclaimed: Mutex::default(),
        }
    }

    /// Returns the address while it listens; with port 0 in the configuration, the system's choice.
    #[must_use]
    pub fn address(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.address.subscribe()
    }
}

#[async_trait]
impl Channel for WebSocketChannel {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        let listener = Listener::new(self.listen().await?, GUESTS);
        let connections = TaskTracker::new();
        self.accept(&listener, &context, &connections).await;
        drop(listener);
        self.address.send_replace(None);
        connections.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!(channel = %self.name, "some WebSocket clients did not take their goodbye in time");
        }
        Ok(())
    }

    /// Returns `Ok` if the part was written to at least one connection.
    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let frame = Utf8Bytes::from(ServerEvent::Message(MessageEvent::of_part(part)).to_frame());
        let peers = self.hub.peers(&part.message.chat_id);
        if peers.is_empty() {
            return Err(ChannelError::Away(
                "no client is attached to the chat".to_owned(),
            ));
        }
        let mut receipts: FuturesUnordered<_> =
            peers.iter().map(|peer| peer.send(frame.clone())).collect();
        while let Some(receipt) = receipts.next().await {
            if receipt.is_ok() {
                return Ok(Sent {
                    message_id: Some(part.idempotency_key().into()),
                });
            }
        }
        // Clients ignore an id that they have seen, so a second attempt is harmless.
        Err(ChannelError::Away(
            "every client of the chat left".to_owned(),
        ))
    }

    /// The protocol makes clients ignore ids that they have seen.
    fn guarantee(&self) -> DeliveryGuarantee {
        DeliveryGuarantee::Idempotent { window: None }
    }

    fn text_style(&self) -> TextStyle {
        TextStyle {
            format: Format::Markdown,
            measure: Measure::CodePoints,
            limit: 65_536,
        }
    }

    fn drafts(&self) -> Option<&dyn Drafts> {
        self.config.streaming.then_some(self)
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        Some(self)
    }
}

/// There is no platform: the probe reports whether clients can connect, or could once a gateway
/// runs.
#[async_trait]
impl Probe for WebSocketChannel {
    async fn probe(&self) -> Result<String, ChannelError> {
        let WebSocketConfig { host, port, .. } = &*self.config;
        // An address for all interfaces is reached on loopback, too.
        let here = match host.as_str() {
            "0.0.0.0" | "" => "127.0.0.1",
            "::" => "::1",
            other => other,
        };
        if *port != 0 && TcpStream::connect((here, *port)).await.is_ok() {
            return Ok(format!("a program listens on {here}:{port}"));
        }
        match TcpListener::bind((host.as_str(), *port)).await {
            Ok(_) if *port == 0 => Ok(format!(
                "a gateway may listen on {host}, at a port of the system's choice"
            )),
            Ok(_) => Ok(format!("{host}:{port} is free for a gateway to listen on")),
            Err(error) => Err(ChannelError::Unavailable(format!(
                "it is impossible to listen on {host}:{port} ({error})"
            ))),
        }
    }
}

#[async_trait]
impl Drafts for WebSocketChannel {
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError> {
        if let OutboundKind::Delta { stream } = &delta.kind {
            let text = self.without_images(stream, &delta.content);
            self.offer(
                delta,
                &ServerEvent::Delta {
                    chat_id: &delta.chat_id,
                    stream_id: stream,
                    text: &text,
                },
            );
        }
        Ok(())
    }

    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        if let OutboundKind::StreamEnd { stream, resuming } = &end.kind {
            let resuming = *resuming;
            self.exclaimed().remove(stream);
            self.offer(
                end,
                &ServerEvent::StreamEnd {
                    chat_id: &end.chat_id,
                    stream_id: stream,
                    resuming,
                },
            );
        }
        Ok(())
    }

    /// Reports to clients that no reply completes the stream.
    async fn withdraw(
        &self,
        stream: &StreamId,
        message: &OutboundMessage,
    ) -> Result<(), ChannelError> {
        let chat_id = &message.chat_id;
        self.exclaimed().remove(stream);
        self.offer(
            message,
            &ServerEvent::StreamEnd {
                chat_id,
                stream_id: stream,
                resuming: true,
            },
        );
        Ok(())
    }
}

#[async_trait]
impl TurnEnds for WebSocketChannel {
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        let reply_to = end.delivery.reply_to.as_ref();
        self.offer(
            end,
            &ServerEvent::TurnEnd {
                chat_id: &end.chat_id,
                reply_to,
            },
        );
        Ok(())
    }
}

impl WebSocketChannel {
    /// Returns a delta in which no image begins: a client may show a text while it is written, and
    /// would fetch the image. A blank is cheap, because the message replaces the deltas.
    fn without_images(&self, stream: &StreamId, delta: &str) -> String {
        if delta.is_empty() {
            return String::new();
        }
        let mut exclaimed = self.exclaimed();
        let is_after_mark = match delta.ends_with('!') {
            // Streams whose end was lost are forgotten.
            true if exclaimed.len() >= MAX_STREAMS => {
                exclaimed.clear();
                false
            }
            true => !exclaimed.insert(stream.clone()),
            false => exclaimed.remove(stream),
        };
        let gap = if is_after_mark && delta.starts_with('[') {
            " "
        } else {
            ""
        };
        format!("{gap}{}", delta.replace("![", "! ["))
    }

    fn exclaimed(&self) -> std::sync::MutexGuard<'_, HashSet<StreamId>> {
        self.exclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event that may be lost to all clients of the chat.
    fn offer(&self, message: &OutboundMessage, event: &ServerEvent<'_>) {
        let frame = Utf8Bytes::from(event.to_frame());
        for peer in self.hub.peers(&message.chat_id) {
            peer.offer(frame.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_image_begins_in_deltas() {
        let channel = WebSocketChannel::new("websocket".into(), WebSocketConfig::default());
        let (one, other) = (StreamId::from("1"), StreamId::from("2"));
        for (stream, delta, expected) in [
            (&one, "see ![a](u)", "see ! [a](u)"),
            (&one, "oh!", "oh!"),
            (&other, "[b](u)", "[b](u)"),
            (&one, "[a](u)!", " [a](u)!"),
            (&one, "", ""),
            (&one, "[a](u)", " [a](u)"),
            (&one, "[a](u)", "[a](u)"),
        ] {
            assert_eq!(channel.without_images(stream, delta), expected);
        }
        assert!(channel.exclaimed().is_empty());
    }

    #[tokio::test]
    async fn probe_reports_whether_clients_can_connect() {
        let ask = async |host: &str, port| {
            let config = WebSocketConfig {
                host: host.to_owned(),
                port,
                ..WebSocketConfig::default()
            };
            Probe::probe(&WebSocketChannel::new("websocket".into(), config))
                .await
                .map_err(|error| error.to_string())
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(
            ask("127.0.0.1", port).await,
            Ok(format!("a program listens on 127.0.0.1:{port}"))
        );
        let free = "a gateway may listen on 127.0.0.1, at a port of the system's choice".to_owned();
        assert_eq!(ask("127.0.0.1", 0).await, Ok(free));
        // An address for examples, which no machine has.
        let error = ask("203.0.113.1", 0).await.unwrap_err();
        assert!(
            error.starts_with(
                "the platform cannot be reached: it is impossible to listen on 203.0.113.1:0"
            ),
            "{error}"
        );
    }
}
