//! The long connection: acknowledgements, fragments, hostile frames, and failures.

use nanobot_channel::{Admission, ChannelError};
use nanobot_channel_feishu_fake::{ClientConfig, Fault, FeishuFake, Incoming};
use serde_json::json;

use crate::support::{Running, ann};

#[tokio::test]
async fn late_event_is_redelivered_and_deduplicated() {
    let running = Running::start(json!({})).await;
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
    let later = [Admission::TryLater, Admission::TryLater];
    running.assistant.will_answer(later);
    let first = running.fake.push(Incoming::direct(&ann(), "first"));
    let second = running.fake.push(Incoming::direct(&ann(), "second"));
    running.fake.wait_for_acknowledged(&first).await.unwrap();
    running.fake.wait_for_acknowledged(&second).await.unwrap();
    assert_eq!(running.arrived(), ["first", "first", "first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn events_in_parts_are_joined_in_any_order() {
    let running = Running::start(json!({})).await;
    let long = "語🙂".repeat(2000);
    running.fake.split_events(7);
    running.push_and_wait(Incoming::direct(&ann(), &long)).await;
    running.fake.reverse_parts();
    running.push_and_wait(Incoming::direct(&ann(), &long)).await;
    assert_eq!(running.arrived(), [long.clone(), long]);
    running.stop().await;
}

#[tokio::test]
async fn lost_part_delays_its_event_only() {
    let fake = FeishuFake::start().await.unwrap();
    fake.acknowledge_within(std::time::Duration::from_millis(500));
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    running.fake.split_events(3);
    running.fake.lose_parts(1);
    let broken = running
        .fake
        .push(Incoming::direct(&ann(), "in three parts"));
    running
        .push_and_wait(Incoming::direct(&ann(), "another"))
        .await;
    running.fake.wait_for_acknowledged(&broken).await.unwrap();
    let mut arrived = running.arrived();
    arrived.sort();
    assert_eq!(arrived, ["another", "hello", "in three parts"]);
    running.stop().await;
}

/// Encodes a data frame with these headers and this payload.
fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let mut field = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            field.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        field.push(length as u8);
        field.extend(bytes);
        field
    };
    // Sequence 0, log 0, service 1, method 1.
    let mut frame = vec![0x08, 0, 0x10, 0, 0x18, 1, 0x20, 1];
    for (key, value) in headers {
        let header = [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
        frame.extend(field(5, &header));
    }
    frame.extend(field(8, payload));
    frame
}

#[tokio::test]
async fn hostile_frames_do_no_harm() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let part = |sum: &str, seq: &str, payload: &[u8]| {
        let id = [
            ("type", "event"),
            ("message_id", "evil"),
            ("sum", sum),
            ("seq", seq),
        ];
        frame(&id, payload)
    };
    let large = "x".repeat(1 << 20);
    let frames = [
        [0x2a, 0].repeat(1 << 20),
        vec![0x7b; 1 << 16],
        vec![0xff; 100],
        frame(&[("type", &large)], b"{}"),
        part("4294967295", "4294967294", b"x"),
        part("99999999999999999999", "-1", b"x"),
        part("2", "7", b"x"),
        part("1000", "1", large.as_bytes()),
        part("3", "0", b"x"),
        part("0", "0", "[".repeat(1 << 20).as_bytes()),
        part(
            "",
            "",
            br#"{"header":{"event_type":"im.message.receive_v1"},"event":null}"#,
        ),
    ];
    for bytes in frames {
        running.fake.push_frame(bytes);
    }
    // More than a connection keeps of unfinished events.
    for number in 0..10 {
        let id = number.to_string();
        let id = [
            ("type", "event"),
            ("message_id", id.as_str()),
            ("sum", "9"),
            ("seq", "1"),
        ];
        running.fake.push_frame(frame(&id, large.as_bytes()));
    }
    running
        .push_and_wait(Incoming::direct(&ann(), "still there"))
        .await;
    assert_eq!(running.arrived(), ["hello", "still there"]);
    assert_eq!(running.fake.connections(), 1);
}

#[tokio::test]
async fn pings_follow_the_interval_of_feishu() {
    let fake = FeishuFake::start().await.unwrap();
    let config = ClientConfig {
        ping_interval: 1,
        ..ClientConfig::default()
    };
    fake.configure_clients(config);
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    running.fake.wait_for_pings(3).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn connections_are_replaced_after_every_kind_of_failure() {
    let fake = FeishuFake::start().await.unwrap();
    fake.fail_next("socket", Fault::Drop);
    fake.fail_next("ws.endpoint", Fault::Status(503));
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
    assert!(!running.assistant.seen().degraded.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn refused_connections_end_the_channel_unless_they_may_pass() {
    let table = [
        (514, "the platform refuses the credentials"),
        (403, "the platform refuses the credentials"),
        (1_000_040_344, "the platform refuses the credentials"),
        (
            1_000_040_350,
            "another program receives with these credentials",
        ),
        (4_711, "the platform refuses the credentials"),
    ];
    for (code, text) in table {
        let fake = FeishuFake::start().await.unwrap();
        fake.fail_next("ws.endpoint", Fault::Error(code));
        let error = Running::at(fake, &json!({})).end().await;
        assert!(error.to_string().starts_with(text), "{code}: {error}");
    }
    for code in [1, 1_000_040_343] {
        let fake = FeishuFake::start().await.unwrap();
        fake.fail_next("ws.endpoint", Fault::Error(code));
        let running = Running::at(fake, &json!({}));
        running.hello().await;
        running.stop().await;
    }
    // A platform that is away is another matter.
    let fake = FeishuFake::start().await.unwrap();
    let running = Running::at(fake, &json!({"apiBase": "http://127.0.0.1:9"}));
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn two_gateways_share_the_events_without_loss() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let other = crate::support::channel(&running.fake, &json!({}));
    let other = nanobot_testkit::ChannelRun::start(other, &running.assistant, &[]);
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

#[tokio::test]
async fn refused_handshake_is_explained() {
    let fake = FeishuFake::start().await.unwrap();
    fake.fail_next("socket", Fault::too_many_connections());
    let error = Running::at(fake, &json!({})).end().await;
    assert!(
        matches!(&error, ChannelError::Conflict(why) if why.contains("exceed")),
        "{error}"
    );
    let refused = |status| Fault::Handshake {
        status,
        message: "not now".to_owned(),
        auth_code: None,
    };
    let fake = FeishuFake::start().await.unwrap();
    fake.fail_next("socket", refused(403));
    let error = Running::at(fake, &json!({})).end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    // An old ticket is replaced by a new one.
    let fake = FeishuFake::start().await.unwrap();
    fake.fail_next("socket", refused(514));
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    let degraded = running.assistant.seen().degraded;
    assert_eq!(degraded, ["the socket was refused: not now (code 514)"]);
    running.stop().await;
}
