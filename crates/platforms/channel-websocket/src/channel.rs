//! The channel: listens, and hands messages to the connections that receive a chat.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelFactory, ChannelName, Credential,
    DeliveryGuarantee, Drafts, Format, Measure, OutboundKind, OutboundMessage, OutboundPart, Probe,
    RawConfig, Sent, StreamId, TaskTracker, TextStyle, TurnEnds, Value, async_trait,
};
use nanobot_listen::{Listener, Penalties, SeatLimits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::WebSocketConfig;
use crate::connection::Host;
use crate::hub::Hub;
use crate::protocol::{MessageEvent, ServerEvent};

/// The number of clients that may be connected at a time.
const CLIENTS: usize = 256;
/// The number of connections that may be in their handshake, and have shown no token.
const GUESTS: SeatLimits = SeatLimits {
    total: 32,
    per_address: 8,
};
/// The length of a token below which it is warned about.
pub(crate) const SHORT_TOKEN: usize = 16;
/// How often the listening server says that it lives: a client may not come for days.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
/// The pause after the system refused a connection (too many open files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// How long connections have to say goodbye.
const CLOSE_WITHIN: Duration = Duration::from_millis(1500);

/// The channel `websocket`.
#[derive(Debug)]
pub struct WebSocketChannel {
    name: ChannelName,
    config: Arc<WebSocketConfig>,
    hub: Hub,
    address: watch::Sender<Option<SocketAddr>>,
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
        }
    }

    /// Where it listens, while it does: with port 0 in the configuration the system's choice.
    #[must_use]
    pub fn address(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.address.subscribe()
    }

    async fn listen(&self) -> Result<TcpListener, ChannelError> {
        let WebSocketConfig { host, port, .. } = &*self.config;
        let failed =
            |error| ChannelError::Unavailable(format!("cannot listen on {host}:{port}: {error}"));
        let listener = TcpListener::bind((host.as_str(), *port))
            .await
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(channel = %self.name, %address, "listening for WebSocket clients");
        if self.config.token.is_short() {
            let (channel, length) = (&self.name, SHORT_TOKEN);
            tracing::warn!(%channel, "the token is shorter than {length} characters: it can be guessed");
        }
        self.address.send_replace(Some(address));
        Ok(listener)
    }

    /// Takes clients until it is told to stop.
    async fn accept(
        &self,
        listener: &Listener,
        context: &ChannelContext,
        connections: &TaskTracker,
    ) {
        let clients = Arc::new(Semaphore::new(CLIENTS));
        let penalties = Arc::new(Penalties::default());
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        alive.reset();
        context.progress.alive();
        loop {
            let accepted = tokio::select! {
                () = context.cancel.cancelled() => return,
                _ = alive.tick() => {
                    context.progress.alive();
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, seat)) => {
                    let host = self.host(context, &clients, &penalties);
                    connections.spawn(context.tasks.track_future(host.serve(stream, seat)));
                }
                Err(error) => {
                    context
                        .progress
                        .degraded(&format!("cannot take WebSocket clients: {error}"));
                    context
                        .cancel
                        .run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE))
                        .await;
                }
            }
        }
    }

    fn host(
        &self,
        context: &ChannelContext,
        clients: &Arc<Semaphore>,
        penalties: &Arc<Penalties>,
    ) -> Host {
        Host {
            channel: self.name.clone(),
            config: Arc::clone(&self.config),
            hub: self.hub.clone(),
            access: Arc::clone(&context.access),
            intake: Arc::clone(&context.intake),
            cancel: context.cancel.child_token(),
            clients: Arc::clone(clients),
            penalties: Arc::clone(penalties),
        }
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
        if tokio::time::timeout(CLOSE_WITHIN, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!(channel = %self.name, "some WebSocket clients did not take their goodbye in time");
        }
        Ok(())
    }

    /// `Ok` when the part was written to at least one connection.
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
        // Clients ignore an id that they have seen, so a second try does no harm.
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

/// There is no platform: the question is whether a client finds somebody, or would once a gateway runs.
#[async_trait]
impl Probe for WebSocketChannel {
    async fn probe(&self) -> Result<String, ChannelError> {
        let WebSocketConfig { host, port, .. } = &*self.config;
        // What listens everywhere is reached here, too.
        let here = match host.as_str() {
            "0.0.0.0" | "" => "127.0.0.1",
            "::" => "::1",
            other => other,
        };
        if *port != 0 && TcpStream::connect((here, *port)).await.is_ok() {
            return Ok(format!("somebody listens on {here}:{port}"));
        }
        match TcpListener::bind((host.as_str(), *port)).await {
            Ok(_) if *port == 0 => Ok(format!(
                "a gateway may listen on {host}, at a port of the system's choice"
            )),
            Ok(_) => Ok(format!("{host}:{port} is free for a gateway to listen on")),
            Err(error) => Err(ChannelError::Unavailable(format!(
                "nobody can listen on {host}:{port} ({error})"
            ))),
        }
    }
}

#[async_trait]
impl Drafts for WebSocketChannel {
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError> {
        if let OutboundKind::Delta { stream } = &delta.kind {
            self.offer(
                delta,
                &ServerEvent::Delta {
                    chat_id: &delta.chat_id,
                    stream_id: stream,
                    text: &delta.content,
                },
            );
        }
        Ok(())
    }

    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        if let OutboundKind::StreamEnd { stream, resuming } = &end.kind {
            let resuming = *resuming;
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

    /// Tells clients that no reply completes the stream.
    async fn withdraw(
        &self,
        stream: &StreamId,
        message: &OutboundMessage,
    ) -> Result<(), ChannelError> {
        let chat_id = &message.chat_id;
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
    /// Shows something that may be lost to everybody in the chat.
    fn offer(&self, message: &OutboundMessage, event: &ServerEvent<'_>) {
        let frame = Utf8Bytes::from(event.to_frame());
        for peer in self.hub.peers(&message.chat_id) {
            peer.offer(frame.clone());
        }
    }
}

/// Makes channels of the kind `websocket`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebSocketFactory;

impl ChannelFactory for WebSocketFactory {
    fn kind(&self) -> &'static str {
        "websocket"
    }

    fn default_config(&self) -> Value {
        WebSocketConfig::default_section()
    }

    fn credentials(&self) -> &'static [Credential] {
        const TOKEN: &[Credential] = &[Credential::secret(
            "token",
            "a long random text that clients have to show, for example from `openssl rand -hex 32`",
        )];
        TOKEN
    }

    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError> {
        Ok(Arc::new(WebSocketChannel::new(
            name,
            WebSocketConfig::read(config)?,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_asks_learns_whether_clients_find_somebody_or_would() {
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
            Ok(format!("somebody listens on 127.0.0.1:{port}"))
        );
        let free = "a gateway may listen on 127.0.0.1, at a port of the system's choice".to_owned();
        assert_eq!(ask("127.0.0.1", 0).await, Ok(free));
        // An address for examples, which is nobody's.
        let nobody = ask("203.0.113.1", 0).await.unwrap_err();
        assert!(
            nobody
                .starts_with("the platform cannot be reached: nobody can listen on 203.0.113.1:0"),
            "{nobody}"
        );
    }
}
