//! Messages in rooms.

use nanobot_matrix_crypto::{CryptoError, protocol::MAX_LINE};
use serde_json::json;

use crate::{
    homeserver::Homeserver,
    side::{MEMBERS, ROOM, Side, bot_and_ann},
};

#[tokio::test]
async fn messages_are_read_on_the_other_side() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    ann.share(&mut server, &MEMBERS).await;
    let content = json!({
        "msgtype": "m.text",
        "body": "hello 🤖",
        "m.relates_to": { "rel_type": "m.thread", "event_id": "$root" },
    });
    let encrypted = ann
        .process
        .encrypt(ROOM, "m.room.message", &content)
        .await
        .unwrap();
    assert!(!encrypted.to_string().contains("hello"));
    let event = server.event(&ann.device, ROOM, &encrypted);
    assert_eq!(bot.pump(&mut server).await, [ROOM]);
    let decrypted = bot.process.decrypt(ROOM, &event).await.unwrap();
    assert_eq!(decrypted.event["type"], "m.room.message");
    assert_eq!(decrypted.event["sender"], "@ann:server");
    assert_eq!(decrypted.event["event_id"], event["event_id"]);
    assert_eq!(decrypted.event["content"], content);
    assert!(!decrypted.is_verified);

    bot.share(&mut server, &MEMBERS).await;
    let answer = bot.say(&mut server, "hello Ann").await;
    ann.pump(&mut server).await;
    assert_eq!(ann.read(&answer).await.unwrap(), "hello Ann");
    assert_eq!(bot.read(&answer).await.unwrap(), "hello Ann");
}

#[tokio::test]
async fn a_key_may_come_after_its_message() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    ann.share(&mut server, &MEMBERS).await;
    let event = ann.say(&mut server, "early").await;
    assert_eq!(bot.read(&event).await, Err(CryptoError::MissingKey));
    assert_eq!(bot.pump(&mut server).await, [ROOM]);
    assert_eq!(bot.read(&event).await.unwrap(), "early");
}

#[tokio::test]
async fn an_event_may_be_read_again_and_its_message_in_no_other() {
    let mut server = Homeserver::default();
    let (mut bot, ann) = bot_and_ann(&mut server).await;
    ann.share(&mut server, &MEMBERS).await;
    let event = ann.say(&mut server, "transfer 10").await;
    bot.pump(&mut server).await;
    assert_eq!(bot.read(&event).await.unwrap(), "transfer 10");
    assert_eq!(bot.read(&event).await.unwrap(), "transfer 10");
    bot.restart().await;
    assert_eq!(bot.read(&event).await.unwrap(), "transfer 10");
    for (field, value) in [
        ("event_id", json!("$other")),
        ("origin_server_ts", json!(1_800_000_000_000_u64)),
    ] {
        let mut replay = event.clone();
        replay[field] = value;
        let error = bot.read(&replay).await.unwrap_err();
        let repeats = "the event repeats the message of another event";
        assert_eq!(error, CryptoError::Refused(repeats.to_owned()), "{field}");
    }
}

#[tokio::test]
async fn forged_events_are_refused() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    let eve = Side::new(&mut server, "@eve:server", "EVE").await;
    let members = ["@bot:server", "@ann:server", "@eve:server"];
    // The bot knows the devices of all.
    bot.share(&mut server, &members).await;
    eve.share(&mut server, &members).await;
    ann.share(&mut server, &members).await;
    bot.pump(&mut server).await;
    let event = eve.say(&mut server, "I am Ann").await;

    let mut forged = event.clone();
    forged["sender"] = json!("@ann:server");
    let error = bot.read(&forged).await.unwrap_err();
    let another = "the key of the event belongs to another person than its sender";
    assert_eq!(error, CryptoError::Refused(another.to_owned()));

    let mut elsewhere = event.clone();
    elsewhere["room_id"] = json!("!other:server");
    let error = bot.process.decrypt(ROOM, &elsewhere).await.unwrap_err();
    assert_eq!(
        error,
        CryptoError::Refused("the event is of another room".to_owned())
    );
    let error = bot
        .process
        .decrypt("!other:server", &elsewhere)
        .await
        .unwrap_err();
    assert_eq!(error, CryptoError::MissingKey);

    let mut damaged = event.clone();
    let text = damaged["content"]["ciphertext"].as_str().unwrap();
    let mut letters: Vec<char> = text.chars().collect();
    let middle = letters.len() / 2;
    letters[middle] = if letters[middle] == 'A' { 'B' } else { 'A' };
    damaged["content"]["ciphertext"] = letters.into_iter().collect::<String>().into();
    let error = bot.read(&damaged).await.unwrap_err();
    assert!(matches!(error, CryptoError::Refused(_)), "{error}");

    // Nothing of this was taken for the message itself.
    assert_eq!(bot.read(&event).await.unwrap(), "I am Ann");
}

#[tokio::test]
async fn encrypting_needs_a_shared_key() {
    let mut server = Homeserver::default();
    let (mut bot, ann) = bot_and_ann(&mut server).await;
    let content = json!({ "body": "x" });
    let encrypt = |bot: &Side| {
        let process = bot.process.clone();
        let content = content.clone();
        async move { process.encrypt(ROOM, "m.room.message", &content).await }
    };
    assert_eq!(encrypt(&bot).await, Err(CryptoError::KeyNotShared));
    let once = json!({ "algorithm": "m.megolm.v1.aes-sha2", "rotation_period_msgs": 1 });
    bot.share_by(&mut server, &MEMBERS, &once).await;
    let first = encrypt(&bot).await.unwrap();
    // The key is used up, and the next one has to be shared.
    assert_eq!(encrypt(&bot).await, Err(CryptoError::KeyNotShared));
    bot.share_by(&mut server, &MEMBERS, &once).await;
    let second = encrypt(&bot).await.unwrap();
    assert_ne!(first["session_id"], second["session_id"]);
    bot.restart().await;
    assert_eq!(encrypt(&bot).await, Err(CryptoError::KeyNotShared));
    ann.pump(&mut server).await;
    let event = server.event(&bot.device, ROOM, &second);
    assert_eq!(ann.read(&event).await.unwrap(), "x");
}

#[tokio::test]
async fn who_left_gets_no_new_key() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    bot.share(&mut server, &MEMBERS).await;
    let before = bot.say(&mut server, "before").await;
    bot.share(&mut server, &["@bot:server"]).await;
    let after = bot.say(&mut server, "after").await;
    ann.pump(&mut server).await;
    assert_eq!(ann.read(&before).await.unwrap(), "before");
    assert_eq!(ann.read(&after).await, Err(CryptoError::MissingKey));
}

#[tokio::test]
async fn a_new_device_gets_the_key() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    bot.share(&mut server, &MEMBERS).await;
    let phone = Side::new(&mut server, "@ann:server", "PHONE").await;
    bot.pump(&mut server).await;
    let content = json!({ "body": "x" });
    let encrypted = bot.process.encrypt(ROOM, "m.room.message", &content).await;
    assert_eq!(encrypted, Err(CryptoError::KeyNotShared));
    bot.share(&mut server, &MEMBERS).await;
    let event = bot.say(&mut server, "both").await;
    for device in [&ann, &phone] {
        device.pump(&mut server).await;
        assert_eq!(device.read(&event).await.unwrap(), "both");
    }
}

#[tokio::test]
async fn many_messages_and_large_ones() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    ann.share(&mut server, &MEMBERS).await;
    bot.pump(&mut server).await;
    for length in [0, 1, 60_000] {
        let text = "é".repeat(length);
        let event = ann.say(&mut server, &text).await;
        assert_eq!(bot.read(&event).await.unwrap(), text);
    }
    let huge = json!({ "body": "a".repeat(MAX_LINE) });
    let error = ann
        .process
        .encrypt(ROOM, "m.room.message", &huge)
        .await
        .unwrap_err();
    assert_eq!(
        error,
        CryptoError::Refused("the request is too large".to_owned())
    );
    // The request fits in a line, and its result does not.
    let large = json!({ "body": "a".repeat(MAX_LINE * 4 / 5) });
    let error = ann
        .process
        .encrypt(ROOM, "m.room.message", &large)
        .await
        .unwrap_err();
    assert_eq!(
        error,
        CryptoError::Refused("the result is too large".to_owned())
    );
    let event = ann.say(&mut server, "after").await;
    assert_eq!(bot.read(&event).await.unwrap(), "after");
}
