//! The welcome of people who open the chat.

use nanobot_channel_wecom_fake::{Incoming, WeComFake};
use serde_json::json;

use crate::support::{Running, ann, mallory};

/// Waits until the events before it were handled: they are in the lane of the same chat.
async fn settle(running: &Running, count: usize) {
    running
        .receive(Incoming::direct(&ann(), "and on"), count)
        .await;
}

fn welcomes(fake: &WeComFake) -> usize {
    fake.calls_of("aibot_respond_welcome_msg").len()
}

#[tokio::test]
async fn person_with_access_is_welcomed() {
    let running = Running::start(json!({"welcomeMessage": "Good to see you."})).await;
    running.fake.wait_for_subscribed().await.unwrap();
    let entered = running.fake.enter(&ann());
    running.fake.wait_for_answered(&entered).await.unwrap();
    running.shown("Good to see you.").await;
    assert!(running.arrived().is_empty());
    // Other events have no answer.
    running.fake.rate(&ann(), "f1");
    settle(&running, 1).await;
    assert_eq!((welcomes(&running.fake), running.texts().len()), (1, 1));
    running.stop().await;
}

#[tokio::test]
async fn without_a_welcome_nothing_is_sent() {
    let running = Running::start(json!({})).await;
    running.fake.enter(&ann());
    settle(&running, 1).await;
    assert_eq!(welcomes(&running.fake), 0);
    running.stop().await;
}

#[tokio::test]
async fn stranger_is_asked_in_place_of_the_welcome() {
    let running = Running::start(json!({"welcomeMessage": "Good to see you."})).await;
    running.fake.enter(&mallory());
    running.hello().await;
    running.assistant.will_pair_strangers("who are you?");
    let entered = running.fake.enter(&mallory());
    running.fake.wait_for_answered(&entered).await.unwrap();
    running.shown("who are you?").await;
    assert_eq!(running.texts(), ["who are you?"]);
    running.stop().await;
}
