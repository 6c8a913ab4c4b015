//! The long connection: accepted streams, frames and transport faults.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_testkit::{TestkitError, Watched, accept_connections, ignore_until_end};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{Out, SocketConnection};
use crate::fault::Fault;
use crate::handshake::greet;
use crate::state::FeishuState;

/// Listens for connections until `stop` fires.
pub(crate) async fn listen(
    state: Watched<FeishuState>,
    stop: CancellationToken,
    tasks: &TaskTracker,
) -> Result<SocketAddr, TestkitError> {
    let serve = move |stream| serve(state.clone(), stream);
    accept_connections(stop, tasks, serve).await
}

async fn serve(state: Watched<FeishuState>, stream: TcpStream) {
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
    let number = state.change(|state| {
        state.connected += 1;
        let number = state.connected;
        state
            .connections
            .insert(number, SocketConnection::default());
        state.dispatch();
        number
    });
    talk(&state, number, socket).await;
    state.change(|state| state.remove_connection(number));
}

/// Returns the next task of a connection. While everything is stalled, it can only be cut.
fn next_out(state: &Watched<FeishuState>, number: usize) -> Option<Out> {
    let waits = |state: &FeishuState| {
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

async fn talk(state: &Watched<FeishuState>, number: usize, mut socket: WebSocketStream<TcpStream>) {
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
            () = overdue => state.change(FeishuState::expire_deliveries),
            frame = socket.next(), if !is_stalled => match frame {
                Some(Ok(Message::Binary(bytes))) => {
                    state.change(|state| state.handle_frame(number, &bytes));
                }
                Some(Ok(Message::Text(text))) => state.change(|state| {
                    state.complaints.push(format!("long connection: a text frame: {text}"));
                }),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio_tungstenite::connect_async;
    use tokio_tungstenite::tungstenite::Error;

    use super::*;
    use crate::account::{APP_ID, APP_SECRET};
    use crate::fake::FeishuFake;
    use crate::handler::Outcome;
    use crate::params::Params;

    fn url(fake: &FeishuFake) -> String {
        let mut params = Params::default();
        let credentials = [("AppID", APP_ID), ("AppSecret", APP_SECRET)];
        for (key, value) in credentials {
            params.body.insert(key.to_owned(), json!(value));
        }
        let Ok(Outcome::Whole(answer)) = fake.state.change(|state| state.offer_connection(&params))
        else {
            panic!("no URL");
        };
        answer["data"]["URL"].as_str().unwrap().to_owned()
    }

    /// Returns the status of a refused handshake, and the values of its headers.
    async fn refusal(url: &str) -> (u16, [Option<String>; 2]) {
        let Err(Error::Http(response)) = connect_async(url).await else {
            panic!("not refused");
        };
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let values = [header("handshake-status"), header("handshake-autherrcode")];
        (response.status().as_u16(), values)
    }

    #[tokio::test]
    async fn url_is_good_for_one_connection() {
        let fake = FeishuFake::start().await.unwrap();
        let url = url(&fake);
        let _open = connect_async(&url).await.unwrap();
        fake.wait_for_open_connections(1).await.unwrap();
        let codes = |auth: &str| [Some("514".to_owned()), Some(auth.to_owned())];
        assert_eq!(refusal(&url).await, (400, codes("1000040351")));
        fake.limit_connections(1);
        assert_eq!(refusal(&self::url(&fake)).await, (400, codes("1000040350")));
        fake.fail_next("socket", Fault::Status(502));
        assert_eq!(refusal(&self::url(&fake)).await, (502, [None, None]));
    }

    #[tokio::test]
    async fn stalled_connection_gets_its_frames_later() {
        let fake = FeishuFake::start().await.unwrap();
        let (mut socket, _) = connect_async(url(&fake)).await.unwrap();
        fake.wait_for_open_connections(1).await.unwrap();
        fake.stall();
        let pushed = fake.push_payload("{}");
        fake.push_text_frame("late");
        fake.recover();
        let event = socket.next().await.unwrap().unwrap();
        assert!(event.is_binary(), "{event:?}");
        let frame = socket.next().await.unwrap().unwrap();
        assert_eq!(frame, Message::text("late"));
        assert_eq!(fake.deliveries(&pushed), 1);
    }

    #[tokio::test]
    async fn connections_end_in_several_ways() {
        let fake = FeishuFake::start().await.unwrap();
        let ends: [fn(&FeishuFake); 3] = [
            FeishuFake::cut,
            FeishuFake::close,
            FeishuFake::revoke_credentials,
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
}
