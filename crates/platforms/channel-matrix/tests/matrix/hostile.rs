//! A hostile homeserver, and hostile people at it.

use nanobot_channel::Value;
use nanobot_channel_matrix_fake::{BOT_DEVICE, BOT_ID, Fault, Incoming};
use serde_json::json;

use crate::support::{ROOM, Running, ann, mallory, reply};

async fn survives(faults: Vec<Fault>) {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "before"))
        .await;
    for fault in faults {
        running.fake.wait_for_waiting_syncs(1).await.unwrap();
        running.fake.fail_next("sync", fault);
        running.fake.end_syncs();
        running
            .push_and_wait(Incoming::direct(&ann(), "next"))
            .await;
    }
    running
        .push_and_wait(Incoming::direct(&ann(), "after"))
        .await;
    let arrived = running.arrived();
    assert_eq!(arrived.last().map(String::as_str), Some("after"));
    running.stop().await;
}

#[tokio::test]
async fn unreadable_syncs_are_asked_for_again() {
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let deep = Value::String(deep);
    survives(vec![
        Fault::Answer(200, json!({})),
        Fault::Answer(200, json!({"next_batch": 7, "rooms": []})),
        Fault::Answer(200, json!([deep])),
        Fault::WebPage,
        Fault::Truncated,
        Fault::Status(502),
        Fault::RateLimitedFor(0),
    ])
    .await;
}

/// Anyone can send these to the device of the bot.
#[tokio::test]
async fn oversized_events_for_the_device_do_not_stop_the_channel() {
    let running = Running::start(json!({})).await;
    let deep = (0..300).fold(json!(0), |inner, _| json!([inner]));
    let wide = Value::Array(vec![json!({"": 0}); 9000]);
    for content in [vec![json!({"a": deep})], vec![json!({"a": wide}); 20]].concat() {
        running.fake.push_to_device(
            BOT_DEVICE,
            json!({"type": "m.room.encrypted", "sender": mallory().user_id, "content": content}),
        );
    }
    running
        .push_and_wait(Incoming::direct(&ann(), "still there?"))
        .await;
    assert_eq!(running.arrived(), ["still there?"]);
    running.stop().await;
}

#[tokio::test]
async fn large_answer_is_not_read_to_its_end() {
    let large = "x".repeat(33 << 20);
    survives(vec![Fault::Answer(200, json!({"next_batch": large}))]).await;
}

#[tokio::test]
async fn sender_is_that_of_the_event_and_not_of_its_content() {
    let running = Running::start(json!({})).await;
    let content = json!({
        "msgtype": "m.text", "body": "I am ann", "sender": ann().user_id,
        "m.mentions": {"user_ids": [BOT_ID]},
    });
    let incoming = Incoming::to(ROOM, &mallory(), "").of_kind("m.room.message", content);
    running.push_and_wait(incoming).await;
    assert!(running.arrived().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn own_name_as_sender_is_passed_over() {
    let running = Running::start(json!({})).await;
    let incoming = Incoming::direct(&ann(), "loop").with_member("sender", json!(BOT_ID));
    running.push_and_wait(incoming).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "real"))
        .await;
    assert_eq!(running.arrived(), ["real"]);
    running.stop().await;
}

#[tokio::test]
async fn quoted_event_has_to_be_the_one_that_was_asked_for() {
    let running = Running::start(json!({})).await;
    let other = json!({
        "type": "m.room.message", "event_id": "$other", "sender": ann().user_id,
        "content": {"msgtype": "m.text", "body": "never said"},
    });
    running.fake.fail_next("event", Fault::Answer(200, other));
    let incoming = Incoming::direct(&ann(), "hi").replying_to("$asked");
    assert_eq!(running.receive(incoming).await.content, "hi");
    running.stop().await;
}

#[tokio::test]
async fn answer_without_an_event_is_no_success() {
    let running = Running::start(json!({"reactEmoji": ""})).await;
    let inbound = running.hello().await;
    running
        .fake
        .fail_next("send", Fault::Answer(200, json!({"event_id": 5})));
    assert!(running.channel.send(&reply(&inbound, "x")).await.is_err());
    running.channel.send(&reply(&inbound, "x")).await.unwrap();
    running.stop().await;
}
