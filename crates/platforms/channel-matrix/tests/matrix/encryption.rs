//! Encrypted rooms with the real program, and another person who encrypts.

use nanobot_channel::{InboundMessage, MediaRef, OutboundKind, OutboundMessage, StreamId};
use nanobot_channel_matrix_fake::{BOT_ID, Incoming, MatrixFake, Person};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::friend::{Friend, program};
use crate::support::{Running, ann, assistant, channel_in, fake, reply, with};

fn members() -> [String; 2] {
    [ann().user_id, BOT_ID.to_owned()]
}

fn room() -> String {
    ann().direct()
}

fn keys() -> Value {
    json!({"cryptoProgram": program()})
}

/// A channel in an encrypted room, and the person in it.
struct Encrypted {
    running: Running,
    friend: Friend,
    folder: TempDir,
}

impl Encrypted {
    async fn start() -> Self {
        let (fake, folder) = (fake().await, tempfile::tempdir().unwrap());
        let friend = Friend::log_in(&fake, &ann(), &folder.path().join("friend")).await;
        fake.encrypt(&room());
        let channel = channel_in(&fake, &keys(), Some(folder.path()));
        let running = Running::of(fake, channel, assistant());
        running.fake.wait_for_calls("keys.upload", 1).await.unwrap();
        running.fake.wait_for_waiting_syncs(1).await.unwrap();
        Self {
            running,
            friend,
            folder,
        }
    }

    async fn hello(&mut self) -> InboundMessage {
        self.friend.say(&room(), &members(), "hello").await;
        self.running.assistant.message(1).await.unwrap()
    }
}

/// Returns the types of what the bot sent into the room.
fn kinds(fake: &MatrixFake) -> Vec<String> {
    let sent = fake.sent().into_iter();
    sent.map(|sent| sent.kind).collect()
}

#[tokio::test]
async fn conversation_in_an_encrypted_room() {
    let mut test = Encrypted::start().await;
    let inbound = test.hello().await;
    assert_eq!(inbound.content, "hello");
    assert_eq!(inbound.metadata["is_encrypted"], true);
    let part = reply(&inbound, "a secret answer");
    test.running.channel.send(&part).await.unwrap();
    let is_text = |content: &Value| content["msgtype"] == "m.text";
    let read = test.friend.read(&room(), is_text).await;
    assert_eq!(read["body"], "a secret answer");
    assert_eq!(kinds(&test.running.fake), ["m.room.encrypted"]);
    test.running.stop().await;
}

#[tokio::test]
async fn message_waits_for_its_key() {
    let mut test = Encrypted::start().await;
    let content = json!({"msgtype": "m.text", "body": "early", "m.mentions": {}});
    let (encrypted, keys) = test.friend.encrypt(&room(), &members(), &content).await;
    test.friend
        .send(&room(), "m.room.encrypted", "t1", &encrypted)
        .await;
    // The event was seen, and its key is not there.
    test.running.fake.end_syncs();
    test.running.fake.wait_for_waiting_syncs(1).await.unwrap();
    assert!(test.running.arrived().is_empty());
    test.friend.give_keys(keys).await;
    let inbound = test.running.assistant.message(1).await.unwrap();
    assert_eq!(inbound.content, "early");
    test.running.stop().await;
}

#[tokio::test]
async fn message_of_an_absence_is_decrypted() {
    let mut test = Encrypted::start().await;
    test.hello().await;
    let Encrypted {
        running,
        mut friend,
        folder,
    } = test;
    let (fake, assistant) = running.halt().await;
    friend.say(&room(), &members(), "while you were away").await;
    let channel = channel_in(&fake, &keys(), Some(folder.path()));
    let running = Running::of(fake, channel, assistant);
    let inbound = running.assistant.message(2).await.unwrap();
    assert_eq!(inbound.content, "while you were away");
    running
        .channel
        .send(&reply(&inbound, "back"))
        .await
        .unwrap();
    let is_reply = |content: &Value| content["body"] == "back";
    friend.read(&room(), is_reply).await;
    running.stop().await;
}

#[tokio::test]
async fn drafts_and_files_are_encrypted() {
    let mut test = Encrypted::start().await;
    let inbound = test.hello().await;
    let channel = std::sync::Arc::clone(&test.running.channel);
    let stream = StreamId::from("s1");
    let delta = OutboundMessage {
        kind: OutboundKind::Delta {
            stream: stream.clone(),
        },
        content: "secret dra".to_owned(),
        ..(*reply(&inbound, "").message).clone()
    };
    channel.drafts().unwrap().append(&delta).await.unwrap();
    let is_draft = |content: &Value| content["body"] == "secret dra";
    test.friend.read(&room(), is_draft).await;
    let file = test.folder.path().join("secret.txt");
    std::fs::write(&file, b"secret words").unwrap();
    let part = with(reply(&inbound, "secret draft"), |message| {
        message.media = vec![MediaRef::new(file.to_string_lossy())];
        message.completes = Some(stream.clone());
    });
    channel.send(&part).await.unwrap();
    let is_edit = |content: &Value| content["m.new_content"]["body"] == "secret draft";
    test.friend.read(&room(), is_edit).await;
    let fake = &test.running.fake;
    assert!(kinds(fake).iter().all(|kind| kind == "m.room.encrypted"));
    let written = fake.events(&room());
    assert!(
        !written
            .iter()
            .any(|event| event.to_string().contains("secret"))
    );
    assert_eq!(fake.calls_of("upload").len(), 1);
    test.running.stop().await;
}

#[tokio::test]
async fn encrypted_words_of_one_person_are_not_those_of_another() {
    let mut test = Encrypted::start().await;
    test.hello().await;
    // Another person with access repeats what ann encrypted, as their own.
    let (room, carl) = (room(), Person::new("carl"));
    let events = test.running.fake.events(&room);
    let mut events = events.iter();
    let encrypted = events.find(|event| event["type"] == "m.room.encrypted");
    let content = encrypted.unwrap()["content"].clone();
    test.running.fake.set_membership(&room, &carl, "join");
    let repeated = Incoming::to(&room, &carl, "").of_kind("m.room.encrypted", content);
    test.running.push_and_wait(repeated).await;
    test.friend.say(&room, &members(), "next").await;
    test.running.assistant.message(2).await.unwrap();
    assert_eq!(test.running.arrived(), ["hello", "next"]);
    test.running.stop().await;
}
