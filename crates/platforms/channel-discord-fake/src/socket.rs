//! The gateway: WebSocket connections of the sessions.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_testkit::{TestkitError, WAIT_LIMIT, Watched, accept_connections};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::account::TOKEN;
use crate::order::Order;
use crate::session::{ALL_INTENTS, MESSAGE_CONTENT};
use crate::state::DiscordState;

/// Extra time that a client gets after two heartbeat intervals, for busy machines.
const GRACE: Duration = WAIT_LIMIT;
const IDENTIFY_FIELDS: &[&str] = &[
    "token",
    "properties",
    "compress",
    "large_threshold",
    "shard",
    "presence",
    "intents",
    "capabilities",
];
const CLIENT_FIELDS: &[&str] = &["op", "d", "s", "t"];

/// The running gateway; it stops when dropped.
pub(crate) struct GatewayServer {
    address: SocketAddr,
    stop: CancellationToken,
}

impl fmt::Debug for GatewayServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for GatewayServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl GatewayServer {
    pub(crate) async fn start(state: Watched<DiscordState>) -> Result<Self, TestkitError> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let serve = move |stream| connect(stream, state.clone());
        let address = accept_connections(stop.clone(), &tasks, serve).await?;
        Ok(Self { address, stop })
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }
}

/// Reason why a connection ended.
enum ConnectionEnd {
    /// The client left, or sending failed.
    Gone,
    /// The test ordered a close with this code.
    Close(u16),
    /// The client broke a rule; closed with this code.
    Complaint(u16, String),
    /// Closed without a close frame.
    HangUp,
}

/// Waits while the platform is silent. Returns an error if the connection is cut.
async fn wait_out_the_silence(
    state: &Watched<DiscordState>,
    cuts: usize,
) -> Result<(), ConnectionEnd> {
    let heard = |state: &DiscordState| {
        if state.is_down || state.cuts != cuts {
            return Some(Err(ConnectionEnd::HangUp));
        }
        (!state.is_silent).then_some(Ok(()))
    };
    state
        .wait_for("the end of the silence", heard)
        .await
        .unwrap_or(Err(ConnectionEnd::HangUp))
}

struct GatewayConnection {
    socket: WebSocketStream<TcpStream>,
    state: Watched<DiscordState>,
    id: usize,
    session: Option<String>,
    is_resuming_place: bool,
    /// Number of the last event that was sent.
    sent: u64,
    is_stalled: bool,
    /// Set once the client was asked to leave: later orders are for the next connection.
    is_dismissed: bool,
    last_beat: Instant,
    interval: Duration,
    /// Number of cuts before this connection began.
    cuts: usize,
}

async fn connect(stream: TcpStream, state: Watched<DiscordState>) {
    let (id, cuts, is_refused) = state.change(|state| {
        state.connections += 1;
        let is_refused = state.is_down || state.refuse_connections > 0;
        state.refuse_connections = state.refuse_connections.saturating_sub(1);
        (state.connections, state.cuts, is_refused)
    });
    if is_refused || wait_out_the_silence(&state, cuts).await.is_err() {
        return;
    }
    let mut place = String::new();
    #[expect(clippy::result_large_err, reason = "the library's signature")]
    let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        place = request.uri().to_string();
        Ok(response)
    };
    let Ok(socket) = accept_hdr_async(stream, look).await else {
        return;
    };
    let interval = Duration::from_millis(state.read(|state| state.heartbeat_interval));
    let mut connection = GatewayConnection {
        socket,
        state,
        id,
        session: None,
        is_resuming_place: place.starts_with("/resume"),
        sent: 0,
        is_stalled: false,
        is_dismissed: false,
        last_beat: Instant::now(),
        interval,
        cuts,
    };
    let speaks = place.contains("v=10") && place.contains("encoding=json");
    let end = if speaks {
        connection.run().await
    } else {
        ConnectionEnd::Complaint(4012, format!("the address {place}"))
    };
    connection.close(end).await;
}

impl GatewayConnection {
    async fn run(&mut self) -> ConnectionEnd {
        let milliseconds = self.interval.as_millis();
        if let Err(end) = self
            .send(&json!({"op": 10, "s": null, "t": null, "d": {"heartbeat_interval": milliseconds, "_trace": []}}))
            .await
        {
            return end;
        }
        let mut changed = self.state.subscribe();
        loop {
            if let Err(end) = self.catch_up().await {
                return end;
            }
            let late = self.last_beat + self.interval * 2 + GRACE;
            let taken = tokio::select! {
                changed = changed.changed() => changed.map_err(|_gone| ConnectionEnd::Gone),
                frame = self.socket.next() => self.take(frame).await,
                () = tokio::time::sleep_until(late) => Err(ConnectionEnd::Complaint(4009, "no heartbeat".to_owned())),
            };
            if let Err(end) = taken {
                return end;
            }
        }
    }

    /// Carries out the orders of tests and sends the pending events.
    async fn catch_up(&mut self) -> Result<(), ConnectionEnd> {
        wait_out_the_silence(&self.state, self.cuts).await?;
        let Some(session) = self.session.clone() else {
            return Ok(());
        };
        let orders = self.state.read(|state| state.orders.len());
        if orders > 0 && !self.is_stalled && !self.is_dismissed {
            let order = self.state.change(|state| state.orders.pop_front());
            if let Some(order) = order {
                self.apply_order(order).await?;
            }
        }
        while !self.is_stalled {
            let (id, sent) = (self.id, self.sent);
            let next = self.state.change_quietly(|state| {
                let session = state
                    .session(&session)
                    .filter(|session| session.connection == Some(id))?;
                session.after(sent).cloned()
            });
            let Some(event) = next else { break };
            self.sent += 1;
            self.send(&event).await?;
        }
        Ok(())
    }

    async fn apply_order(&mut self, order: Order) -> Result<(), ConnectionEnd> {
        self.is_dismissed = matches!(order, Order::Reconnect | Order::Invalidate { .. });
        match order {
            Order::Reconnect => {
                self.send(&json!({"op": 7, "s": null, "t": null, "d": null}))
                    .await
            }
            Order::Invalidate { resumable } => {
                if !resumable {
                    self.forget_session();
                }
                self.send(&json!({"op": 9, "s": null, "t": null, "d": resumable}))
                    .await
            }
            Order::Close(code) => Err(ConnectionEnd::Close(code)),
            Order::HangUp => Err(ConnectionEnd::HangUp),
            Order::Stall => {
                self.is_stalled = true;
                Ok(())
            }
            Order::AskForHeartbeat => {
                self.send(&json!({"op": 1, "s": null, "t": null, "d": null}))
                    .await
            }
            Order::Raw(text) => self
                .socket
                .send(Message::text(text))
                .await
                .map_err(|_gone| ConnectionEnd::Gone),
            Order::Repeat { after } => {
                self.sent = self.sent.min(after);
                Ok(())
            }
        }
    }

    fn forget_session(&mut self) {
        let session = self.session.clone();
        self.state.change(|state| {
            state
                .sessions
                .retain(|known| Some(&known.id) != session.as_ref());
        });
    }

    async fn take(
        &mut self,
        frame: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) -> Result<(), ConnectionEnd> {
        let text = match frame {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(ConnectionEnd::Gone),
            Some(Ok(_)) => return Ok(()),
        };
        let Ok(frame) = serde_json::from_str::<Value>(text.as_str()) else {
            return Err(ConnectionEnd::Complaint(
                4002,
                "a frame that is no JSON".to_owned(),
            ));
        };
        if let Some(field) = crate::sending::unknown_field(&frame, CLIENT_FIELDS) {
            return Err(ConnectionEnd::Complaint(
                4002,
                format!("a frame with {field}"),
            ));
        }
        let content = frame.get("d").cloned().unwrap_or_default();
        match frame.get("op").and_then(Value::as_u64) {
            Some(1) => self.beat(&content).await,
            Some(2) if self.session.is_none() => self.identify(&content),
            Some(6) if self.session.is_none() => self.resume(&content).await,
            Some(2 | 6) => Err(ConnectionEnd::Complaint(
                4005,
                "identified twice".to_owned(),
            )),
            Some(3 | 4 | 8) if self.session.is_some() => Ok(()),
            Some(3 | 4 | 8) => Err(ConnectionEnd::Complaint(4003, "not identified".to_owned())),
            other => Err(ConnectionEnd::Complaint(4001, format!("op {other:?}"))),
        }
    }

    async fn beat(&mut self, content: &Value) -> Result<(), ConnectionEnd> {
        self.last_beat = Instant::now();
        if let (Some(number), Some(session)) = (content.as_u64(), self.session.clone()) {
            let exists = self.state.change(|state| {
                state
                    .session(&session)
                    .is_none_or(|known| known.confirm(number))
            });
            if !exists {
                return Err(ConnectionEnd::Complaint(
                    4007,
                    format!("a heartbeat names event {number}, which never was"),
                ));
            }
        }
        if self.is_stalled {
            Ok(())
        } else {
            self.send(&json!({"op": 11, "s": null, "t": null, "d": null}))
                .await
        }
    }

    fn identify(&mut self, content: &Value) -> Result<(), ConnectionEnd> {
        self.check_token(content)?;
        if let Some(field) = crate::sending::unknown_field(content, IDENTIFY_FIELDS) {
            return Err(ConnectionEnd::Complaint(
                4002,
                format!("identified with {field}"),
            ));
        }
        let properties = content.get("properties");
        if !["os", "browser", "device"]
            .iter()
            .all(|key| properties.is_some_and(|known| known.get(key).is_some()))
        {
            return Err(ConnectionEnd::Complaint(
                4002,
                "identified without properties".to_owned(),
            ));
        }
        let intents = content
            .get("intents")
            .and_then(Value::as_u64)
            .filter(|intents| intents & !ALL_INTENTS == 0);
        let Some(intents) = intents else {
            return Err(ConnectionEnd::Close(4013));
        };
        if intents & MESSAGE_CONTENT != 0 && self.state.read(|state| state.is_content_disallowed) {
            return Err(ConnectionEnd::Close(4014));
        }
        let id = self.id;
        self.session = Some(self.state.change(|state| state.begin_session(id, intents)));
        Ok(())
    }

    async fn resume(&mut self, content: &Value) -> Result<(), ConnectionEnd> {
        self.check_token(content)?;
        let id = content
            .get("session_id")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let Some(number) = content.get("seq").and_then(Value::as_u64) else {
            return Err(ConnectionEnd::Complaint(
                4002,
                "resumed without a number".to_owned(),
            ));
        };
        let (connection, is_elsewhere) = (self.id, !self.is_resuming_place);
        let resumed = self.state.change(|state| {
            let session = state.session(&id)?;
            let exists = session.confirm(number);
            if exists {
                session.connection = Some(connection);
                session.add("RESUMED", &json!({"_trace": []}));
                state.resumes += 1;
                state.resumes_elsewhere += usize::from(is_elsewhere);
            }
            Some(exists)
        });
        match resumed {
            Some(true) => {
                (self.session, self.sent) = (Some(id), number);
                Ok(())
            }
            Some(false) => Err(ConnectionEnd::Complaint(
                4007,
                format!("resumed behind event {number}, which never was"),
            )),
            None => {
                self.send(&json!({"op": 9, "s": null, "t": null, "d": false}))
                    .await
            }
        }
    }

    fn check_token(&self, content: &Value) -> Result<(), ConnectionEnd> {
        let is_known = content.get("token").and_then(Value::as_str) == Some(TOKEN);
        if is_known && !self.state.read(|state| state.is_revoked) {
            Ok(())
        } else {
            Err(ConnectionEnd::Close(4004))
        }
    }

    async fn send(&mut self, frame: &Value) -> Result<(), ConnectionEnd> {
        self.socket
            .send(Message::text(frame.to_string()))
            .await
            .map_err(|_gone| ConnectionEnd::Gone)
    }

    async fn close(mut self, end: ConnectionEnd) {
        let (code, reason) = match end {
            ConnectionEnd::Gone | ConnectionEnd::HangUp => return,
            ConnectionEnd::Close(code) => (code, "as ordered".to_owned()),
            ConnectionEnd::Complaint(code, reason) => {
                self.state
                    .change(|state| state.complaints.push(format!("{code}: {reason}")));
                (code, reason)
            }
        };
        let frame = CloseFrame {
            code: code.into(),
            reason: reason.into(),
        };
        // The client may have left already.
        drop(self.socket.close(Some(frame)).await);
    }
}
