//! Stream mode: acknowledgements, redelivery, hostile frames, and failures.

use std::time::Duration;

use nanobot_channel::{Admission, ChannelError};
use nanobot_channel_dingtalk_fake::{Fault, Incoming};
use nanobot_testkit::ChannelRun;
use serde_json::json;

use crate::support::{Running, ann, channel, fake};

#[tokio::test]
async fn message_is_acknowledged_only_after_it_is_stored() {
    let running = Running::start(json!({})).await;
    running.fake.acknowledge_within(Duration::from_millis(300));
    running.hello().await;
    running.assistant.hold(true);
    let pushed = running.fake.push(Incoming::direct(&ann(), "slow"));
    running.fake.wait_for_deliveries(&pushed, 2).await.unwrap();
    assert!(!running.fake.is_acknowledged(&pushed));
    running.assistant.hold(false);
    running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    assert_eq!(running.arrived(), ["hello", "slow"]);
    running.stop().await;
}

#[tokio::test]
async fn unstored_message_is_offered_again_in_order() {
    let running = Running::start(json!({})).await;
    running.assistant.will_answer([Admission::TryLater; 2]);
    let first = running.fake.push(Incoming::direct(&ann(), "first"));
    let second = running.fake.push(Incoming::direct(&ann(), "second"));
    running.fake.wait_for_acknowledged(&first).await.unwrap();
    running.fake.wait_for_acknowledged(&second).await.unwrap();
    assert_eq!(running.arrived(), ["first", "first", "first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn redelivered_message_is_recognised() {
    let running = Running::start(json!({})).await;
    let pushed = running
        .push_and_wait(Incoming::direct(&ann(), "once"))
        .await;
    running.fake.repeat(&pushed);
    running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "next"))
        .await;
    assert_eq!(running.arrived(), ["once", "next"]);
    running.stop().await;
}

#[tokio::test]
async fn frames_about_the_connection_are_answered() {
    let fake = fake().await;
    fake.announce_connections();
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    running.fake.send_ping();
    running.fake.send_system("KEEPALIVE", &json!({}));
    running.fake.wait_for_answered_pings(1).await.unwrap();
    running.fake.disconnect();
    running.fake.wait_for_connections(2).await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "again"))
        .await;
    assert_eq!(running.arrived(), ["hello", "again"]);
    running.fake.wait_for_open_connections(1).await.unwrap();
    running.stop().await;
}

/// DingTalk may send nothing for long, and the channel does not count as starting until then.
#[tokio::test]
async fn accepted_connection_is_a_sign_of_life() {
    let running = Running::start(json!({})).await;
    tokio::select! {
        biased;
        alive = running.assistant.wait_until("a sign of life", |seen| seen.alive > 0) => {
            alive.unwrap();
        }
        _ = running.fake.wait_for_pings(1) => panic!("it was not alive before the first ping"),
    }
    running.stop().await;
}

#[tokio::test]
async fn hostile_frames_do_no_harm() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let large = "x".repeat(1 << 20);
    let frames = [
        "[".repeat(1 << 20),
        "{\"data\":".repeat(1 << 16),
        json!({"type": large, "headers": {"topic": large, "messageId": large}}).to_string(),
        json!({"type": "CALLBACK", "headers": {"topic": 5}, "data": [large]}).to_string(),
        json!({"type": "SYSTEM", "headers": {"topic": "ping"}}).to_string(),
    ];
    for frame in &frames {
        running.fake.push_text_frame(frame);
    }
    running.fake.push_binary_frame(vec![0x7b; 1 << 16]);
    for payload in ["[".repeat(1 << 20), "{\"text\":".repeat(1 << 16), large] {
        running.fake.push_payload(&payload);
    }
    running
        .push_and_wait(Incoming::direct(&ann(), "still there"))
        .await;
    assert_eq!(running.arrived(), ["hello", "still there"]);
    assert_eq!(running.fake.connections(), 1);
}

#[tokio::test]
async fn connections_are_replaced_after_every_kind_of_failure() {
    let fake = fake().await;
    fake.fail_next("connection.open", Fault::Status(503));
    // An expired ticket: the next connection has a new one.
    fake.fail_next("socket", Fault::Status(401));
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    let connections = running.fake.connections();
    running.fake.close();
    running
        .fake
        .wait_for_connections(connections + 1)
        .await
        .unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "again"))
        .await;
    assert_eq!(running.arrived(), ["hello", "again"]);
    let degraded = running.assistant.seen().degraded;
    let last = "the socket was refused with 401 Unauthorized";
    assert!(degraded.iter().any(|why| why == last), "{degraded:?}");
    running.stop().await;
}

#[tokio::test]
async fn refused_connections_end_the_channel() {
    for code in ["authFailed", "invalidClientIdOrSecret", "invalidParameter"] {
        let fake = fake().await;
        fake.fail_next("connection.open", Fault::error(code));
        let error = Running::at(fake, &json!({})).end().await;
        assert!(matches!(error, ChannelError::Auth(_)), "{code}: {error}");
    }
    // A platform that is away is another matter.
    let keys = json!({"apiBase": "http://127.0.0.1:9"});
    let error = Running::at(fake().await, &keys).end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn two_gateways_share_the_messages_without_loss() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let other = channel(&running.fake, &json!({}));
    let other = ChannelRun::start(other, &running.assistant, &[]);
    running.fake.wait_for_open_connections(2).await.unwrap();
    for number in 0..10 {
        let text = format!("number {number}");
        running.push_and_wait(Incoming::direct(&ann(), &text)).await;
    }
    other.stop().await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "the last"))
        .await;
    let mut arrived = running.arrived();
    arrived.sort();
    arrived.dedup();
    assert_eq!(arrived.len(), 12);
    running.stop().await;
}
