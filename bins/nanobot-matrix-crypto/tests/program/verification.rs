//! Verification by emoji.

use nanobot_matrix_crypto::{CryptoError, Verification, VerificationState};
use serde_json::{Value, json};

use crate::{
    homeserver::Homeserver,
    side::{MEMBERS, ROOM, Side, bot_and_ann, settle},
};

async fn only(side: &Side) -> Verification {
    let mut verifications = side.process.verifications().await.unwrap();
    let verification = verifications.pop().expect("a verification");
    assert!(verifications.is_empty());
    verification
}

/// Ann asks for a verification in the room. Returns the event.
async fn asks_in_room(server: &mut Homeserver, ann: &Side) -> Value {
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let content = json!({
        "msgtype": "m.key.verification.request",
        "body": "Ann asks for a verification",
        "from_device": "ANN",
        "methods": ["m.sas.v1"],
        "to": "@bot:server",
    });
    let encrypted = ann
        .process
        .encrypt(ROOM, "m.room.message", &content)
        .await
        .unwrap();
    let mut event = server.event(&ann.device, ROOM, &encrypted);
    event["origin_server_ts"] = u64::try_from(now).unwrap().into();
    event
}

/// Ann asks the bot, which accepts. Returns the id and what the bot shows.
async fn compare(
    server: &mut Homeserver,
    bot: &Side,
    ann: &Side,
) -> (String, Vec<(String, String)>) {
    let asked = ann.process.verify("@bot:server", "BOT").await.unwrap();
    assert_eq!(asked.state, VerificationState::Waiting);
    settle(server, &[ann, bot]).await;
    let request = only(bot).await;
    let expected = Verification {
        id: asked.id.clone(),
        user_id: "@ann:server".to_owned(),
        device_id: Some("ANN".to_owned()),
        room_id: None,
        state: VerificationState::Requested,
    };
    assert_eq!(request, expected);
    bot.process.accept(&request.id).await.unwrap();
    settle(server, &[bot, ann]).await;
    let VerificationState::Comparing { emoji } = only(bot).await.state else {
        panic!("nothing to compare");
    };
    assert_eq!(emoji.len(), 7);
    assert_eq!(
        only(ann).await.state,
        VerificationState::Comparing {
            emoji: emoji.clone()
        }
    );
    (request.id, emoji)
}

/// Makes the bot and Ann know each other's devices.
async fn introduce(server: &mut Homeserver, bot: &Side, ann: &Side) {
    bot.share(server, &MEMBERS).await;
    ann.share(server, &MEMBERS).await;
    settle(server, &[bot, ann]).await;
}

#[tokio::test]
async fn both_sides_are_verified_after_the_comparison() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    introduce(&mut server, &bot, &ann).await;
    let (id, _) = compare(&mut server, &bot, &ann).await;
    bot.process.compare(&id, true).await.unwrap();
    assert_eq!(only(&bot).await.state, VerificationState::Confirmed);
    settle(&mut server, &[&bot, &ann]).await;
    ann.process.compare(&id, true).await.unwrap();
    settle(&mut server, &[&ann, &bot]).await;
    for side in [&bot, &ann] {
        assert_eq!(only(side).await.state, VerificationState::Done);
        // It was reported as ended.
        assert_eq!(side.process.verifications().await.unwrap(), []);
    }
    ann.share(&mut server, &MEMBERS).await;
    settle(&mut server, &[&ann, &bot]).await;
    let event = ann.say(&mut server, "it is me").await;
    assert!(bot.process.decrypt(ROOM, &event).await.unwrap().is_verified);
    bot.share(&mut server, &MEMBERS).await;
    settle(&mut server, &[&ann, &bot]).await;
    let event = bot.say(&mut server, "it is me").await;
    assert!(ann.process.decrypt(ROOM, &event).await.unwrap().is_verified);
}

#[tokio::test]
async fn different_emoji_end_the_verification() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    introduce(&mut server, &bot, &ann).await;
    let (id, _) = compare(&mut server, &bot, &ann).await;
    ann.process.compare(&id, false).await.unwrap();
    settle(&mut server, &[&ann, &bot]).await;
    for side in [&bot, &ann] {
        let state = only(side).await.state;
        assert!(
            matches!(state, VerificationState::Cancelled { .. }),
            "{state:?}"
        );
    }
    ann.share(&mut server, &MEMBERS).await;
    settle(&mut server, &[&ann, &bot]).await;
    let event = ann.say(&mut server, "it is me").await;
    assert!(!bot.process.decrypt(ROOM, &event).await.unwrap().is_verified);
}

#[tokio::test]
async fn a_request_may_be_declined() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    introduce(&mut server, &bot, &ann).await;
    ann.process.verify("@bot:server", "BOT").await.unwrap();
    settle(&mut server, &[&ann, &bot]).await;
    let request = only(&bot).await;
    bot.process.compare(&request.id, false).await.unwrap();
    settle(&mut server, &[&bot, &ann]).await;
    for side in [&bot, &ann] {
        let state = only(side).await.state;
        assert!(
            matches!(state, VerificationState::Cancelled { .. }),
            "{state:?}"
        );
    }
    for refused in [
        bot.process.accept(&request.id).await,
        bot.process.compare(&request.id, true).await,
        bot.process.accept("unknown").await,
    ] {
        assert!(
            matches!(refused, Err(CryptoError::Refused(_))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_request_of_an_unknown_device_waits_for_its_keys() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    // Only Ann has fetched keys.
    ann.share(&mut server, &MEMBERS).await;
    server.sync(&bot.device);
    let (id, _) = compare(&mut server, &bot, &ann).await;
    for side in [&bot, &ann] {
        side.process.compare(&id, true).await.unwrap();
    }
    settle(&mut server, &[&bot, &ann]).await;
    for side in [&bot, &ann] {
        assert_eq!(only(side).await.state, VerificationState::Done);
    }
}

#[tokio::test]
async fn a_request_in_a_room_waits_for_the_keys_of_its_device() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    // Only Ann has fetched keys.
    ann.share(&mut server, &MEMBERS).await;
    let changes = server.sync(&bot.device);
    bot.process.receive_sync(changes).await.unwrap();
    let event = asks_in_room(&mut server, &ann).await;
    bot.process.decrypt(ROOM, &event).await.unwrap();
    assert_eq!(bot.process.verifications().await.unwrap(), []);
    settle(&mut server, &[&bot]).await;
    let request = only(&bot).await;
    assert_eq!(request.state, VerificationState::Requested);
    assert_eq!(request.id, event["event_id"].as_str().unwrap());
    assert_eq!(request.room_id.as_deref(), Some(ROOM));
    // Other keys that come later begin no other.
    bot.share(&mut server, &MEMBERS).await;
    settle(&mut server, &[&bot, &ann]).await;
    assert_eq!(only(&bot).await, request);
}

#[tokio::test]
async fn a_verification_in_a_room_is_answered_there() {
    let mut server = Homeserver::default();
    let (mut bot, ann) = bot_and_ann(&mut server).await;
    introduce(&mut server, &bot, &ann).await;
    ann.share(&mut server, &MEMBERS).await;
    settle(&mut server, &[&ann, &bot]).await;
    let event = asks_in_room(&mut server, &ann).await;
    bot.process.decrypt(ROOM, &event).await.unwrap();
    // Decrypting it again begins no other.
    bot.process.decrypt(ROOM, &event).await.unwrap();
    let request = only(&bot).await;
    let expected = Verification {
        id: event["event_id"].as_str().unwrap().to_owned(),
        user_id: "@ann:server".to_owned(),
        device_id: Some("ANN".to_owned()),
        room_id: Some(ROOM.to_owned()),
        state: VerificationState::Requested,
    };
    assert_eq!(request, expected);
    bot.share(&mut server, &["@bot:server"]).await;
    bot.process.accept(&request.id).await.unwrap();
    bot.share(&mut server, &MEMBERS).await;
    let requests = bot.process.outgoing().await.unwrap();
    let [message] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    let path = "/_matrix/client/v3/rooms/!room:server/send/m.room.encrypted/";
    assert!(message.path.starts_with(path), "{}", message.path);
    // The same message is returned until it was answered.
    assert_eq!(bot.process.outgoing().await.unwrap(), requests);
    ann.pump(&mut server).await;
    let answer = server.event(&bot.device, ROOM, &message.body);
    let body = json!({ "event_id": answer["event_id"] });
    bot.process.answered(&message.id, 200, body).await.unwrap();
    assert_eq!(bot.process.outgoing().await.unwrap(), []);
    let answer = ann.process.decrypt(ROOM, &answer).await.unwrap().event;
    assert_eq!(answer["type"], "m.key.verification.ready");
    assert_eq!(
        answer["content"]["m.relates_to"]["event_id"],
        event["event_id"]
    );
    assert_eq!(only(&bot).await.state, VerificationState::Waiting);
    // A restart ends it.
    bot.restart().await;
    assert_eq!(bot.process.verifications().await.unwrap(), []);
}
