//! The connection: tokens, pings, reconnecting, hostile frames.

use std::time::Duration;

use nanobot_channel::{Admission, ChannelError};
use nanobot_channel_whatsapp_fake::{Fault, Incoming};
use serde_json::json;

use crate::support::{Running, ann, channel_in, fake, part, reply};

/// Lets time pass for the channel.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn wrong_token_needs_a_person() {
    let (_, error) = Running::start(json!({"bridgeToken": "wrong"}))
        .await
        .end()
        .await;
    let text = error.to_string();
    assert!(
        matches!(error, ChannelError::Auth(_)) && text.contains("bridgeToken"),
        "{text}"
    );
    let fake = fake().await;
    fake.fail_next("auth", Fault::Close(4001));
    let (_, error) = Running::at(fake, &json!({})).end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    // A bridge that is away is another matter.
    let away = json!({"bridgeUrl": "ws://127.0.0.1:9"});
    let (_, error) = Running::start(away.clone()).await.end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    // Without any bridge, the login is the next step.
    let (data, fake) = (tempfile::tempdir().unwrap(), crate::support::fake().await);
    let channel = channel_in(&fake, &away, Some(data.path()));
    let (_, error) = Running::of(fake, channel).end().await;
    assert!(
        error
            .to_string()
            .contains("nanobot channels login whatsapp"),
        "{error}"
    );
}

#[tokio::test]
async fn connections_are_replaced_after_every_kind_of_failure() {
    let fake = fake().await;
    fake.fail_next("socket", Fault::Status(503));
    fake.fail_next("socket", Fault::Drop);
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    running.fake.close();
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    running.fake.restart();
    running
        .receive(Incoming::direct(&ann(), "and again"), 3)
        .await;
    assert_eq!(running.arrived(), ["hello", "again", "and again"]);
    running.stop().await;
}

#[tokio::test]
async fn silent_connection_is_replaced() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.fake.stall();
    for _ in 0..4 {
        pass(Duration::from_secs(20)).await;
        tokio::task::yield_now().await;
    }
    running.fake.recover();
    running.fake.wait_for_readies(2).await.unwrap();
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    assert_eq!(running.arrived(), ["hello", "again"]);
    running.stop().await;
}

#[tokio::test]
async fn ping_is_a_sign_of_life() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let alive = running.assistant.seen().alive;
    running.fake.ping();
    running
        .assistant
        .wait_until("a sign of life", |seen| seen.alive > alive)
        .await
        .unwrap();
    assert_eq!(running.fake.connections(), 1);
    running.stop().await;
}

#[tokio::test]
async fn hostile_frames_end_the_connection_only() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let frames = [
        "x".to_owned(),
        "[".repeat(1 << 16),
        json!({"type": "message", "content": "x".repeat(1 << 20)}).to_string(),
    ];
    for (count, frame) in (2..).zip(&frames) {
        running.fake.push_text_frame(frame);
        running.fake.wait_for_readies(count).await.unwrap();
        let text = count.to_string();
        running
            .receive(Incoming::direct(&ann(), &text), count)
            .await;
    }
    running.fake.push_binary_frame(vec![0x7b; 1 << 10]);
    running.fake.wait_for_readies(5).await.unwrap();
    running.receive(Incoming::direct(&ann(), "5"), 5).await;
    assert_eq!(running.arrived(), ["hello", "2", "3", "4", "5"]);
    running.stop().await;
}

#[tokio::test]
async fn odd_frames_are_passed_over() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let large = "x".repeat(1 << 18);
    for frame in [
        json!({"type": large}),
        json!({"type": "error", "requestId": large, "code": large, "error": large}),
        json!({"type": "error", "code": "failed"}),
        json!({"type": "sent", "requestId": 7}),
        json!({"type": "message", "sender": large, "id": large}),
        json!({"type": "qr", "qr": large}),
        json!({"type": "status", "status": "connected", "account": {"id": large, "name": large}}),
    ] {
        running.fake.push_text_frame(&frame.to_string());
    }
    running
        .receive(Incoming::direct(&ann(), "still there"), 2)
        .await;
    assert_eq!(
        (running.fake.connections(), running.arrived().len()),
        (1, 2)
    );
    running.stop().await;
}

#[tokio::test]
async fn sends_go_on_while_messages_wait_to_be_stored() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.assistant.will_answer([Admission::TryLater]);
    running.assistant.hold(true);
    for number in 0..200 {
        running
            .fake
            .push(Incoming::direct(&ann(), &number.to_string()));
    }
    running.assistant.message(2).await.unwrap();
    running.channel.send(&reply(&hello, "x")).await.unwrap();
    running.assistant.hold(false);
    running.assistant.message(202).await.unwrap();
    running.channel.send(&part(&hello, 1, "y")).await.unwrap();
    assert_eq!(running.texts(), ["x", "y"]);
    running.stop().await;
}
