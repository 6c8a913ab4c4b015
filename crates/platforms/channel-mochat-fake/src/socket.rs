//! The socket: accepted streams, frames and transport faults.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_testkit::{TestkitError, Watched, accept_connections, ignore_until_end};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::Out;
use crate::fault::Fault;
use crate::handshake::greet;
use crate::state::MochatState;

/// Listens for connections until `stop` fires.
pub(crate) async fn listen(
    state: Watched<MochatState>,
    stop: CancellationToken,
    tasks: &TaskTracker,
) -> Result<SocketAddr, TestkitError> {
    let serve = move |stream| serve(state.clone(), stream);
    accept_connections(stop, tasks, serve).await
}

async fn serve(state: Watched<MochatState>, stream: TcpStream) {
    if state.read(|state| state.is_down) {
        return;
    }
    let fault = state.change(|state| state.calls.fault("socket"));
    match fault {
        Some(Fault::Drop) => return,
        Some(Fault::Hang) => return ignore_until_end(&stream).await,
        _ => {}
    }
    let Some(socket) = greet(&state, stream, fault).await else {
        return;
    };
    let number = state.change(MochatState::open_connection);
    talk(&state, number, socket).await;
    state.change(|state| state.connections.remove(&number));
}

/// Returns the next task of a connection. While everything is stalled, it can only be cut.
fn next_out(state: &Watched<MochatState>, number: usize) -> Option<Out> {
    let waits = |state: &MochatState| {
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

async fn talk(state: &Watched<MochatState>, number: usize, mut socket: WebSocketStream<TcpStream>) {
    let mut changed = state.subscribe();
    loop {
        let frame = match next_out(state, number) {
            Some(Out::Binary(bytes)) => Some(Message::binary(bytes)),
            Some(Out::Text(text)) => Some(Message::text(text)),
            Some(Out::Ping) => Some(Message::Ping("are you there".into())),
            Some(Out::Close) => Some(Message::Close(None)),
            Some(Out::Drop) => return,
            None => None,
        };
        if let Some(frame) = frame {
            if socket.send(frame).await.is_err() {
                return;
            }
            continue;
        }
        let (is_stalled, deadline) = state.read(|state| (state.is_stalled, state.deadline(number)));
        let due = async {
            match deadline {
                Some(deadline) if !is_stalled => tokio::time::sleep_until(deadline).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = changed.changed() => {}
            () = due => state.change(|state| state.tick(number)),
            frame = socket.next(), if !is_stalled => match frame {
                Some(Ok(Message::Text(text))) => {
                    state.change(|state| state.handle_text(number, &text));
                }
                Some(Ok(Message::Binary(bytes))) => {
                    state.change(|state| state.handle_binary(number, &bytes));
                }
                Some(Ok(Message::Ping(_))) => state.change(|state| state.pings += 1),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio_tungstenite::tungstenite::Error;
    use tokio_tungstenite::{MaybeTlsStream, connect_async};

    use super::*;
    use crate::account::{CLAW_TOKEN, SUBSCRIBE_SESSIONS};
    use crate::fake::MochatFake;
    use crate::model::Feed;
    use crate::packet::Serializer;
    use crate::probe::{ann, text};

    type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;
    type End = fn(&MochatFake);

    fn url(fake: &MochatFake) -> String {
        let address = fake.socket_url().replacen("http", "ws", 1);
        format!("{address}/socket.io/?EIO=4&transport=websocket")
    }

    async fn fake() -> MochatFake {
        let fake = MochatFake::start_with(Serializer::Json).await.unwrap();
        fake.add_person(&ann());
        fake.feed(Feed::Events);
        fake
    }

    async fn next(socket: &mut Client) -> String {
        let frame = socket.next().await.unwrap().unwrap();
        frame.to_text().unwrap().to_owned()
    }

    /// Connects a client that is logged in and subscribed to Ann's session.
    async fn client(fake: &MochatFake) -> Client {
        let (mut socket, _) = connect_async(url(fake)).await.unwrap();
        let open = next(&mut socket).await;
        assert!(open.starts_with("0{"), "{open}");
        let login = json!({"token": CLAW_TOKEN});
        let body = json!({"sessionIds": [ann().direct()], "cursors": {}, "limit": 10});
        let call = json!([SUBSCRIBE_SESSIONS, body]);
        for frame in [format!("40{login}"), format!("420{call}")] {
            socket.send(Message::text(frame)).await.unwrap();
        }
        for start in ["40{", "430["] {
            let frame = next(&mut socket).await;
            assert!(frame.starts_with(start), "{frame}");
        }
        socket
    }

    /// Returns the status of a refused handshake.
    async fn refusal(url: &str) -> u16 {
        let Err(Error::Http(response)) = connect_async(url).await else {
            panic!("not refused");
        };
        response.status().as_u16()
    }

    #[tokio::test]
    async fn handshake_can_be_refused() {
        let fake = fake().await;
        fake.fail_next("socket", Fault::Status(502));
        assert_eq!(refusal(&url(&fake)).await, 502);
        fake.fail_next("socket", Fault::Drop);
        assert!(connect_async(url(&fake)).await.is_err());
        assert_eq!(refusal(&url(&fake).replace("EIO=4", "EIO=3")).await, 400);
        fake.serve_socket_at("/ws");
        assert_eq!(refusal(&url(&fake)).await, 404);
        let moved = url(&fake).replace("/socket.io/", "/ws/");
        assert!(connect_async(moved).await.is_ok());
        assert_eq!(fake.complaints().len(), 2);
    }

    #[tokio::test]
    async fn stalled_connection_gets_its_events_later() {
        let fake = fake().await;
        let mut socket = client(&fake).await;
        fake.stall();
        let pushed = fake.push(text("late"));
        fake.push_text_frame("6");
        fake.recover();
        let frame = next(&mut socket).await;
        assert!(frame.contains("late"), "{frame}");
        assert_eq!(next(&mut socket).await, "6");
        assert_eq!((fake.deliveries(&pushed), fake.open_connections()), (1, 1));
    }

    #[tokio::test]
    async fn connections_end_in_several_ways() {
        let fake = fake().await;
        let ends: [(End, bool); 4] = [
            (MochatFake::cut, false),
            (|fake| fake.refuse_sockets(true), false),
            (MochatFake::close, true),
            (MochatFake::revoke_credentials, true),
        ];
        for (index, (end, is_closed)) in ends.into_iter().enumerate() {
            let mut socket = client(&fake).await;
            fake.wait_for_connections(index + 1).await.unwrap();
            end(&fake);
            let last = socket.next().await;
            let closed = matches!(last, Some(Ok(Message::Close(_))));
            assert_eq!(closed, is_closed, "{last:?}");
            drop(socket);
            fake.wait_for_open_connections(0).await.unwrap();
            fake.refuse_sockets(false);
        }
        fake.restore_credentials();
        fake.go_down().await.unwrap();
        assert!(connect_async(url(&fake)).await.is_err());
        fake.come_back().await.unwrap();
        client(&fake).await;
    }

    #[tokio::test]
    async fn disconnected_client_gets_nothing_more() {
        let fake = fake().await;
        let mut old = client(&fake).await;
        fake.disconnect();
        assert_eq!(next(&mut old).await, "41");
        let pushed = fake.push(text("x"));
        assert_eq!(fake.deliveries(&pushed), 0);
        let _new = client(&fake).await;
        assert_eq!((fake.deliveries(&pushed), fake.open_connections()), (1, 2));
    }

    #[tokio::test]
    async fn client_that_does_not_answer_pings_is_closed() {
        let fake = fake().await;
        let mut socket = client(&fake).await;
        let short = Duration::from_millis(20);
        fake.ping_every(short, short);
        let mut frames = Vec::new();
        while let Some(Ok(Message::Text(frame))) = socket.next().await {
            frames.push(frame.to_string());
        }
        assert_eq!(frames, ["2", "1"]);
        assert_eq!(fake.complaints(), ["socket: no answer to a ping in time"]);
    }

    #[tokio::test]
    async fn later_event_can_arrive_first() {
        let fake = fake().await;
        let mut socket = client(&fake).await;
        let [earlier, later] = fake.push_reversed(text("first"), text("second"));
        assert_eq!((earlier.seq, later.seq), (1, 2));
        for word in ["second", "first"] {
            let frame = next(&mut socket).await;
            assert!(frame.contains(word), "{frame}");
        }
        fake.push_event("odd", &json!({"a": 1}));
        assert_eq!(next(&mut socket).await, r#"42["odd",{"a":1}]"#);
        fake.push_packet(9, Some(3), json!({}));
        assert_eq!(next(&mut socket).await, "493{}");
    }
}
