//! The socket: tickets, handshakes, envelopes and transport faults.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_testkit::{TestkitError, Watched, accept_connections};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::model::{Out, SocketConnection};
use crate::state::SlackState;

/// Listens for sockets until `stop` fires.
pub(crate) async fn listen(
    state: Watched<SlackState>,
    stop: CancellationToken,
    tasks: &TaskTracker,
) -> Result<SocketAddr, TestkitError> {
    let serve = move |stream| serve(state.clone(), stream);
    accept_connections(stop, tasks, serve).await
}

async fn serve(state: Watched<SlackState>, stream: TcpStream) {
    if state.read(|state| state.is_down) {
        return;
    }
    let Some(mut socket) = greet(&state, stream).await else {
        return;
    };
    let number = state.change(|state| {
        state.connected += 1;
        let number = state.connected;
        state.connections.insert(number, SocketConnection::default());
        let count = state.claimed_connections.unwrap_or(state.connections.len());
        let hello = json!({
            "type": "hello", "num_connections": count, "connection_info": {"app_id": "A0APP"},
            "debug_info": {"host": "applink-1", "build_number": 1, "approximate_connection_time": 18060},
        });
        if let Some(open) = state.connections.get_mut(&number) {
            open.outbox.push_back(Out::Text(hello.to_string()));
        }
        if state.disconnects_left > 0 {
            state.disconnects_left -= 1;
            state.disconnect("refresh_requested");
        }
        state.dispatch();
        number
    });
    let ping = socket.send(Message::Ping("are you there".into())).await;
    if ping.is_ok() {
        talk(&state, number, socket).await;
    }
    state.change(|state| state.remove_connection(number));
}

/// Accepts a client that has a ticket. A ticket is good for one connection.
async fn greet(
    state: &Watched<SlackState>,
    stream: TcpStream,
) -> Option<WebSocketStream<TcpStream>> {
    let is_refused = state.change(|state| state.fault("socket").is_some());
    let shared = state.clone();
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is tungstenite's"
    )]
    let check = move |request: &Request, response: Response| {
        let query = request.uri().query().unwrap_or_default();
        let ticket = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("ticket="))
            .unwrap_or_default();
        if shared.change(|state| state.tickets.remove(ticket)) && !is_refused {
            return Ok(response);
        }
        let mut refusal = ErrorResponse::new(Some("no ticket".to_owned()));
        *refusal.status_mut() = StatusCode::FORBIDDEN;
        Err(refusal)
    };
    tokio_tungstenite::accept_hdr_async(stream, check)
        .await
        .ok()
}

/// Returns the next task of a connection. While everything is stalled, it can only be cut.
fn next_out(state: &Watched<SlackState>, number: usize) -> Option<Out> {
    let waits = |state: &SlackState| {
        let outbox = state.connections.get(&number).map(|open| &open.outbox);
        outbox.is_some_and(|outbox| {
            !outbox.is_empty() && (!state.is_stalled || outbox.contains(&Out::Drop))
        })
    };
    if !state.read(waits) {
        return None;
    }
    state.change(|state| {
        let is_stalled = state.is_stalled;
        let open = state.connections.get_mut(&number)?;
        if is_stalled {
            Some(Out::Drop)
        } else {
            open.outbox.pop_front()
        }
    })
}

async fn talk(state: &Watched<SlackState>, number: usize, mut socket: WebSocketStream<TcpStream>) {
    let mut changed = state.subscribe();
    loop {
        match next_out(state, number) {
            Some(Out::Text(text)) => {
                if socket.send(Message::text(text)).await.is_err() {
                    return;
                }
                continue;
            }
            Some(Out::Ping) => {
                if socket
                    .send(Message::Ping("are you there".into()))
                    .await
                    .is_err()
                {
                    return;
                }
                continue;
            }
            Some(Out::Close) => {
                if socket.close(None).await.is_err() {
                    return;
                }
                continue;
            }
            Some(Out::Drop) => return,
            None => {}
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
            () = overdue => state.change(SlackState::expire_envelopes),
            frame = socket.next(), if !is_stalled => match frame {
                Some(Ok(Message::Text(text))) => state.change(|state| state.handle_reply(number, text.as_str())),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}
