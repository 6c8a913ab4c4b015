//! Positions: first start, the Python program's cursors, restarts, gaps, and long backlogs.

use std::sync::Arc;

use nanobot_channel::{Admission, Notes as _, Value};
use nanobot_channel_mochat_fake::Incoming;
use nanobot_testkit::Assistant;
use serde_json::json;

use crate::support::{NOTE, ROOM, Running, ann, fake, note};

fn say(text: &str) -> Incoming {
    Incoming::direct(&ann(), text)
}

fn off() -> Value {
    json!({"replyDelayMode": "off"})
}

#[tokio::test]
async fn history_before_the_first_start_is_passed_over() {
    for limit in [1, 2, 100] {
        let fake = fake().await;
        for number in 0..5 {
            fake.push_silently(say(&format!("old {number}")));
            fake.push_silently(Incoming::to(ROOM, &ann(), &format!("old {number}")));
        }
        let mut keys = off();
        keys["watchLimit"] = json!(limit);
        let running = Running::at(fake, &keys);
        running.subscribed().await;
        running
            .fake
            .push(Incoming::to(ROOM, &ann(), "new in the panel"));
        running.last("new in the panel").await;
        running.positioned(&ann().direct()).await;
        running.fake.push(say("new in the session"));
        let expected = ["new in the panel", "new in the session"];
        assert_eq!(
            running.last("new in the session").await,
            expected,
            "{limit}"
        );
        running.stop().await;
    }
}

#[tokio::test]
async fn cursors_of_the_python_program_are_continued() {
    let fake = fake().await;
    for text in ["one", "two", "three"] {
        fake.push_silently(say(text));
    }
    let assistant = Arc::new(Assistant::new("mallory"));
    let cursors = json!({"schemaVersion": 1, "updatedAt": "2026-03-01T00:00:00+00:00", "cursors": {ann().direct(): 1}});
    assistant
        .notes()
        .write(NOTE, &cursors.to_string())
        .await
        .unwrap();
    let running = Running::with(fake, assistant, &json!({}));
    assert_eq!(running.last("three").await, ["two", "three"]);
    running.stop().await;
}

#[tokio::test]
async fn restart_brings_what_came_while_away_once() {
    let running = Running::start(off()).await;
    running.fake.push(say("before"));
    running.last("before").await;
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "before in the panel"));
    running.last("before in the panel").await;
    let (fake, assistant) = running.stop().await;
    fake.push_silently(say("away"));
    fake.push_silently(Incoming::to(ROOM, &ann(), "away in the panel"));
    let running = Running::with(fake, assistant, &off());
    running.assistant.message(4).await.unwrap();
    running.fake.push(say("after"));
    let mut arrived = running.last("after").await;
    arrived.sort();
    let expected = [
        "after",
        "away",
        "away in the panel",
        "before",
        "before in the panel",
    ];
    assert_eq!(arrived, expected);
    running.stop().await;
}

#[tokio::test]
async fn oversized_messages_do_not_hold_up_a_backlog() {
    let running = Running::start(json!({})).await;
    running.fake.push(say("before"));
    running.last("before").await;
    let (fake, assistant) = running.stop().await;
    let deep = (0..300).fold(json!(0), |inner, _| json!([inner]));
    let wide = Value::Array(vec![json!({"": 0}); 9000]);
    fake.push_silently(say("").with_content(json!({"a": deep})));
    for _ in 0..20 {
        fake.push_silently(say("").with_content(json!({"a": wide})));
    }
    fake.push_silently(say("between"));
    // Together they are longer than an answer that is read.
    for _ in 0..10 {
        fake.push_silently(say(&"long ".repeat(200_000)));
    }
    fake.push_silently(say("at last"));
    fake.keep_backlog();
    let running = Running::with(fake, assistant, &json!({}));
    let arrived = running.last("at last").await;
    assert!(arrived.contains(&"between".to_owned()));
    let is_long = |text: &&String| text.starts_with("long long");
    assert_eq!(arrived.iter().filter(is_long).count(), 10);
    running.stop().await;
}

#[tokio::test]
async fn long_backlog_arrives_in_order() {
    for keeps_backlog in [false, true] {
        let running = Running::start(json!({"watchLimit": 3})).await;
        running.fake.push(say("before"));
        running.last("before").await;
        let (fake, assistant) = running.stop().await;
        let texts: Vec<String> = (0..20).map(|number| format!("away {number}")).collect();
        for text in &texts {
            fake.push_silently(say(text));
        }
        if keeps_backlog {
            fake.keep_backlog();
        }
        let running = Running::with(fake, assistant, &json!({"watchLimit": 3}));
        let arrived = running.last("away 19").await;
        assert_eq!(arrived[1..], texts, "{keeps_backlog}");
        running.stop().await;
    }
}

#[tokio::test]
async fn gap_before_a_push_is_filled() {
    let running = Running::start(json!({})).await;
    running.fake.push(say("one"));
    running.last("one").await;
    running.fake.push_silently(say("missed"));
    running.fake.push(say("two"));
    assert_eq!(running.last("two").await, ["one", "missed", "two"]);
    running.stop().await;
}

#[tokio::test]
async fn unstored_message_keeps_the_position() {
    let running = Running::start(json!({})).await;
    running.fake.push(say("one"));
    running.last("one").await;
    running.assistant.will_answer([Admission::TryLater]);
    running.assistant.hold(true);
    running.fake.push(say("two"));
    running.assistant.message(2).await.unwrap();
    running.noted(&ann().direct(), |cursor| *cursor == 1).await;
    running.assistant.hold(false);
    running.assistant.message(3).await.unwrap();
    let (_, assistant) = running.stop().await;
    assert_eq!(note(&assistant).await["cursors"][ann().direct()], 2);
}

#[tokio::test]
async fn repeated_events_are_recognised() {
    let running = Running::start(off()).await;
    let pushed = running.fake.push(say("once"));
    running.last("once").await;
    let in_panel = running
        .fake
        .push(Incoming::to(ROOM, &ann(), "once in the panel"));
    running.last("once in the panel").await;
    running.fake.repeat(&pushed);
    running.fake.repeat(&in_panel);
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "next in the panel"));
    running.last("next in the panel").await;
    running.fake.push(say("next"));
    let expected = ["once", "once in the panel", "next in the panel", "next"];
    assert_eq!(running.last("next").await, expected);
    running.stop().await;
}

#[tokio::test]
async fn absurd_positions_do_not_silence_a_session() {
    for absurd in [u64::MAX, 1 << 50, 500] {
        let running = Running::start(json!({})).await;
        running.fake.push(say("one"));
        running.last("one").await;
        let session = ann().direct();
        let message = json!({"messageId": "odd", "author": "ann", "content": "odd"});
        let event = json!({"seq": absurd, "type": "message.add", "payload": message});
        let batch = json!({"sessionId": session, "cursor": absurd, "events": [event]});
        running.fake.push_event("claw.session.events", &batch);
        running.last("odd").await;
        running.fake.push(say("two"));
        running.last("two").await;
        let (fake, assistant) = running.stop().await;
        assert_eq!(note(&assistant).await["cursors"][&session], 2);
        fake.push_silently(say("away"));
        let running = Running::with(fake, assistant, &json!({}));
        let arrived = running.last("away").await;
        assert_eq!(arrived, ["one", "odd", "two", "away"], "{absurd}");
        running.stop().await;
    }
}

#[tokio::test]
async fn wrong_position_is_left_with_the_next_message() {
    let assistant = Arc::new(Assistant::new("mallory"));
    let session = ann().direct();
    let cursors = json!({"schemaVersion": 1, "cursors": {&session: 1_u64 << 50}});
    let notes = assistant.notes();
    notes.write(NOTE, &cursors.to_string()).await.unwrap();
    let running = Running::with(fake().await, assistant, &json!({}));
    // The fake knows no such position and refuses the subscription.
    running.fake.wait_for_subscription(ROOM).await.unwrap();
    for (number, text) in [(1, "one"), (2, "two")] {
        let message = json!({"messageId": text, "author": "ann", "content": text});
        let event = json!({"seq": number, "type": "message.add", "payload": message});
        let batch = json!({"sessionId": session, "events": [event]});
        running.fake.push_event("claw.session.events", &batch);
        running.last(text).await;
    }
    running.noted(&session, |cursor| *cursor == 2).await;
}
