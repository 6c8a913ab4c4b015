//! The bridge of the Python program.

use nanobot_channel::{ChannelError, SendRecovery};
use nanobot_channel_whatsapp_fake::{Fault, Incoming, WhatsAppFake};
use serde_json::json;

use crate::support::{
    ROOM, Running, ann, channel, channel_in, in_doubt, part, reply, settled, user, with,
};

async fn old_fake() -> WhatsAppFake {
    settled(WhatsAppFake::start_version_1().await.unwrap())
}

async fn start() -> Running {
    let running = Running::at(old_fake().await, &json!({}));
    connected(&running).await;
    running
}

/// Waits until the channel knows that the bridge speaks version 1.
async fn connected(running: &Running) {
    running.fake.wait_for_admitted(1).await.unwrap();
}

#[tokio::test]
async fn texts_come_and_go() {
    let running = start().await;
    let direct = running
        .receive(Incoming::direct(&ann(), "hello").by_lid(), 1)
        .await;
    assert_eq!(direct.chat_id.as_str(), ann().lid());
    let both = format!("{}|{}", user(&ann().direct()), user(&ann().lid()));
    assert_eq!(direct.sender_id.as_str(), both);
    let room = running.receive(Incoming::to(ROOM, &ann(), "hi"), 2).await;
    assert_eq!(room.chat_id.as_str(), ROOM);
    let sends = [
        part(&direct, 0, "one"),
        part(&direct, 1, "two"),
        part(&room, 2, "three"),
    ];
    let [one, two, three] = sends.each_ref().map(|part| running.channel.send(part));
    let (one, two, three) = tokio::join!(one, two, three);
    for sent in [one, two, three] {
        sent.unwrap();
    }
    assert_eq!(running.texts(), ["one", "two", "three"]);
    running.stop().await;
}

#[tokio::test]
async fn outcome_of_a_failed_send_stays_unknown() {
    let running = start().await;
    let hello = running.hello().await;
    let part = reply(&hello, "x");
    running
        .fake
        .fail_next("send", Fault::ErrorAfterEffect("failed".to_owned()));
    let error = running.channel.send(&part).await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::Uncertain, "{error}");
    let error = running.channel.send(&in_doubt(&part)).await.unwrap_err();
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    assert_eq!(running.texts(), ["x"]);
    running.stop().await;
}

#[tokio::test]
async fn files_are_read_from_the_folder_of_media() {
    let data = tempfile::tempdir().unwrap();
    let media = data.path().join("media");
    std::fs::create_dir(&media).unwrap();
    let (inside, outside) = (media.join("wa_1.png"), data.path().join("config.json"));
    std::fs::write(&inside, "picture").unwrap();
    std::fs::write(&outside, "s3cret").unwrap();
    let fake = old_fake().await;
    let channel = channel_in(&fake, &json!({"startBridge": false}), Some(data.path()));
    let running = Running::of(fake, channel);
    connected(&running).await;
    let incoming = Incoming::direct(&ann(), "look")
        .with_path(inside.to_str().unwrap())
        .with_path(outside.to_str().unwrap());
    let message = running.receive(incoming, 1).await;
    assert_eq!(
        message.content,
        "look\n[image: /media/wa_1.png]\n[file: download failed]"
    );
    let kept = running.assistant.seen().kept;
    assert_eq!(
        kept.iter()
            .map(|file| file.bytes.as_slice())
            .collect::<Vec<_>>(),
        [b"picture"]
    );
    running.stop().await;
}

#[tokio::test]
async fn files_are_mentioned_in_replies() {
    let running = start().await;
    let hello = running.hello().await;
    let part = with(reply(&hello, "see"), |message| {
        message.media = vec![nanobot_channel::MediaRef::new("/tmp/a.pdf")];
    });
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.texts(), ["[Failed to send: a.pdf]", "see"]);
    running.stop().await;
}

#[tokio::test]
async fn missing_device_impairs_the_channel() {
    let running = start().await;
    let hello = running.hello().await;
    running.fake.disconnect("", true);
    running.impaired("not connected").await;
    let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running.fake.reconnect();
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    running.stop().await;
}

#[tokio::test]
async fn account_is_not_known() {
    let fake = old_fake().await;
    let account = channel(&fake, &json!({}))
        .probe()
        .unwrap()
        .probe()
        .await
        .unwrap();
    assert!(account.contains("does not tell"), "{account}");
    let wrong = channel(&fake, &json!({"bridgeToken": "wrong"}));
    let error = wrong.probe().unwrap().probe().await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}
