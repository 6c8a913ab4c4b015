//! The connection of a client, from the handshake to the close frame.
//!
//! Decision: one task reads and writes. While a message is being made durable nothing else is read
//! from its client, which is the flow control; outgoing frames wait in a bounded queue. A client
//! without access gets an error event and is disconnected.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, CancellationToken, ChannelName, ChatId,
    InboundMessage, Intake, MessageId, SenderId,
};
use nanobot_listen::{Penalties, Seat};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig as SocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use crate::WebSocketConfig;
use crate::handshake::{Guest, UpgradeRefusal, admit, new_chat};
use crate::hub::{Hub, OutgoingFrame, Peer};
use crate::protocol::{ClientFrame, ServerEvent};

/// Time limit of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of writing a frame.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of writing the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(700);
/// Maximum number of chats of a connection.
const MAX_CHATS: usize = 256;
/// Interval of access checks of a connected client.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Size of the read and write buffers, in bytes.
const BUFFER_SIZE: usize = 8 << 10;

/// Code and reason of a close frame.
type Goodbye = (CloseCode, &'static str);

/// The channel, as a connection sees it.
pub(crate) struct ConnectionContext {
    pub(crate) channel: ChannelName,
    pub(crate) config: Arc<WebSocketConfig>,
    pub(crate) hub: Hub,
    pub(crate) access: Arc<dyn Access>,
    pub(crate) intake: Arc<dyn Intake>,
    pub(crate) cancel: CancellationToken,
    /// Free places for clients with a valid token.
    pub(crate) clients: Arc<Semaphore>,
    /// Wrong tokens by address.
    pub(crate) penalties: Arc<Penalties>,
}

impl ConnectionContext {
    /// Serves a client until either side ends the connection. The seat is for the handshake; after
    /// it the client has a place of its own.
    pub(crate) async fn serve(self, stream: TcpStream, seat: Seat) {
        let opening =
            tokio::time::timeout(HANDSHAKE_TIMEOUT, self.handshake(stream, seat.address()));
        let opened = tokio::select! {
            () = self.cancel.cancelled() => return,
            () = seat.evicted() => return,
            opened = opening => opened,
        };
        drop(seat);
        let OpenedClient {
            socket,
            guest,
            place,
        } = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                tracing::debug!(channel = %self.channel, %error, "a WebSocket client was turned away");
                return;
            }
            Err(_) => return,
        };
        let (peer, frames) = Peer::new(self.cancel.clone());
        let sender = SenderId::from(guest.client_id.as_str());
        let chats = BTreeSet::from([guest.chat_id.clone()]);
        ClientConnection {
            host: self,
            socket,
            guest,
            sender,
            peer,
            chats,
            last_activity: Instant::now(),
        }
        .serve(frames)
        .await;
        drop(place);
    }

    async fn handshake(&self, stream: TcpStream, address: IpAddr) -> Result<OpenedClient, Error> {
        tokio::time::sleep(self.penalties.delay(address)).await;
        let mut admitted = None;
        let limits = SocketConfig::default()
            .read_buffer_size(BUFFER_SIZE)
            .write_buffer_size(BUFFER_SIZE)
            .max_message_size(Some(self.config.max_message_bytes))
            .max_frame_size(Some(self.config.max_message_bytes));
        #[expect(clippy::result_large_err, reason = "the type is the handshake's own")]
        let check = |request: &Request, response: Response| match admit(
            &self.config,
            request.uri(),
            request.headers(),
        ) {
            Ok(guest) => {
                let place = Arc::clone(&self.clients)
                    .try_acquire_owned()
                    .map_err(|_full| refusal_response(FULL))?;
                admitted = Some((guest, place));
                Ok(response)
            }
            Err(refusal) => {
                if refusal.status == StatusCode::UNAUTHORIZED {
                    self.penalties.failed(address);
                }
                Err(refusal_response(refusal))
            }
        };
        let socket = accept_hdr_async_with_config(stream, check, Some(limits)).await?;
        // The handshake cannot succeed without the check.
        let (guest, place) = admitted.ok_or(Error::ConnectionClosed)?;
        Ok(OpenedClient {
            socket,
            guest,
            place,
        })
    }
}

/// A connection after its handshake.
struct OpenedClient {
    socket: WebSocketStream<TcpStream>,
    guest: Guest,
    place: OwnedSemaphorePermit,
}

/// The refusal of a client with a valid token, but no free place.
const FULL: UpgradeRefusal = UpgradeRefusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    detail: "too many clients are connected: try again later",
};

/// Converts a refusal to an HTTP response.
fn refusal_response(refusal: UpgradeRefusal) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(refusal.detail.to_owned()));
    *response.status_mut() = refusal.status;
    response
}

/// An open connection.
struct ClientConnection {
    host: ConnectionContext,
    socket: WebSocketStream<TcpStream>,
    guest: Guest,
    sender: SenderId,
    peer: Peer,
    chats: BTreeSet<ChatId>,
    last_activity: Instant,
}

impl ClientConnection {
    async fn serve(mut self, frames: mpsc::Receiver<OutgoingFrame>) {
        let end = match self.accept().await {
            ControlFlow::Continue(()) => self.exchange(frames).await,
            ControlFlow::Break(end) => end,
        };
        for chat in &self.chats {
            self.host.hub.detach(chat, &self.peer);
        }
        let Some((code, reason)) = end else { return };
        let goodbye = CloseFrame {
            code,
            reason: reason.into(),
        };
        if !matches!(
            tokio::time::timeout(CLOSE_TIMEOUT, self.socket.close(Some(goodbye))).await,
            Ok(Ok(()))
        ) {
            tracing::debug!(channel = %self.host.channel, "a WebSocket client went without a goodbye");
        }
    }

    /// Checks access, and sends the first event.
    async fn accept(&mut self) -> ControlFlow<Option<Goodbye>> {
        self.check_access().await?;
        let chat_id = self.guest.chat_id.clone();
        self.host.hub.attach(&chat_id, &self.peer);
        let client_id = self.guest.client_id.clone();
        self.send_event(&ServerEvent::Ready {
            chat_id: &chat_id,
            client_id: &client_id,
        })
        .await
    }

    /// Ends the connection of a client without access, or no longer with it.
    async fn check_access(&mut self) -> ControlFlow<Option<Goodbye>> {
        let detail = match self
            .host
            .access
            .check(&self.sender, &self.guest.chat_id, &Arrival::direct())
            .await
        {
            AccessDecision::Allowed => return ControlFlow::Continue(()),
            AccessDecision::Denied => "this client_id may not talk to the assistant".to_owned(),
            AccessDecision::Ask(text) => text,
        };
        self.send_event(&ServerEvent::Error {
            detail: &detail,
            id: None,
            retry: false,
        })
        .await?;
        ControlFlow::Break(Some((CloseCode::Policy, "not allowed")))
    }

    /// Reads and writes until the connection ends.
    async fn exchange(&mut self, mut frames: mpsc::Receiver<OutgoingFrame>) -> Option<Goodbye> {
        let mut ping = tokio::time::interval(self.host.config.ping_interval());
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.reset();
        let mut access = tokio::time::interval(ACCESS_CHECK_INTERVAL);
        access.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let cancel = self.host.cancel.clone();
        loop {
            // Reading comes first, so that nothing is written after a close frame of the client.
            let step = tokio::select! {
                biased;
                () = cancel.cancelled() => return Some((CloseCode::Away, "the server goes down, or the client is too slow")),
                message = self.socket.next() => self.handle_message(message).await,
                _ = access.tick() => self.check_access().await,
                Some(outgoing) = frames.recv() => self.forward(outgoing).await,
                _ = ping.tick() => self.ping().await,
            };
            if let ControlFlow::Break(end) = step {
                return end;
            }
        }
    }

    /// Writes a frame to a client that may still receive it. Pieces of drafts are many, and rely on
    /// the check at intervals.
    async fn forward(&mut self, outgoing: OutgoingFrame) -> ControlFlow<Option<Goodbye>> {
        if outgoing.written.is_some() {
            self.check_access().await?;
        }
        self.write(Message::Text(outgoing.frame)).await?;
        if let Some(receipt) = outgoing.written {
            // The sender may be gone.
            receipt.send(()).ok();
        }
        ControlFlow::Continue(())
    }

    async fn ping(&mut self) -> ControlFlow<Option<Goodbye>> {
        if self.last_activity.elapsed() >= self.host.config.silence() {
            return ControlFlow::Break(None);
        }
        self.write(Message::Ping(Bytes::new())).await
    }

    async fn handle_message(
        &mut self,
        message: Option<Result<Message, Error>>,
    ) -> ControlFlow<Option<Goodbye>> {
        self.last_activity = Instant::now();
        match message {
            Some(Ok(Message::Text(text))) => self.handle_frame(&text).await,
            Some(Ok(Message::Binary(_))) => {
                ControlFlow::Break(Some((CloseCode::Unsupported, "text frames only")))
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                ControlFlow::Continue(())
            }
            Some(Err(Error::Capacity(_))) => {
                ControlFlow::Break(Some((CloseCode::Size, "larger than maxMessageBytes")))
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => ControlFlow::Break(None),
        }
    }

    /// Handles a text frame.
    async fn handle_frame(&mut self, text: &str) -> ControlFlow<Option<Goodbye>> {
        match ClientFrame::parse(text) {
            Err(detail) => {
                self.send_event(&ServerEvent::Error {
                    detail: &detail,
                    id: None,
                    retry: false,
                })
                .await
            }
            Ok(ClientFrame::NewChat) => self.attach(new_chat()).await,
            Ok(ClientFrame::Attach { chat_id }) => self.attach(chat_id).await,
            Ok(ClientFrame::Message {
                chat_id,
                id,
                content,
            }) => {
                let chat_id = chat_id.unwrap_or_else(|| self.guest.chat_id.clone());
                self.deliver(chat_id, id, content).await
            }
        }
    }

    async fn attach(&mut self, chat_id: ChatId) -> ControlFlow<Option<Goodbye>> {
        if !self.join_chat(&chat_id) {
            let detail =
                format!("a connection receives at most {MAX_CHATS} chats: open another one");
            return self
                .send_event(&ServerEvent::Error {
                    detail: &detail,
                    id: None,
                    retry: false,
                })
                .await;
        }
        self.send_event(&ServerEvent::Attached { chat_id: &chat_id })
            .await
    }

    /// Adds a chat to the connection. `false` if it has too many.
    fn join_chat(&mut self, chat_id: &ChatId) -> bool {
        if self.chats.contains(chat_id) {
            return true;
        }
        let has_room = self.chats.len() < MAX_CHATS;
        if has_room {
            self.host.hub.attach(chat_id, &self.peer);
            self.chats.insert(chat_id.clone());
        }
        has_room
    }

    /// Delivers a message, and sends the outcome to the client.
    async fn deliver(
        &mut self,
        chat_id: ChatId,
        id: Option<MessageId>,
        content: String,
    ) -> ControlFlow<Option<Goodbye>> {
        if !self.join_chat(&chat_id) {
            return self.attach(chat_id).await;
        }
        let (channel, sender) = (self.host.channel.clone(), self.sender.clone());
        let mut message = InboundMessage::text(channel, sender, chat_id.clone(), content);
        message.id.clone_from(&id);
        message.delivery.reply_to.clone_from(&id);
        let arrival = Arrival::direct();
        let delivery = self.host.intake.deliver(message, &arrival);
        // Without an acknowledgement the client sends the message again, so stopping waits for
        // none.
        let admission = self
            .host
            .cancel
            .run_until_cancelled(delivery)
            .await
            .unwrap_or(Admission::ShuttingDown);
        let (detail, retry) = match admission {
            Admission::Accepted | Admission::Duplicate => {
                let Some(id) = id else {
                    return ControlFlow::Continue(());
                };
                return self
                    .send_event(&ServerEvent::Ack {
                        chat_id: &chat_id,
                        id: &id,
                    })
                    .await;
            }
            Admission::NotAllowed => ("this client_id may not talk to the assistant", false),
            Admission::TryLater => ("the message could not be stored: send it again later", true),
            Admission::ShuttingDown => {
                ("the server goes down: send it again when it is back", true)
            }
        };
        self.send_event(&ServerEvent::Error {
            detail,
            id: id.as_ref(),
            retry,
        })
        .await
    }

    async fn send_event(&mut self, event: &ServerEvent<'_>) -> ControlFlow<Option<Goodbye>> {
        self.write(Message::text(event.to_frame())).await
    }

    async fn write(&mut self, message: Message) -> ControlFlow<Option<Goodbye>> {
        let cancel = self.host.cancel.clone();
        let stopped = async {
            cancel.cancelled().await;
            tokio::time::sleep(CLOSE_TIMEOUT).await;
        };
        let channel = &self.host.channel;
        tokio::select! {
            sent = self.socket.send(message) => match sent {
                Ok(()) => return ControlFlow::Continue(()),
                Err(error) => tracing::debug!(%channel, %error, "a WebSocket client is gone"),
            },
            () = tokio::time::sleep(WRITE_TIMEOUT) => {
                tracing::warn!(%channel, "a WebSocket client takes nothing and is disconnected");
            }
            () = stopped => {}
        }
        ControlFlow::Break(None)
    }
}
