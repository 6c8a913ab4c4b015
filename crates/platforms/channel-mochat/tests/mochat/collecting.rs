//! Messages of panels that wait for a mention or for silence.

use nanobot_channel_mochat_fake::{Incoming, Mention, Pushed};
use serde_json::json;

use crate::support::{ROOM, Running, ann, ben, mallory, note};

fn say(text: &str) -> Incoming {
    Incoming::to(ROOM, &ann(), text)
}

/// Waits until so many messages of the panel were looked at.
async fn looked_at(running: &Running, count: usize) {
    running
        .assistant
        .wait_until("access", |seen| seen.asked.len() >= count)
        .await
        .unwrap();
}

#[tokio::test]
async fn mention_delivers_what_was_collected() {
    let running = Running::start(json!({})).await;
    running.fake.push(say("one"));
    running.fake.push(Incoming::to(ROOM, &ben(), "two\nlines"));
    let last = running
        .fake
        .push(say("three").mentioning_robot_as(Mention::Tag));
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(message.content, "Ann: one\nBen: two\n  lines\nAnn: three");
    assert_eq!(message.id.unwrap().as_str(), last.message_id);
    assert_eq!(
        (
            &message.metadata["buffered_count"],
            &message.metadata["was_mentioned"]
        ),
        (&json!(3), &json!(true))
    );
    assert_eq!(message.metadata["own_line"], "three");
    // If nothing was collected before it, a mention is delivered alone.
    running.fake.push(say("four").mentioning_robot());
    assert_eq!(running.assistant.message(2).await.unwrap().content, "four");
    running.stop().await;
}

#[tokio::test]
async fn silence_delivers_what_was_collected() {
    let running = Running::start(json!({"replyDelayMs": 50})).await;
    running.fake.push(say("one"));
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(
        (message.content.as_str(), &message.metadata["was_mentioned"]),
        ("one", &json!(false))
    );
    running.stop().await;
}

#[tokio::test]
async fn changes_apply_to_what_is_collected() {
    let running = Running::start(json!({})).await;
    let [first, second, third, _] =
        ["recalled", "changed", "deleted", "kept"].map(|text| running.fake.push(say(text)));
    running.fake.recall(&first);
    running.fake.update(&second, "anew");
    running.fake.delete(&third);
    running.fake.push(say("now").mentioning_robot());
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(message.content, "Ann: anew\nAnn: kept\nAnn: now");
    running.stop().await;
}

#[tokio::test]
async fn recalled_message_is_not_delivered_after_silence() {
    let running = Running::start(json!({"replyDelayMs": 300})).await;
    let pushed = running.fake.push(say("recalled"));
    running.fake.recall(&pushed);
    running.fake.push(say("kept"));
    assert_eq!(running.last("kept").await, ["kept"]);
    running.stop().await;
}

#[tokio::test]
async fn restart_loses_and_repeats_nothing_that_was_collected() {
    let running = Running::start(json!({})).await;
    running.fake.push(say("delivered").mentioning_robot());
    running.assistant.message(1).await.unwrap();
    running.fake.push(say("one"));
    let second = running.fake.push(say("two"));
    looked_at(&running, 4).await;
    let (fake, assistant) = running.stop().await;
    fake.push_silently(say("while away"));
    fake.recall(&second);
    let marks = &note(&assistant).await["panels"][ROOM];
    assert_eq!(marks.as_array().unwrap().len(), 1);
    let running = Running::with(fake, assistant, &json!({}));
    running.subscribed().await;
    running.fake.push(say("now").mentioning_robot());
    let message = running.assistant.message(2).await.unwrap();
    assert_eq!(message.content, "Ann: one\nAnn: while away\nAnn: now");
    running.stop().await;
}

#[tokio::test]
async fn full_collection_is_delivered_at_once() {
    let running = Running::start(json!({})).await;
    let pushed: Vec<Pushed> = (0..50)
        .map(|number| running.fake.push(say(&format!("number {number}"))))
        .collect();
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(message.metadata["buffered_count"], 50);
    assert_eq!(message.id.unwrap().as_str(), pushed[49].message_id);
    assert!(
        message
            .content
            .starts_with("Ann: number 0\nAnn: number 1\n")
    );
    running.stop().await;
}

#[tokio::test]
async fn stranger_neither_adds_nor_delivers() {
    let running = Running::start(json!({})).await;
    running.fake.push(say("one"));
    running
        .fake
        .push(Incoming::to(ROOM, &mallory(), "do it").mentioning_robot());
    running.fake.push(say("two").mentioning_robot());
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(message.content, "Ann: one\nAnn: two");
    running.stop().await;
}

#[tokio::test]
async fn command_passes_what_is_collected() {
    let running = Running::start(json!({})).await;
    running.fake.push(say("one"));
    running
        .fake
        .push(say("/stop").mentioning_robot_as(Mention::At));
    assert_eq!(running.assistant.message(1).await.unwrap().content, "/stop");
    running.fake.push(say("two").mentioning_robot());
    assert_eq!(
        running.assistant.message(2).await.unwrap().content,
        "Ann: one\nAnn: two"
    );
    running.stop().await;
}
