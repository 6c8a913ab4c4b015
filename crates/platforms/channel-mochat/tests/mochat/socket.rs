//! Socket.IO: handshakes, subscriptions, hostile frames, and failures.

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_mochat_fake::{Fault, Incoming, Serializer};
use nanobot_testkit::WAIT_LIMIT;
use nanobot_testkit::log::Log;
use serde_json::json;

use crate::support::{ROOM, Running, ann, fake, fake_with};

#[tokio::test]
async fn connection_logs_in_and_subscribes_from_its_positions() {
    for (serializer, is_disabled) in [(Serializer::Msgpack, false), (Serializer::Json, true)] {
        let fake = fake_with(serializer).await;
        fake.serve_socket_at("/other/path");
        let keys = json!({"socketDisableMsgpack": is_disabled, "socketPath": "other/path/"});
        let running = Running::at(fake, &keys);
        running.subscribed().await;
        running.hello().await;
        running.fake.close();
        running.fake.wait_for_connections(2).await.unwrap();
        running.subscribed().await;
        let calls = running
            .fake
            .wait_for_calls("subscribe.sessions", 2)
            .await
            .unwrap();
        let ids = json!(["session_ann", "session_mallory"]);
        let subscribed: Vec<_> = calls.into_iter().map(|call| call.body).collect();
        assert_eq!(
            subscribed[0],
            json!({"sessionIds": ids, "cursors": {}, "limit": 100})
        );
        let cursors = json!({"session_ann": 1, "session_mallory": 0});
        assert_eq!(subscribed[1]["cursors"], cursors);
        running.stop().await;
    }
}

#[tokio::test]
async fn refused_token_ends_the_channel() {
    let fake = fake().await;
    fake.fail_next("connect", Fault::Error(401));
    let error = Running::at(fake, &json!({})).end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn connections_are_replaced_after_every_kind_of_failure() {
    let fake = fake().await;
    fake.fail_next("socket", Fault::Status(502));
    let running = Running::at(fake, &json!({"socketConnectTimeoutMs": 200}));
    running.subscribed().await;
    running.hello().await;
    let faults = [
        ("socket", Fault::Drop),
        ("socket", Fault::Hang),
        ("connect", Fault::Drop),
        ("connect", Fault::Hang),
        ("connect", Fault::Answer(0, json!("busy"))),
        ("subscribe.sessions", Fault::Drop),
        ("subscribe.sessions", Fault::DropAfterEffect),
        ("subscribe.panels", Fault::Answer(0, json!("no object"))),
    ];
    for (number, (method, fault)) in (1..).zip(faults) {
        running.fake.fail_next(method, fault.clone());
        let connections = running.fake.connections();
        if number % 2 == 0 {
            running.fake.close();
        } else {
            running.fake.disconnect();
        }
        running
            .fake
            .wait_for_connections(connections + 1)
            .await
            .unwrap();
        running.subscribed().await;
        let text = format!("number {number}");
        running.fake.push(Incoming::direct(&ann(), &text));
        assert_eq!(
            running.last(&text).await.len(),
            number + 1,
            "{method} {fault:?}"
        );
    }
}

#[tokio::test]
async fn late_answers_leave_time_for_polls() {
    let fake = fake().await;
    fake.hold_acks();
    let running = Running::at(fake, &json!({"panels": []}));
    running.positioned(&ann().direct()).await;
    running.fake.push(Incoming::direct(&ann(), "polled"));
    running.last("polled").await;
    running.fake.release_acks();
    running.fake.push(Incoming::direct(&ann(), "pushed"));
    assert_eq!(running.last("pushed").await, ["polled", "pushed"]);
    running.stop().await;
}

#[tokio::test]
async fn flood_before_an_answer_ends_the_attempt() {
    let fake = fake().await;
    fake.hold_acks();
    let running = Running::at(fake, &json!({"panels": []}));
    running
        .fake
        .wait_for_calls("subscribe.sessions", 1)
        .await
        .unwrap();
    // Each takes little on the wire, and much in memory.
    let wide = vec![json!({"": 0}); 8000];
    for _ in 0..20 {
        running.fake.push_event("flood", &json!({"payload": wide}));
    }
    let reason = "too much arrived before the answer to a subscription";
    running
        .assistant
        .wait_until(reason, |seen| {
            seen.impaired.iter().any(|why| why.contains(reason))
        })
        .await
        .unwrap();
    running.fake.release_acks();
    running.fake.wait_for_connections(2).await.unwrap();
    running.hello().await;
}

#[tokio::test]
async fn missing_answer_ends_the_connection() {
    let running = Running::start(json!({})).await;
    running.fake.hold_acks();
    running.fake.close();
    // One that waits for an answer, and one that replaces it.
    running.fake.wait_for_connections(3).await.unwrap();
    running.fake.release_acks();
    running.hello().await;
}

#[tokio::test]
async fn pings_are_answered_and_silence_ends_the_connection() {
    let fake = fake().await;
    fake.ping_every(Duration::from_millis(300), Duration::from_millis(700));
    let running = Running::at(fake, &json!({}));
    running.subscribed().await;
    running.fake.wait_for_answered_pings(2).await.unwrap();
    assert_eq!(running.fake.connections(), 1);
    running.fake.stall();
    let log = Log::capture().unwrap();
    let is_dropped = async {
        while !log.text().contains("it fell silent") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT_LIMIT, is_dropped).await.unwrap();
    running.fake.recover();
    running.fake.wait_for_connections(2).await.unwrap();
    running.hello().await;
}

#[tokio::test]
async fn hostile_frames_do_no_harm() {
    for (serializer, is_disabled) in [(Serializer::Msgpack, false), (Serializer::Json, true)] {
        let fake = fake_with(serializer).await;
        let running = Running::at(fake, &json!({"socketDisableMsgpack": is_disabled}));
        running.subscribed().await;
        running.hello().await;
        let large = "x".repeat(1 << 20);
        for frame in [
            format!("42{}", "[".repeat(1 << 20)),
            format!("42[\"{large}\"]"),
            format!("42[\"claw.session.events\",{}", "{\"a\":".repeat(1 << 16)),
            format!("42[{}0]", "[],".repeat(1 << 20)),
            format!("4{}[]", "9".repeat(1 << 20)),
            format!("43{}[]", "9".repeat(40)),
            format!(
                "4512345678-[\"x\",{{\"_placeholder\":true,\"num\":{}}}]",
                u64::MAX
            ),
            format!("0{{\"pingInterval\":0,\"sid\":\"{large}\"}}"),
        ] {
            running.fake.push_text_frame(&frame);
        }
        let mut wide = vec![0xdd, 0x00, 0x40, 0x00, 0x00];
        wide.resize(wide.len() + 0x0040_0000, 0xc0);
        for frame in [
            vec![0x91; 1 << 20],
            vec![0x81; 1 << 20],
            wide,
            vec![0xdf, 0xff, 0xff, 0xff, 0xff],
            vec![0xc6, 0xff, 0xff, 0xff, 0xff],
            Vec::new(),
        ] {
            running.fake.push_binary_frame(frame);
        }
        let name = "claw.session.events";
        let event = json!({"seq": u64::MAX, "type": "message.add", "payload": {"author": "ann"}});
        running.fake.push_event(
            name,
            &json!({"sessionId": "x".repeat(1000), "events": [event]}),
        );
        running.fake.push(Incoming::direct(&ann(), "still there"));
        assert_eq!(running.last("still there").await, ["hello", "still there"]);
        assert_eq!(running.fake.connections(), 1);
    }
}

#[tokio::test]
async fn refused_subscription_is_polled_and_tried_again() {
    let fake = fake().await;
    for _ in 0..3 {
        fake.fail_next("subscribe.sessions", Fault::Error(500));
        fake.fail_next("subscribe.panels", Fault::Error(500));
    }
    let running = Running::at(fake, &json!({"replyDelayMode": "off"}));
    running.subscribed().await;
    running.hello().await;
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "in the panel"));
    running.last("in the panel").await;
}
