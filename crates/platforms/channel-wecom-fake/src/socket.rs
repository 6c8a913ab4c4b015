//! The gateway: accepted streams, frames and transport faults.

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_testkit::{Watched, ignore_until_end};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::Message;

use crate::connection::{Out, SocketConnection};
use crate::fault::Fault;
use crate::state::WeComState;

/// Serves an accepted stream until its end.
pub(crate) async fn serve(state: Watched<WeComState>, stream: TcpStream) {
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
    let number = state.change(WeComState::add_connection);
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

impl WeComState {
    fn add_connection(&mut self) -> usize {
        self.connected += 1;
        let open = SocketConnection::default();
        self.connections.insert(self.connected, open);
        self.connected
    }
}

/// Returns the next task of a connection. While everything is stalled, it can only be cut.
fn next_out(state: &Watched<WeComState>, number: usize) -> Option<Out> {
    let waits = |state: &WeComState| {
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

async fn talk(state: &Watched<WeComState>, number: usize, mut socket: WebSocketStream<TcpStream>) {
    let mut changed = state.subscribe();
    loop {
        let frame = match next_out(state, number) {
            Some(Out::Binary(bytes)) => Some(Message::binary(bytes)),
            Some(Out::Text(text)) => Some(Message::text(text)),
            Some(Out::Push(push)) => state.change(|state| state.deliver(push)).map(Message::text),
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
        let is_stalled = state.read(|state| state.is_stalled);
        tokio::select! {
            _ = changed.changed() => {}
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
    use serde_json::{Value, json};
    use tokio_tungstenite::connect_async;
    use tokio_tungstenite::tungstenite::Error;
    use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

    use super::*;
    use crate::account::{BOT_ID, SECRET};
    use crate::fake::WeComFake;
    use crate::incoming::{Incoming, Person};

    type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

    async fn next(client: &mut Client) -> Value {
        let frame = client.next().await.unwrap().unwrap();
        serde_json::from_str(frame.to_text().unwrap()).unwrap()
    }

    async fn subscribe(client: &mut Client) {
        let body = json!({"bot_id": BOT_ID, "secret": SECRET});
        let frame = json!({"cmd": "aibot_subscribe", "headers": {"req_id": "a"}, "body": body});
        client.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// A subscribed client.
    async fn client(fake: &WeComFake) -> Client {
        let (mut client, _) = connect_async(fake.ws_url()).await.unwrap();
        subscribe(&mut client).await;
        assert_eq!(next(&mut client).await["errcode"], 0);
        client
    }

    fn hello() -> Incoming {
        Incoming::direct(&Person::new("ann"), "hello")
    }

    #[tokio::test]
    async fn handshake_can_fail() {
        let fake = WeComFake::start().await.unwrap();
        fake.fail_next("socket", Fault::Status(502));
        let Err(Error::Http(response)) = connect_async(fake.ws_url()).await else {
            panic!("not refused");
        };
        assert_eq!(response.status().as_u16(), 502);
        fake.fail_next("socket", Fault::Drop);
        assert!(connect_async(fake.ws_url()).await.is_err());
        assert!(connect_async(fake.ws_url()).await.is_ok());
    }

    #[tokio::test]
    async fn stalled_connection_gets_its_frames_later() {
        let fake = WeComFake::start().await.unwrap();
        let mut client = client(&fake).await;
        fake.stall();
        let pushed = fake.push(hello());
        fake.push_text_frame("\"late\"");
        assert_eq!(fake.deliveries(&pushed), 0);
        fake.recover();
        assert_eq!(next(&mut client).await["cmd"], "aibot_msg_callback");
        assert_eq!(next(&mut client).await, "late");
        assert_eq!(fake.deliveries(&pushed), 1);
    }

    #[tokio::test]
    async fn connections_end_in_several_ways() {
        let fake = WeComFake::start().await.unwrap();
        let ends: [fn(&WeComFake); 3] = [
            WeComFake::cut,
            WeComFake::close,
            WeComFake::revoke_credentials,
        ];
        for (index, end) in ends.into_iter().enumerate() {
            let mut client = client(&fake).await;
            end(&fake);
            let last = client.next().await;
            let is_closed = matches!(last, Some(Ok(Message::Close(_))));
            assert_eq!(is_closed, index > 0, "{last:?}");
            drop(client);
            fake.wait_for_open_connections(0).await.unwrap();
        }
        let (mut client, _) = connect_async(fake.ws_url()).await.unwrap();
        subscribe(&mut client).await;
        assert_eq!(next(&mut client).await["errcode"], 853_000);
        fake.restore_credentials();
        subscribe(&mut client).await;
        assert_eq!(next(&mut client).await["errcode"], 0);
        fake.go_down().await.unwrap();
        assert!(connect_async(fake.ws_url()).await.is_err());
        fake.come_back().await.unwrap();
        assert!(connect_async(fake.ws_url()).await.is_ok());
    }

    #[tokio::test]
    async fn kept_messages_follow_the_next_subscription() {
        let fake = WeComFake::start().await.unwrap();
        fake.keep_messages();
        let pushed = fake.push(hello());
        let mut client = client(&fake).await;
        let frame = next(&mut client).await;
        assert_eq!(frame["headers"]["req_id"], pushed.req_id);
        fake.forget_subscriptions();
        let missed = fake.push(hello());
        subscribe(&mut client).await;
        assert_eq!(next(&mut client).await["errcode"], 0);
        assert_eq!(next(&mut client).await["headers"]["req_id"], missed.req_id);
        assert_eq!(fake.complaints(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn held_answers_come_when_they_are_released() {
        let fake = WeComFake::start().await.unwrap();
        let mut client = client(&fake).await;
        fake.fail_next("ping", Fault::Hold);
        for req_id in ["first", "second"] {
            let frame = json!({"cmd": "ping", "headers": {"req_id": req_id}});
            client.send(Message::text(frame.to_string())).await.unwrap();
        }
        assert_eq!(next(&mut client).await["headers"]["req_id"], "second");
        fake.release_answers();
        assert_eq!(next(&mut client).await["headers"]["req_id"], "first");
    }
}
