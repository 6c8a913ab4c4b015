//! The protocol, with the real manager and the in-process bus behind the channel.

use std::sync::Arc;

use nanobot_bus::{Bus as _, Ledger as _, LedgerFilter, MemoryBus, Queue};
use nanobot_channel::{
    Channel, ChannelFactory as _, InboundMessage, OutboundKey, OutboundKind, OutboundMessage,
    RawConfig,
};
use nanobot_channel_websocket::{WebSocketChannel, WebSocketConfig, WebSocketFactory};
use nanobot_channels::{
    AccessRules, AllowFrom, ChannelManager, ChannelManagerParts, ChannelSettings, DeliverySettings,
    HealthState, ManagedChannel,
};
use nanobot_testkit::{TestkitError, WAIT_LIMIT, WebSocketClient};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;

use super::{TOKEN, address, channel, connect, with_token};

/// A gateway without a model.
struct Gateway {
    channel: Arc<WebSocketChannel>,
    bus: MemoryBus,
    settings: watch::Sender<ChannelSettings>,
    manager: ChannelManager,
}

fn gateway(config: WebSocketConfig) -> Gateway {
    gateway_on(MemoryBus::new(), config)
}

fn gateway_on(bus: MemoryBus, config: WebSocketConfig) -> Gateway {
    let channel = channel(config);
    let allow_from = AllowFrom::listed(["*"]);
    let (settings, receiver) = watch::channel(ChannelSettings {
        access: AccessRules::of(allow_from),
        delivery: DeliverySettings::default(),
    });
    let channels = vec![ManagedChannel::new(
        Arc::clone(&channel) as Arc<dyn Channel>,
        receiver,
    )];
    let manager =
        ChannelManager::start(&ChannelManagerParts::new(&bus, channels, "unused")).unwrap();
    Gateway {
        channel,
        bus,
        settings,
        manager,
    }
}

impl Gateway {
    async fn client(&self, chat: &str) -> WebSocketClient {
        let mut client = connect(&self.channel, &format!("client_id=ann&chat_id={chat}"))
            .await
            .unwrap();
        let ready = client.receive().await.unwrap();
        assert_eq!(
            ready,
            json!({ "event": "ready", "chat_id": chat, "client_id": "ann" })
        );
        client
    }

    async fn publish(&self, chat: &str, content: &str) {
        self.bus
            .publish_outbound(message(chat, content, OutboundKind::Final))
            .await
            .unwrap();
    }
}

fn message(chat: &str, content: &str, kind: OutboundKind) -> OutboundMessage {
    let inbound = InboundMessage::text("websocket", "ann", chat, "");
    let key = OutboundKey {
        turn: format!("turn-{chat}-{content}").into(),
        position: 0,
    };
    OutboundMessage::in_reply_to(&inbound, key, kind, content.to_owned())
}

#[tokio::test]
async fn conversation_is_streamed_acknowledged_and_deduplicated() {
    let gateway = gateway(with_token());
    let mut client = gateway.client("room").await;
    let mut inbound = gateway.bus.inbound().await.unwrap();
    let said = json!({ "content": "hello", "id": "m-1" });
    for _ in 0..2 {
        client.send(&said).await.unwrap();
        assert_eq!(
            client.receive().await.unwrap(),
            json!({ "event": "ack", "chat_id": "room", "id": "m-1" })
        );
    }
    let delivery = inbound.next().await.unwrap();
    assert_eq!(delivery.message.content, "hello");
    assert_eq!(delivery.message.session_key(), "websocket:room".into());
    assert_eq!(
        gateway
            .bus
            .list(Queue::Inbound, LedgerFilter::All, 10)
            .await
            .unwrap()
            .len(),
        1
    );

    let reply = |kind, content: &str, position| {
        let key = OutboundKey {
            turn: "turn".into(),
            position,
        };
        OutboundMessage::in_reply_to(&delivery.message, key, kind, content.to_owned())
    };
    gateway
        .bus
        .offer(reply(OutboundKind::Progress, "looking", 0));
    gateway.bus.offer(reply(
        OutboundKind::Delta {
            stream: "s1".into(),
        },
        "Hi",
        1,
    ));
    gateway.bus.offer(reply(
        OutboundKind::StreamEnd {
            stream: "s1".into(),
            resuming: false,
        },
        "",
        2,
    ));
    let last = OutboundMessage {
        completes: Some("s1".into()),
        ..reply(OutboundKind::Final, "**Hi** there", 0)
    };
    gateway.bus.publish_outbound(last).await.unwrap();
    gateway
        .bus
        .offer(reply(OutboundKind::TurnEnd { unfinished: 0 }, "", 4));
    let mut events = Vec::new();
    for _ in 0..5 {
        events.push(client.receive().await.unwrap());
    }
    // A client ignores an id that it knows: the thought must not have that of the reply.
    let thought = events[0]["id"].clone();
    assert_ne!(thought, "turn/0/0");
    let expected = [
        json!({ "event": "message", "chat_id": "room", "id": thought, "kind": "progress", "text": "looking",
                "part": 1, "parts": 1, "reply_to": "m-1" }),
        json!({ "event": "delta", "chat_id": "room", "stream_id": "s1", "text": "Hi" }),
        json!({ "event": "stream_end", "chat_id": "room", "stream_id": "s1", "resuming": false }),
        json!({ "event": "message", "chat_id": "room", "id": "turn/0/0", "kind": "final", "text": "**Hi** there",
                "part": 1, "parts": 1, "stream_id": "s1", "reply_to": "m-1" }),
        json!({ "event": "turn_end", "chat_id": "room", "reply_to": "m-1" }),
    ];
    assert_eq!(events, expected);
}

#[tokio::test]
async fn connections_and_chats_are_many_to_many() {
    let gateway = gateway(with_token());
    let (mut one, mut other) = (gateway.client("a").await, gateway.client("b").await);
    one.send(&json!({ "type": "attach", "chat_id": "b" }))
        .await
        .unwrap();
    assert_eq!(
        one.receive().await.unwrap(),
        json!({ "event": "attached", "chat_id": "b" })
    );
    one.send(&json!({ "type": "new_chat" })).await.unwrap();
    let attached = one.receive().await.unwrap();
    let chat = attached["chat_id"].as_str().unwrap().to_owned();
    assert!(!["a", "b"].contains(&chat.as_str()));
    for (chat, content) in [("a", "for a"), ("b", "for b"), (chat.as_str(), "for c")] {
        gateway.publish(chat, content).await;
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(
            one.receive().await.unwrap()["text"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(seen, ["for a", "for b", "for c"]);
    assert_eq!(other.receive().await.unwrap()["text"], "for b");
}

#[tokio::test]
async fn message_waits_in_the_ledger_until_its_client_connects() {
    let gateway = gateway(with_token());
    gateway.publish("room", "while you were away").await;
    while gateway
        .bus
        .list(Queue::Outbound, LedgerFilter::Open, 1)
        .await
        .unwrap()[0]
        .attempts
        == 0
    {
        tokio::task::yield_now().await;
    }
    let mut back = gateway.client("room").await;
    assert_eq!(back.receive().await.unwrap()["text"], "while you were away");
}

#[tokio::test]
async fn refused_connections_report_the_reason() {
    let gateway = gateway(with_token());
    let address = address(&gateway.channel).await;
    for (path, status) in [
        ("", "401"),
        ("?token=wrong", "401"),
        ("elsewhere?token=x", "404"),
    ] {
        let refused = WebSocketClient::connect(&format!("ws://{address}/{path}")).await;
        let Err(TestkitError::WebSocket {
            source: Some(error),
            ..
        }) = refused
        else {
            panic!("{path} got in")
        };
        assert!(error.to_string().contains(status), "{path}: {error}");
    }
    gateway
        .settings
        .send_modify(|settings| settings.access.allow_from = AllowFrom::listed(["bob"]));
    let mut ann = connect(&gateway.channel, "client_id=ann").await.unwrap();
    assert_eq!(ann.receive().await.unwrap()["event"], "error");
    ann.receive().await.unwrap_err();
}

#[tokio::test]
async fn loopback_client_needs_no_token_if_none_is_required() {
    let config = WebSocketConfig {
        websocket_requires_token: false,
        ..WebSocketConfig::default()
    };
    let gateway = gateway(config);
    gateway.client("room").await;
}

#[tokio::test]
async fn invalid_frames_get_an_error_and_keep_the_connection() {
    let gateway = gateway(WebSocketConfig {
        max_message_bytes: 256,
        ..with_token()
    });
    let mut client = gateway.client("room").await;
    for wrong in [
        "{}",
        r#"{"type":"dance"}"#,
        r#"{"content":"a","chat_id":"a b"}"#,
        " ",
    ] {
        client.send_text(wrong).await.unwrap();
        let error = client.receive().await.unwrap();
        assert_eq!(
            (&error["event"], &error["retry"]),
            (&json!("error"), &json!(false)),
            "{wrong}"
        );
    }
    client.send_text("still here").await.unwrap();
    let mut inbound = gateway.bus.inbound().await.unwrap();
    assert_eq!(inbound.next().await.unwrap().message.content, "still here");
    client.send_text("x".repeat(300)).await.unwrap();
    client.receive().await.unwrap_err();
}

#[tokio::test]
async fn full_ledger_rejects_a_message_as_retryable() {
    let gateway = gateway_on(MemoryBus::bounded(1), with_token());
    let mut client = gateway.client("room").await;
    client
        .send(&json!({ "content": "a", "id": "1" }))
        .await
        .unwrap();
    assert_eq!(client.receive().await.unwrap()["event"], "ack");
    client
        .send(&json!({ "content": "b", "id": "2" }))
        .await
        .unwrap();
    let error = client.receive().await.unwrap();
    assert_eq!(
        (&error["event"], &error["id"], &error["retry"]),
        (&json!("error"), &json!("2"), &json!(true))
    );
    gateway
        .bus
        .inbound()
        .await
        .unwrap()
        .next()
        .await
        .unwrap()
        .ack()
        .await
        .unwrap();
    client
        .send(&json!({ "content": "b", "id": "2" }))
        .await
        .unwrap();
    assert_eq!(client.receive().await.unwrap()["event"], "ack");
}

/// A client that opens a connection and then does nothing more, not even read.
async fn mute(gateway: &Gateway, chat: &str) -> TcpStream {
    let address = address(&gateway.channel).await;
    let socket = TcpSocket::new_v4().unwrap();
    // How much the system takes for a client that does not read is a matter of the machine.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = format!(
        "GET /?token={TOKEN}&client_id=mute&chat_id={chat} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut greeting = Vec::new();
    while !String::from_utf8_lossy(&greeting).contains("ready") {
        stream.read_buf(&mut greeting).await.unwrap();
    }
    stream
}

#[tokio::test]
async fn client_without_pongs_is_disconnected() {
    let gateway = gateway(WebSocketConfig {
        ping_interval_s: 1,
        ping_timeout_s: 1,
        ..with_token()
    });
    let mut mute = mute(&gateway, "room").await;
    // It ends, and not because the test gave up.
    let ended = tokio::time::timeout(WAIT_LIMIT, mute.read_to_end(&mut Vec::new())).await;
    ended.unwrap().unwrap();
}

#[tokio::test]
async fn slow_reader_is_disconnected_without_delaying_others() {
    const MESSAGES: usize = 150;
    let gateway = gateway(with_token());
    let mut quick = gateway.client("room").await;
    let mut slow = mute(&gateway, "room").await;
    for number in 0..MESSAGES {
        gateway
            .publish("room", &format!("{number} {}", "x".repeat(60_000)))
            .await;
    }
    for number in 0..MESSAGES {
        let event = quick.receive().await.unwrap();
        assert_eq!(
            event["text"].as_str().unwrap().split(' ').next().unwrap(),
            number.to_string()
        );
    }
    let mut taken = Vec::new();
    // Cut off in the middle of a frame, which a reset may be the sign of.
    tokio::time::timeout(WAIT_LIMIT, slow.read_to_end(&mut taken))
        .await
        .unwrap()
        .ok();
    assert!(taken.len() < MESSAGES * 60_000, "{} bytes", taken.len());
}

#[tokio::test]
async fn stop_closes_connections_and_a_used_port_is_reported() {
    let gateway = gateway(with_token());
    let mut client = gateway.client("room").await;
    let port = address(&gateway.channel).await.port();
    let section = json!({ "token": "t", "port": port });
    let second = WebSocketFactory
        .create("second".into(), &RawConfig::new(section))
        .unwrap();
    let channels = vec![ManagedChannel::fixed(second, ChannelSettings::default())];
    let manager =
        ChannelManager::start(&ChannelManagerParts::new(&gateway.bus, channels, "unused")).unwrap();
    let mut health = manager.health().subscribe();
    let is_degraded = |map: &nanobot_channels::HealthMap| matches!(map.get("second"), Some(HealthState::Degraded { why, .. }) if why.contains("cannot listen"));
    drop(health.wait_for(is_degraded).await.unwrap());
    assert!(manager.stop().await);
    assert!(gateway.manager.stop().await);
    client.receive().await.unwrap_err();
}

#[tokio::test]
async fn client_that_lost_access_receives_nothing_more() {
    let gateway = gateway(with_token());
    let (mut ann, mut idle) = (gateway.client("room").await, gateway.client("other").await);
    gateway
        .settings
        .send_modify(|settings| settings.access.allow_from = AllowFrom::listed(["bob"]));
    gateway.publish("room", "for bob alone").await;
    for client in [&mut ann, &mut idle] {
        assert_eq!(client.receive().await.unwrap()["event"], "error");
        client.receive().await.unwrap_err();
    }
}

/// Connections that show nothing.
async fn silent(gateway: &Gateway, from: [u8; 4], count: usize) -> Vec<TcpStream> {
    let address = address(&gateway.channel).await;
    let mut silent = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        silent.push(socket.connect(address).await.unwrap());
    }
    silent
}

#[tokio::test]
async fn unauthenticated_connections_take_no_client_slots() {
    let gateway = gateway(with_token());
    let silent = silent(&gateway, [127, 0, 0, 1], 300).await;
    gateway.client("room").await;
    drop(silent);
}

/// Other systems have one loopback address.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_address_cannot_take_all_handshake_slots() {
    let gateway = gateway(with_token());
    let mut other = silent(&gateway, [127, 0, 0, 2], 1).await.remove(0);
    let silent = silent(&gateway, [127, 0, 0, 1], 300).await;
    gateway.client("room").await;
    other
        .write_all(b"GET /elsewhere HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")
        .await
        .unwrap();
    other
        .write_all(
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await
        .unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    drop(silent);
}

#[tokio::test]
async fn wrong_tokens_are_delayed_and_lock_no_client_out() {
    let gateway = gateway(with_token());
    let url = format!("ws://{}/?token=wrong", address(&gateway.channel).await);
    let begun = std::time::Instant::now();
    for _ in 0..6 {
        WebSocketClient::connect(&url).await.unwrap_err();
    }
    // The least time that the delays take, however fast the machine is.
    assert!(
        begun.elapsed().as_millis() >= 250 + 500 + 1000,
        "{:?}",
        begun.elapsed()
    );
    gateway.client("room").await;
}
