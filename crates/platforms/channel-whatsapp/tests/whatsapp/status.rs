//! The state of the linked device.

use nanobot_channel::ChannelError;
use nanobot_channel_whatsapp_fake::{Incoming, Status};
use serde_json::json;

use crate::support::{Running, ann, fake, part, reply};

#[tokio::test]
async fn pause_of_whatsapp_impairs_the_channel() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.disconnect("timed out", true);
    running.impaired("timed out").await;
    let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running.fake.push(Incoming::direct(&ann(), "meanwhile"));
    let alive = running.assistant.seen().alive;
    running.fake.reconnect();
    running.assistant.message(2).await.unwrap();
    running
        .assistant
        .wait_until("a sign of life", |seen| seen.alive > alive)
        .await
        .unwrap();
    running.channel.send(&part(&hello, 1, "y")).await.unwrap();
    assert_eq!(
        (running.texts(), running.fake.connections()),
        (vec!["y".to_owned()], 1)
    );
    running.stop().await;
}

#[tokio::test]
async fn connecting_bridge_impairs_the_channel() {
    let fake = fake().await;
    fake.set_status(Status::Connecting);
    let running = Running::at(fake, &json!({}));
    running.fake.wait_for_client().await.unwrap();
    running.fake.ping();
    running.impaired("not connected yet").await;
    running.fake.reconnect();
    running.hello().await;
    running.stop().await;
}

#[tokio::test]
async fn missing_device_needs_a_login() {
    let fake = fake().await;
    fake.unlink();
    let (fake, error) = Running::at(fake, &json!({})).end().await;
    assert!(error.is_permanent(), "{error}");
    assert!(
        error
            .to_string()
            .contains("nanobot channels login whatsapp"),
        "{error}"
    );
    assert_eq!(fake.complaints(), Vec::<String>::new());
    // The device is removed while the channel runs.
    fake.link();
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    running.fake.unlink();
    let (_, error) = running.end().await;
    assert!(error.is_permanent(), "{error}");
}

#[tokio::test]
async fn second_program_with_the_keys_is_a_conflict() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.fake.replace();
    let (_, error) = running.end().await;
    assert!(matches!(error, ChannelError::Conflict(_)), "{error}");
}

#[tokio::test]
async fn bridge_that_gave_up_ends_the_run() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.fake.disconnect("banned", false);
    let (_, error) = running.end().await;
    assert!(
        matches!(&error, ChannelError::Unavailable(why) if why.contains("banned")),
        "{error}"
    );
}
