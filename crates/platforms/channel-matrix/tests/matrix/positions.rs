//! Positions: nothing is lost over restarts, gaps and refused positions.

use std::time::Duration;

use nanobot_channel::{Admission, Arrival};
use nanobot_channel_matrix_fake::{Fault, Incoming};
use serde_json::json;

use crate::support::{ROOM, Running, ann, assistant, fake, mallory};

#[tokio::test]
async fn first_start_takes_no_earlier_messages() {
    let fake = fake().await;
    fake.push(Incoming::direct(&ann(), "long ago"));
    let running = Running::with(fake, &json!({}), assistant()).await;
    running.push_and_wait(Incoming::direct(&ann(), "now")).await;
    assert_eq!(running.arrived(), ["now"]);
    running.stop().await;
}

/// A homeserver that does not wait for news is not asked without a pause.
#[tokio::test]
async fn syncs_that_bring_nothing_at_once_are_paced() {
    let running = Running::start(json!({})).await;
    let fake = &running.fake;
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    let begun = fake.calls_of("sync").len();
    for count in 0..4 {
        fake.wait_for_calls("sync", begun + count).await.unwrap();
        fake.end_syncs();
    }
    let calls = fake.wait_for_calls("sync", begun + 4).await.unwrap();
    // The first of them may have been asked for before the message was handled.
    let paced = &calls[begun + 1..];
    for pair in paced.windows(2) {
        let gap = pair[1].at.duration_since(pair[0].at);
        assert!(gap >= Duration::from_millis(50), "{gap:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn messages_of_an_absence_are_read_from_the_history() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "before"))
        .await;
    let (fake, assistant) = running.halt().await;
    let texts: Vec<String> = (0..130).map(|number| format!("missed {number}")).collect();
    for text in &texts {
        fake.push(Incoming::direct(&ann(), text));
    }
    fake.push(Incoming::to(ROOM, &ann(), "elsewhere").mentioning_bot());
    fake.fail_next("messages", Fault::Status(502));
    let running = Running::with(fake, &json!({}), assistant).await;
    running.assistant.message(132).await.unwrap();
    let mut direct = running.arrived();
    direct.retain(|text| text.starts_with("missed"));
    assert_eq!(direct, texts, "complete, once and in order");
    running.stop().await;
}

#[tokio::test]
async fn unstored_message_comes_again_after_a_restart() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "first"))
        .await;
    running.assistant.will_answer([Admission::ShuttingDown]);
    running.fake.push(Incoming::direct(&ann(), "second"));
    running.assistant.message(2).await.unwrap();
    let (fake, assistant) = running.halt().await;
    let running = Running::with(fake, &json!({}), assistant).await;
    running.assistant.message(3).await.unwrap();
    assert_eq!(running.arrived(), ["first", "second", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn position_of_another_account_is_not_used() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "before"))
        .await;
    let (_, assistant) = running.halt().await;
    // Another homeserver, with positions of its own.
    let running = Running::with(fake().await, &json!({}), assistant).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "after"))
        .await;
    assert_eq!(running.arrived(), ["before", "after"]);
    running.stop().await;
}

#[tokio::test]
async fn unknown_position_is_given_up_after_some_refusals() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "before"))
        .await;
    let (fake, assistant) = running.halt().await;
    for _ in 0..3 {
        fake.fail_next(
            "sync",
            Fault::ErrorWith(400, "M_UNKNOWN", "no token".to_owned()),
        );
    }
    let running = Running::with(fake, &json!({}), assistant).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "after"))
        .await;
    assert_eq!(running.arrived(), ["before", "after"]);
    running.stop().await;
}

#[tokio::test]
async fn messages_of_strangers_move_the_position_on() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&mallory(), "let me in"))
        .await;
    assert!(running.arrived().is_empty());
    assert!(running.fake.sent().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn message_waits_until_the_people_of_its_room_are_known() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "before"))
        .await;
    let (fake, assistant) = running.halt().await;
    for _ in 0..2 {
        fake.fail_next("joined_members", Fault::Status(503));
    }
    let running = Running::with(fake, &json!({}), assistant).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "after"))
        .await;
    assert_eq!(running.arrived(), ["before", "after"]);
    let seen = running.assistant.seen();
    let mut asked = seen.asked.iter();
    assert!(asked.all(|(_, _, arrival)| *arrival == Arrival::direct()));
    running.stop().await;
}
