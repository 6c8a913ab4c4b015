//! The gateway: accepted streams, frames and transport faults.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_testkit::{TestkitError, Watched, accept_connections, ignore_until_end};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{Out, SocketConnection, Subscription};
use crate::fault::Fault;
use crate::handshake::greet;
use crate::state::DingTalkState;

/// Listens for connections until `stop` fires.
pub(crate) async fn listen(
    state: Watched<DingTalkState>,
    stop: CancellationToken,
    tasks: &TaskTracker,
) -> Result<SocketAddr, TestkitError> {
    let serve = move |stream| serve(state.clone(), stream);
    accept_connections(stop, tasks, serve).await
}

async fn serve(state: Watched<DingTalkState>, stream: TcpStream) {
    if state.read(|state| state.is_down) {
        return;
    }
    let fault = state.change(|state| state.calls.fault("socket"));
    match fault {
        Some(Fault::Drop) => return,
        Some(Fault::Hang) => return ignore_until_end(&stream).await,
        _ => {}
    }
    let Some((socket, subscriptions)) = greet(&state, stream, fault).await else {
        return;
    };
    let number = state.change(|state| state.add_connection(subscriptions));
    talk(&state, number, socket).await;
    state.change(|state| state.remove_connection(number));
}

impl DingTalkState {
    fn add_connection(&mut self, subscriptions: Vec<Subscription>) -> usize {
        self.connected += 1;
        let number = self.connected;
        let open = SocketConnection {
            subscriptions,
            ..SocketConnection::default()
        };
        self.connections.insert(number, open);
        if self.announces_connections {
            for topic in ["CONNECTED", "REGISTERED"] {
                self.send_system_to(number, topic, &json!({}));
            }
        }
        self.dispatch();
        number
    }
}

/// Returns the next task of a connection. While everything is stalled, it can only be cut.
fn next_out(state: &Watched<DingTalkState>, number: usize) -> Option<Out> {
    let waits = |state: &DingTalkState| {
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

async fn talk(
    state: &Watched<DingTalkState>,
    number: usize,
    mut socket: WebSocketStream<TcpStream>,
) {
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
        let overdue = async {
            match deadline {
                Some(deadline) if !is_stalled => tokio::time::sleep_until(deadline).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = changed.changed() => {}
            () = overdue => state.change(DingTalkState::expire_deliveries),
            frame = socket.next(), if !is_stalled => match frame {
                Some(Ok(Message::Text(text))) => {
                    state.change(|state| state.handle_frame(number, &text));
                }
                Some(Ok(Message::Binary(_))) => {
                    state.change(|state| state.complain("a binary frame"));
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

    use tokio_tungstenite::connect_async;
    use tokio_tungstenite::tungstenite::Error;

    use super::*;
    use crate::account::{CLIENT_ID, CLIENT_SECRET, MESSAGE_TOPIC};
    use crate::fake::DingTalkFake;
    use crate::params::Params;

    fn url(fake: &DingTalkFake) -> String {
        let mut params = Params::default();
        let body = [
            ("clientId", json!(CLIENT_ID)),
            ("clientSecret", json!(CLIENT_SECRET)),
            (
                "subscriptions",
                json!([{"type": "CALLBACK", "topic": MESSAGE_TOPIC}]),
            ),
        ];
        params
            .body
            .extend(body.map(|(key, value)| (key.to_owned(), value)));
        let offer = fake
            .state
            .change(|state| state.offer_connection(&params))
            .unwrap();
        let ticket = offer["ticket"].as_str().unwrap();
        let ticket: String = url::form_urlencoded::byte_serialize(ticket.as_bytes()).collect();
        format!("{}?ticket={ticket}", offer["endpoint"].as_str().unwrap())
    }

    /// Returns the status of a refused handshake.
    async fn refusal(url: &str) -> u16 {
        let Err(Error::Http(response)) = connect_async(url).await else {
            panic!("not refused");
        };
        response.status().as_u16()
    }

    #[tokio::test]
    async fn ticket_is_good_for_one_connection_and_a_short_time() {
        let fake = DingTalkFake::start().await.unwrap();
        let url = url(&fake);
        let _open = connect_async(&url).await.unwrap();
        fake.wait_for_open_connections(1).await.unwrap();
        assert_eq!(refusal(&url).await, 401);
        fake.fail_next("socket", Fault::Status(502));
        assert_eq!(refusal(&self::url(&fake)).await, 502);
        let late = self::url(&fake);
        fake.advance(Duration::from_secs(90));
        assert_eq!(refusal(&late).await, 401);
    }

    #[tokio::test]
    async fn stalled_connection_gets_its_frames_later() {
        let fake = DingTalkFake::start().await.unwrap();
        let (mut socket, _) = connect_async(url(&fake)).await.unwrap();
        fake.wait_for_open_connections(1).await.unwrap();
        fake.stall();
        let pushed = fake.push_payload("{}");
        fake.push_text_frame("late");
        fake.recover();
        let frame = socket.next().await.unwrap().unwrap();
        assert!(frame.to_text().unwrap().contains("CALLBACK"), "{frame:?}");
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("late"));
        assert_eq!(fake.deliveries(&pushed), 1);
    }

    #[tokio::test]
    async fn connections_end_in_several_ways() {
        let fake = DingTalkFake::start().await.unwrap();
        let ends: [fn(&DingTalkFake); 3] = [
            DingTalkFake::cut,
            DingTalkFake::close,
            DingTalkFake::revoke_credentials,
        ];
        for (index, end) in ends.into_iter().enumerate() {
            let (mut socket, _) = connect_async(url(&fake)).await.unwrap();
            fake.wait_for_connections(index + 1).await.unwrap();
            end(&fake);
            let last = socket.next().await;
            let is_closed = matches!(last, Some(Ok(Message::Close(_))));
            assert_eq!(is_closed, index > 0, "{last:?}");
            drop(socket);
            fake.wait_for_open_connections(0).await.unwrap();
        }
        fake.restore_credentials();
        let next = url(&fake);
        fake.go_down().await.unwrap();
        assert!(connect_async(&next).await.is_err());
        fake.come_back().await.unwrap();
        assert!(connect_async(&next).await.is_ok());
    }

    #[tokio::test]
    async fn disconnected_client_gets_nothing_more() {
        let fake = DingTalkFake::start().await.unwrap();
        let (mut old, _) = connect_async(url(&fake)).await.unwrap();
        fake.wait_for_open_connections(1).await.unwrap();
        fake.disconnect();
        let frame = old.next().await.unwrap().unwrap();
        assert!(frame.to_text().unwrap().contains("disconnect"), "{frame:?}");
        let pushed = fake.push_payload("{}");
        assert_eq!(fake.deliveries(&pushed), 0);
        let (_new, _) = connect_async(url(&fake)).await.unwrap();
        fake.wait_for_deliveries(&pushed, 1).await.unwrap();
        assert_eq!(fake.open_connections(), 2);
    }
}
