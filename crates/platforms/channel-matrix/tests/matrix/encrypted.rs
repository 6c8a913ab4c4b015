//! Encrypted rooms without a usable program: nothing is ever sent into them in clear.

use nanobot_channel::{
    ChannelError, InboundMessage, MediaRef, OutboundKind, OutboundMessage, StreamId,
};
use nanobot_channel_matrix_fake::{Fault, Incoming, MatrixFake};
use serde_json::{Value, json};

use crate::support::{Running, ann, assistant, fake, reply, with};

/// A program that does not exist.
fn without_program() -> Value {
    json!({"cryptoProgram": "/nonexistent/nanobot-matrix-crypto"})
}

fn room() -> String {
    ann().direct()
}

fn inbound() -> InboundMessage {
    InboundMessage::text("matrix", ann().user_id, room(), "hi")
}

/// Returns everything readable that the bot wrote into the room.
fn clear_events(fake: &MatrixFake) -> Vec<String> {
    let events = fake.events(&room()).into_iter();
    let own = events
        .filter(|event| event["sender"] == fake.bot().user_id && event["type"] != "m.room.member");
    own.map(|event| event.to_string()).collect()
}

/// Tries everything that can be sent.
async fn try_to_send(running: &Running) {
    let inbound = inbound();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.txt");
    std::fs::write(&path, b"secret").unwrap();
    let file = with(reply(&inbound, "secret"), |message| {
        message.media = vec![MediaRef::new(path.to_string_lossy())];
    });
    for part in [reply(&inbound, "secret"), file] {
        let error = running.channel.send(&part).await.unwrap_err();
        assert!(matches!(error, ChannelError::Refused(_)), "{error:?}");
    }
    let stream = StreamId::from("s1");
    let drafts = running.channel.drafts().unwrap();
    let message = |kind| OutboundMessage {
        kind,
        content: "secret".to_owned(),
        ..(*reply(&inbound, "").message).clone()
    };
    let delta = OutboundKind::Delta {
        stream: stream.clone(),
    };
    drafts.append(&message(delta)).await.unwrap();
    let end = OutboundKind::StreamEnd {
        stream,
        resuming: true,
    };
    drafts.close(&message(end)).await.unwrap();
}

#[tokio::test]
async fn nothing_is_sent_in_clear_into_an_encrypted_room() {
    let running = Running::start(without_program()).await;
    let encrypted = running.fake.encrypt(&room());
    running
        .fake
        .wait_for_acknowledged(&encrypted)
        .await
        .unwrap();
    try_to_send(&running).await;
    // A clear message in the room is answered with nothing readable, either.
    running
        .push_and_wait(Incoming::direct(&ann(), "clear"))
        .await;
    try_to_send(&running).await;
    let (fake, assistant) = running.halt().await;
    assert_eq!(clear_events(&fake), Vec::<String>::new());
    assert!(fake.calls_of("upload").is_empty());
    let seen = assistant.seen();
    let is_reported = |why: &String| why.contains("nanobot-matrix-crypto");
    assert!(seen.impaired.iter().any(is_reported), "{:?}", seen.impaired);
}

#[tokio::test]
async fn room_stays_encrypted_when_the_homeserver_hides_it() {
    let running = Running::start(without_program()).await;
    let encrypted = running.fake.encrypt(&room());
    running
        .fake
        .wait_for_acknowledged(&encrypted)
        .await
        .unwrap();
    let (_, assistant) = running.halt().await;
    // The same account at a homeserver that shows the room without its encryption.
    let running = Running::with(fake().await, &without_program(), assistant).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "clear"))
        .await;
    try_to_send(&running).await;
    let (fake, _) = running.halt().await;
    assert_eq!(clear_events(&fake), Vec::<String>::new());
}

#[tokio::test]
async fn unknown_room_is_asked_about_before_a_send() {
    let running = Running::start(without_program()).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    running.fake.encrypt(&room());
    let channel = std::sync::Arc::clone(&running.channel);
    let (fake, _) = running.halt().await;
    // Only the homeserver itself can say that there is no encryption.
    for fault in [Fault::Status(404), Fault::Status(502), Fault::Drop] {
        fake.fail_next("state.get", fault);
        channel
            .send(&reply(&inbound(), "secret"))
            .await
            .unwrap_err();
    }
    let error = channel
        .send(&reply(&inbound(), "secret"))
        .await
        .unwrap_err();
    assert!(matches!(error, ChannelError::Refused(_)), "{error:?}");
    assert!(
        !clear_events(&fake)
            .iter()
            .any(|event| event.contains("secret"))
    );
}

#[tokio::test]
async fn nothing_is_sent_before_the_notes_are_read() {
    let fake = fake().await;
    let channel = crate::support::channel(&fake, &without_program());
    let error = channel.send(&reply(&inbound(), "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error:?}");
    assert_eq!(clear_events(&fake), Vec::<String>::new());
}

#[tokio::test]
async fn disabled_encryption_keeps_encrypted_rooms_silent() {
    let running = Running::with(fake().await, &json!({"e2eeEnabled": false}), assistant()).await;
    let encrypted = running.fake.encrypt(&room());
    running
        .fake
        .wait_for_acknowledged(&encrypted)
        .await
        .unwrap();
    let error = running
        .channel
        .send(&reply(&inbound(), "x"))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the platform refuses: the room is encrypted, and e2eeEnabled is false"
    );
    let (fake, _) = running.halt().await;
    assert_eq!(clear_events(&fake), Vec::<String>::new());
}
