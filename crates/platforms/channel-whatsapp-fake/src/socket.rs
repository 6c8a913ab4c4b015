//! The listening part: accepted streams, frames and transport faults.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_testkit::{Watched, ignore_until_end};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};

use crate::connection::Out;
use crate::fault::Fault;
use crate::state::WhatsAppState;

/// Serves an accepted stream until its end.
pub(crate) async fn serve(state: Watched<WhatsAppState>, stream: TcpStream) {
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
    let number = state.change(WhatsAppState::add_connection);
    talk(&state, number, socket).await;
    state.change(|state| state.remove_connection(number));
}

/// Accepts a client.
async fn greet(stream: TcpStream, fault: Option<Fault>) -> Option<WebSocketStream<TcpStream>> {
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is tungstenite's"
    )]
    let check = |_: &Request, response: Response| match fault {
        Some(Fault::Status(status)) => {
            let mut refusal = ErrorResponse::new(Some("<html>A page</html>".to_owned()));
            *refusal.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
            Err(refusal)
        }
        _ => Ok(response),
    };
    let socket = tokio_tungstenite::accept_hdr_async(stream, check).await;
    socket.ok()
}

/// Returns the next task of a connection. While everything is stalled, it can only be cut.
fn next_out(state: &Watched<WhatsAppState>, number: usize) -> Option<Out> {
    let waits = |state: &WhatsAppState| {
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

/// Returns the frame of a task; `None` if there is nothing to send.
fn frame_of(state: &Watched<WhatsAppState>, out: Out) -> Option<Message> {
    match out {
        Out::Binary(bytes) => Some(Message::binary(bytes)),
        Out::Text(text) => Some(Message::text(text)),
        Out::Message(seq) => state.change(|state| state.deliver(seq)).map(Message::text),
        Out::Ping => Some(Message::Ping("are you there".into())),
        Out::Close(code) => Some(Message::Close(Some(CloseFrame {
            code: code.into(),
            reason: "".into(),
        }))),
        Out::Drop => None,
    }
}

async fn talk(
    state: &Watched<WhatsAppState>,
    number: usize,
    mut socket: WebSocketStream<TcpStream>,
) {
    let mut changed = state.subscribe();
    loop {
        changed.mark_unchanged();
        if let Some(out) = next_out(state, number) {
            if out == Out::Drop {
                return;
            }
            let is_last = matches!(out, Out::Close(_));
            if let Some(frame) = frame_of(state, out)
                && socket.send(frame).await.is_err()
            {
                return;
            }
            if is_last {
                return finish(socket).await;
            }
            continue;
        }
        let (is_stalled, wait) =
            state.read(|state| (state.is_stalled, state.until_tick(number).max(0)));
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or_default());
        tokio::select! {
            _ = changed.changed() => {}
            () = tokio::time::sleep(wait), if !is_stalled => {
                state.change(|state| state.tick(number));
            }
            frame = socket.next(), if !is_stalled => match frame {
                Some(Ok(Message::Text(text))) => {
                    state.change(|state| state.handle_frame(number, &text));
                }
                Some(Ok(Message::Binary(_))) => {
                    state.change(|state| state.complain("a binary frame"));
                }
                Some(Ok(Message::Ping(_))) => state.change(|state| state.pings += 1),
                Some(Ok(Message::Pong(_))) => state.change(|state| state.pong(number)),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(Message::Frame(_))) => {}
            },
        }
    }
}

/// Waits for the end of a connection that was closed, so that the client gets the code.
async fn finish(mut socket: WebSocketStream<TcpStream>) {
    const LIMIT: Duration = Duration::from_secs(5);
    let end = async { while let Some(Ok(_)) = socket.next().await {} };
    drop(tokio::time::timeout(LIMIT, end).await);
}
