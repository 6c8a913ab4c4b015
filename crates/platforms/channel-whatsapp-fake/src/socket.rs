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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio_tungstenite::connect_async;
    use tokio_tungstenite::tungstenite::Error;
    use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

    use super::*;
    use crate::fake::WhatsAppFake;
    use crate::incoming::{Incoming, Person};

    type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

    async fn next(client: &mut Client) -> Value {
        loop {
            let frame = client.next().await.unwrap().unwrap();
            if let Message::Text(text) = frame {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    async fn send(client: &mut Client, frame: &Value) {
        client.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Returns the code with which a connection ends; `None` if it breaks.
    async fn end(client: &mut Client) -> Option<u16> {
        loop {
            match client.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    async fn connect(fake: &WhatsAppFake) -> Client {
        let (mut client, _) = connect_async(fake.url()).await.unwrap();
        let auth = json!({"type": "auth", "token": fake.token(), "protocol": 2});
        send(&mut client, &auth).await;
        client
    }

    /// A client that is ready.
    async fn client(fake: &WhatsAppFake) -> Client {
        let mut client = connect(fake).await;
        assert_eq!(next(&mut client).await["type"], "ready");
        assert_eq!(next(&mut client).await["type"], "status");
        client
    }

    fn hello() -> Incoming {
        Incoming::direct(&Person::new("4915111111111", "Ann"), "hello")
    }

    #[tokio::test]
    async fn handshake_can_fail() {
        let fake = WhatsAppFake::start().await.unwrap();
        fake.fail_next("socket", Fault::Status(502));
        let Err(Error::Http(response)) = connect_async(fake.url()).await else {
            panic!("not refused");
        };
        assert_eq!(response.status().as_u16(), 502);
        fake.fail_next("socket", Fault::Drop);
        assert!(connect_async(fake.url()).await.is_err());
        assert!(connect_async(fake.url()).await.is_ok());
    }

    #[tokio::test]
    async fn message_is_acknowledged() {
        let fake = WhatsAppFake::start().await.unwrap();
        let pushed = fake.push(hello());
        for _ in 0..2 {
            let mut client = client(&fake).await;
            assert_eq!(next(&mut client).await["id"], pushed.message_id);
            fake.cut();
            assert_eq!(end(&mut client).await, None);
        }
        assert_eq!(fake.deliveries(&pushed), 2);
        assert!(!fake.is_acknowledged(&pushed));
        let mut client = client(&fake).await;
        let message = next(&mut client).await;
        send(
            &mut client,
            &json!({"type": "ack", "seq": [message["seq"]]}),
        )
        .await;
        fake.wait_for_acknowledged(&pushed).await.unwrap();
        fake.repeat(&pushed);
        assert_eq!(next(&mut client).await["id"], pushed.message_id);
        assert!(!fake.is_acknowledged(&pushed));
        assert_eq!(fake.complaints(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn stalled_connection_gets_its_frames_later() {
        let fake = WhatsAppFake::start().await.unwrap();
        let mut client = client(&fake).await;
        fake.stall();
        let pushed = fake.push(hello());
        fake.push_text_frame("\"late\"");
        assert_eq!(fake.deliveries(&pushed), 0);
        fake.recover();
        assert_eq!(next(&mut client).await["type"], "message");
        assert_eq!(next(&mut client).await, "late");
        assert_eq!(fake.deliveries(&pushed), 1);
    }

    #[tokio::test]
    async fn connections_end_in_several_ways() {
        let fake = WhatsAppFake::start().await.unwrap();
        type End = fn(&WhatsAppFake);
        let ends: [(End, Option<u16>); 4] = [
            (WhatsAppFake::cut, None),
            (WhatsAppFake::restart, None),
            (WhatsAppFake::close, Some(1000)),
            (WhatsAppFake::revoke_credentials, Some(4003)),
        ];
        for (finish, code) in ends {
            let mut client = client(&fake).await;
            finish(&fake);
            assert_eq!(end(&mut client).await, code);
            drop(client);
            fake.wait_for_open_connections(0).await.unwrap();
        }
        assert_eq!(end(&mut connect(&fake).await).await, Some(4003));
        fake.restore_credentials();
        let mut first = client(&fake).await;
        assert_eq!(end(&mut connect(&fake).await).await, Some(4009));
        fake.wait_for_rivals(1).await.unwrap();
        let going_down = fake.go_down();
        let (outcome, code) = tokio::join!(going_down, end(&mut first));
        assert_eq!((outcome.is_ok(), code), (true, None));
        assert!(connect_async(fake.url()).await.is_err());
        fake.come_back();
        client(&fake).await;
    }

    #[tokio::test]
    async fn time_passes_as_fast_as_the_test_says() {
        let fake = WhatsAppFake::start().await.unwrap();
        let (mut silent, _) = connect_async(fake.url()).await.unwrap();
        fake.wait_for_connections(1).await.unwrap();
        fake.advance(Duration::from_secs(5));
        assert_eq!(end(&mut silent).await, Some(4001));
        let mut client = client(&fake).await;
        fake.advance(Duration::from_secs(20));
        let frame = client.next().await.unwrap().unwrap();
        assert!(frame.is_ping(), "{frame:?}");
    }

    #[tokio::test]
    async fn held_answers_come_when_they_are_released() {
        let fake = WhatsAppFake::start().await.unwrap();
        let mut client = client(&fake).await;
        fake.fail_next("upload", Fault::Hold);
        for id in ["first", "second"] {
            let upload = json!({
                "type": "upload", "requestId": id, "ref": id, "offset": 0, "data": "",
            });
            send(&mut client, &upload).await;
        }
        assert_eq!(next(&mut client).await["requestId"], "second");
        fake.release_answers();
        assert_eq!(next(&mut client).await["requestId"], "first");
    }

    #[tokio::test]
    async fn account_is_unlinked_and_linked_again() {
        let fake = WhatsAppFake::start().await.unwrap();
        let mut client = client(&fake).await;
        fake.unlink();
        fake.link();
        let mut news = Vec::new();
        while news.last().is_none_or(|last| last != "connected") {
            let frame = next(&mut client).await;
            let status = frame.get("status").unwrap_or(&frame["type"]);
            news.push(status.as_str().unwrap().to_owned());
        }
        let expected = ["unlinked", "qr", "disconnected", "connecting", "connected"];
        assert_eq!(news, expected);
        fake.replace();
        let status = next(&mut client).await;
        assert_eq!(
            (&status["reason"], &status["retry"]),
            (&json!("replaced"), &json!(false))
        );
    }

    #[tokio::test]
    async fn bridge_of_version_1_does_not_greet() {
        let fake = WhatsAppFake::start_version_1().await.unwrap();
        let mut client = connect(&fake).await;
        fake.wait_for_admitted(1).await.unwrap();
        let pushed = fake.push(hello());
        assert_eq!(next(&mut client).await["id"], pushed.message_id);
    }
}
