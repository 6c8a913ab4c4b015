//! The gateway: accepted streams, frames and transport faults.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_testkit::{TestkitError, WAIT_LIMIT, Watched, accept_connections, ignore_until_end};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{Out, SocketConnection};
use crate::fault::Fault;
use crate::state::QqState;

/// The path of the gateway.
pub(crate) const PATH: &str = "/websocket";

/// Listens for connections until `stop` fires.
pub(crate) async fn listen(
    state: Watched<QqState>,
    stop: CancellationToken,
    tasks: &TaskTracker,
) -> Result<SocketAddr, TestkitError> {
    accept_connections(stop, tasks, move |stream| serve(state.clone(), stream)).await
}

async fn serve(state: Watched<QqState>, stream: TcpStream) {
    if state.read(|state| state.is_down) {
        return;
    }
    let fault = state.change(|state| state.calls.fault("socket"));
    match fault {
        Some(Fault::Drop) => return,
        Some(Fault::Hang) => return ignore_until_end(&stream).await,
        _ => {}
    }
    let Some(socket) = greet(stream, fault).await else {
        return;
    };
    let number = state.change(QqState::add_connection);
    talk(&state, number, socket).await;
    state.change(|state| state.remove_connection(number));
}

async fn greet(stream: TcpStream, fault: Option<Fault>) -> Option<WebSocketStream<TcpStream>> {
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is tungstenite's"
    )]
    let check = |request: &Request, response: Response| match fault {
        Some(Fault::Status(status)) => Err(refusal(status)),
        _ if request.uri().path().trim_end_matches('/') != PATH => Err(refusal(404)),
        _ => Ok(response),
    };
    tokio_tungstenite::accept_hdr_async(stream, check)
        .await
        .ok()
}

fn refusal(status: u16) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some("<html>A page</html>".to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
}

impl QqState {
    /// Adds a connection, and greets it with the interval of heartbeats.
    pub(crate) fn add_connection(&mut self) -> usize {
        self.connected += 1;
        let number = self.connected;
        self.connections.insert(number, SocketConnection::new());
        let interval = u64::try_from(self.rules.heartbeat.as_millis()).unwrap_or(u64::MAX);
        let hello = json!({"op": 10, "d": {"heartbeat_interval": interval}});
        self.send_frame(number, &hello);
        number
    }

    /// Returns the time at which a connection without a heartbeat is closed.
    fn deadline(&self, number: usize) -> Option<Instant> {
        let open = self.connections.get(&number)?;
        // The extra time is for busy machines.
        Some(open.last_beat + self.rules.heartbeat * 2 + WAIT_LIMIT)
    }
}

/// Returns the next task of a connection. While everything is stalled, it can only be cut.
fn next_out(state: &Watched<QqState>, number: usize) -> Option<Out> {
    let waits = |state: &QqState| {
        let outbox = state.connections.get(&number).map(|open| &open.outbox);
        outbox.is_some_and(|outbox| {
            !outbox.is_empty() && (!state.is_stalled || outbox.contains(&Out::Drop))
        })
    };
    if !state.read(waits) {
        return None;
    }
    state.change_quietly(|state| {
        let is_stalled = state.is_stalled;
        let open = state.connections.get_mut(&number)?;
        if is_stalled {
            Some(Out::Drop)
        } else {
            open.outbox.pop_front()
        }
    })
}

async fn talk(state: &Watched<QqState>, number: usize, mut socket: WebSocketStream<TcpStream>) {
    let mut changed = state.subscribe();
    loop {
        if let Some(out) = next_out(state, number) {
            let Some(frame) = message(out) else { return };
            if socket.send(frame).await.is_err() {
                return;
            }
            continue;
        }
        let (is_stalled, deadline) = state.read(|state| (state.is_stalled, state.deadline(number)));
        let overdue = async {
            match deadline {
                Some(deadline) if !is_stalled => tokio::time::sleep_until(deadline).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = changed.changed() => {}
            () = overdue => {
                state.change(|state| state.miss_heartbeat(number));
            }
            frame = socket.next(), if !is_stalled => match frame {
                Some(Ok(Message::Text(text))) => {
                    state.change(|state| state.handle_frame(number, &text));
                }
                Some(Ok(Message::Binary(_))) => {
                    state.change(|state| state.complain("a binary frame"));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

/// Returns the message of a task; `None` for the end of the connection.
fn message(out: Out) -> Option<Message> {
    match out {
        Out::Binary(bytes) => Some(Message::binary(bytes)),
        Out::Text(text) => Some(Message::text(text)),
        Out::Ping => Some(Message::Ping("are you there".into())),
        Out::Close(code) => Some(Message::Close(Some(CloseFrame {
            code: code.into(),
            reason: "".into(),
        }))),
        Out::Drop => None,
    }
}

impl QqState {
    /// Closes a connection without a heartbeat; one that does not even close is cut.
    fn miss_heartbeat(&mut self, number: usize) {
        let Some(open) = self.connections.get_mut(&number) else {
            return;
        };
        if open.is_leaving {
            open.outbox.push_back(Out::Drop);
            return;
        }
        open.last_beat = Instant::now();
        self.complain("no heartbeat");
        self.close_with(number, 4009);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;
    use tokio_tungstenite::tungstenite::Error;
    use tokio_tungstenite::{MaybeTlsStream, connect_async};

    use super::*;
    use crate::account::GROUP_AND_C2C;
    use crate::fake::QqFake;
    use crate::incoming::Incoming;
    use crate::probe::{ann, token_of};

    type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

    fn url(fake: &QqFake) -> String {
        fake.state.read(|state| state.socket.clone())
    }

    async fn receive(socket: &mut Socket) -> Value {
        let frame = socket.next().await.unwrap().unwrap();
        serde_json::from_str(frame.to_text().unwrap()).unwrap()
    }

    /// Connects, and identifies.
    async fn connect(fake: &QqFake) -> Socket {
        let (mut socket, _) = connect_async(url(fake)).await.unwrap();
        assert_eq!(
            receive(&mut socket).await["d"]["heartbeat_interval"],
            41_250
        );
        let token = format!("QQBot {}", fake.state.change(token_of));
        let identify = json!({"op": 2, "d": {"token": token, "intents": GROUP_AND_C2C}});
        let frame = Message::text(identify.to_string());
        socket.send(frame).await.unwrap();
        assert_eq!(receive(&mut socket).await["t"], "READY");
        socket
    }

    #[tokio::test]
    async fn handshakes_can_fail() {
        let fake = QqFake::start().await.unwrap();
        fake.fail_next("socket", Fault::Status(502));
        fake.fail_next("socket", Fault::Drop);
        for (path, status) in [("", Some(502)), ("", None), ("/other", Some(404))] {
            let refused = connect_async(format!("{}{path}", url(&fake))).await;
            let found = match refused {
                Err(Error::Http(response)) => Some(response.status().as_u16()),
                Err(_) => None,
                Ok(_) => panic!("not refused"),
            };
            assert_eq!(found, status);
        }
        assert_eq!(fake.connections(), 0);
    }

    #[tokio::test]
    async fn connections_end_in_several_ways() {
        let fake = QqFake::start().await.unwrap();
        let ends: [fn(&QqFake); 3] = [
            QqFake::cut,
            |fake| fake.close_with(4009),
            QqFake::revoke_credentials,
        ];
        let codes = [None, Some(4009), Some(4004)];
        for (index, (end, code)) in ends.into_iter().zip(codes).enumerate() {
            let mut socket = connect(&fake).await;
            assert_eq!(fake.identifies(), index + 1);
            end(&fake);
            let last = match socket.next().await {
                Some(Ok(Message::Close(Some(frame)))) => Some(u16::from(frame.code)),
                _ => None,
            };
            assert_eq!(last, code);
            drop(socket);
            fake.wait_for_open_connections(0).await.unwrap();
        }
        fake.restore_credentials();
        fake.go_down().await.unwrap();
        assert!(connect_async(url(&fake)).await.is_err());
        fake.come_back().await.unwrap();
        connect(&fake).await;
        assert_eq!(fake.complaints(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn asked_clients_get_nothing_more() {
        let fake = QqFake::start().await.unwrap();
        let mut socket = connect(&fake).await;
        fake.ask_for_heartbeat();
        assert_eq!(receive(&mut socket).await, json!({"op": 1}));
        fake.reconnect();
        assert_eq!(receive(&mut socket).await, json!({"op": 7}));
        let pushed = fake.push(Incoming::direct(&ann(), "later"));
        assert_eq!(fake.deliveries(&pushed), 0);
        let mut second = connect(&fake).await;
        fake.invalidate(false);
        assert_eq!(receive(&mut second).await, json!({"op": 9, "d": false}));
        assert_eq!(fake.open_connections(), 2);
        assert_eq!(fake.state.read(|state| state.sessions.len()), 0);
    }

    #[tokio::test]
    async fn stalled_connection_gets_its_frames_later() {
        let fake = QqFake::start().await.unwrap();
        let mut socket = connect(&fake).await;
        fake.stall();
        let pushed = fake.push(Incoming::direct(&ann(), "hi"));
        fake.push_text_frame("\"late\"");
        fake.recover();
        assert_eq!(receive(&mut socket).await["d"]["content"], "hi");
        assert_eq!(receive(&mut socket).await, json!("late"));
        fake.repeat(&pushed);
        assert_eq!(receive(&mut socket).await["d"]["content"], "hi");
        assert_eq!(fake.deliveries(&pushed), 2);
    }

    #[test]
    fn connection_without_heartbeats_is_closed_and_then_cut() {
        let mut state = QqState::default();
        let number = state.add_connection();
        let opened = state.connections[&number].last_beat;
        let limit = Duration::from_millis(82_500) + WAIT_LIMIT;
        assert_eq!(state.deadline(number), Some(opened + limit));
        for last in [Out::Close(4009), Out::Drop] {
            state.miss_heartbeat(number);
            assert_eq!(state.connections[&number].outbox.back(), Some(&last));
        }
        assert_eq!(state.complaints, ["gateway: no heartbeat"]);
    }
}
