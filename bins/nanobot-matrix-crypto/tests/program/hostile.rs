//! Hostile lines and values.

use std::io::Write as _;

use nanobot_matrix_crypto::{
    SyncChanges,
    protocol::{Failure, MAX_LINE, Operation, Outcome},
};
use serde_json::{Value, json};

use crate::{
    homeserver::Homeserver,
    pipe::Pipe,
    side::{ROOM, bot_and_ann, store_in},
};

fn bot() -> (String, String) {
    ("@bot:server".to_owned(), "BOT".to_owned())
}

#[test]
fn unreadable_lines_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut pipe = Pipe::start();
    let deep = format!(
        r#"{{"id":9,"operation":{{"receive_sync":{}1{}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let lines: [(&[u8], u64); 8] = [
        (b"", 0),
        (b"garbage", 0),
        (b"\xff\xfe\x00", 0),
        (b"[1,2]", 0),
        (br#"{"id":7}"#, 7),
        (br#"{"id":8,"operation":{"unknown":{}}}"#, 8),
        (deep.as_bytes(), 9),
        (br#"{"id":-1,"operation":"outgoing"}"#, 0),
    ];
    for (line, id) in lines {
        pipe.write(line);
        let response = pipe.read();
        assert_eq!(response.id, id);
        let refused = matches!(response.outcome, Outcome::Failed(Failure::Refused(_)));
        assert!(refused, "{:?}", response.outcome);
    }
    let outcome = pipe.ask(Operation::Outgoing);
    assert_eq!(
        outcome,
        Outcome::Failed(Failure::Refused("no store is open".to_owned()))
    );
    let store = store_in(folder.path(), &bot());
    for (version, ok) in [(0, false), (1, true), (1, false)] {
        let store = store.clone();
        let outcome = pipe.ask(Operation::Open { version, store });
        assert_eq!(matches!(outcome, Outcome::Done(_)), ok, "{outcome:?}");
    }
    let (status, rest) = pipe.finish();
    assert!(status.success());
    assert_eq!(rest, "");
}

#[test]
fn a_line_without_an_end_ends_the_program() {
    let mut pipe = Pipe::start();
    let mut input = pipe.input.take().unwrap();
    let chunk = vec![b'a'; 64 * 1024];
    // It may have ended before the last of it was written.
    while input.write_all(&chunk).is_ok() {}
    drop(input);
    let (status, rest) = pipe.finish();
    assert_eq!(status.code(), Some(1));
    assert_eq!(rest, "");

    let mut pipe = Pipe::start();
    pipe.input
        .as_mut()
        .unwrap()
        .write_all(br#"{"id":1,"oper"#)
        .unwrap();
    let (status, _) = pipe.finish();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_long_line_is_read() {
    let mut pipe = Pipe::start();
    let line = format!(r#"{{"id":1,"x":"{}"}}"#, "a".repeat(MAX_LINE - 100));
    pipe.write(line.as_bytes());
    assert_eq!(pipe.read().id, 1);
    assert!(pipe.finish().0.success());
}

#[cfg(target_os = "linux")]
#[test]
fn the_program_confines_itself() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = Pipe::open(&store_in(folder.path(), &bot()));
    let status = std::fs::read_to_string(format!("/proc/{}/status", pipe.child.id())).unwrap();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{status}");
    }
    assert!(pipe.finish().0.success());
}

/// Values of all types, at places where another type is expected.
fn odd_values() -> Vec<Value> {
    let deep = (0..500).fold(json!(1), |inner, _| json!([inner]));
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1e308),
        json!("x"),
        json!([]),
        json!({}),
        json!({ "type": 1, "sender": [], "content": "x" }),
        json!("a".repeat(1_000_000)),
        deep,
    ]
}

#[tokio::test]
async fn odd_syncs_are_taken() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    let kinds = [
        "m.room.encrypted",
        "m.room_key",
        "m.room_key_request",
        "m.room_key.withheld",
        "m.secret.request",
        "m.key.verification.request",
        "m.key.verification.start",
        "m.key.verification.done",
        "m.dummy",
    ];
    for value in odd_values() {
        let mut to_device: Vec<Value> = kinds
            .iter()
            .map(|kind| json!({ "type": kind, "sender": "@ann:server", "content": value }))
            .collect();
        to_device.push(value.clone());
        let changes = SyncChanges {
            to_device,
            device_lists: value.clone(),
            one_time_keys_count: value.clone(),
            unused_fallback_keys: Some(vec!["x".repeat(1000)]),
            next_batch: "s".to_owned(),
        };
        bot.process.receive_sync(changes).await.unwrap();
    }
    assert_eq!(bot.process.verifications().await.unwrap(), []);
    drop(ann);
}

#[tokio::test]
async fn odd_events_and_responses_are_refused() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    ann.share(&mut server, &crate::side::MEMBERS).await;
    let event = ann.say(&mut server, "x").await;
    bot.pump(&mut server).await;
    for value in odd_values() {
        assert!(bot.process.decrypt(ROOM, &value).await.is_err());
        for field in ["type", "sender", "event_id", "origin_server_ts", "content"] {
            let mut odd = event.clone();
            odd[field] = value.clone();
            assert!(
                bot.process.decrypt(ROOM, &odd).await.is_err(),
                "{field} {value}"
            );
        }
        for field in ["algorithm", "ciphertext", "session_id"] {
            let mut odd = event.clone();
            odd["content"][field] = value.clone();
            assert!(
                bot.process.decrypt(ROOM, &odd).await.is_err(),
                "{field} {value}"
            );
        }
        let members = ["@ann:server".to_owned(), "x".to_owned(), String::new()];
        assert!(
            bot.process
                .share_room_key(ROOM, &members, &value)
                .await
                .is_err()
        );
        assert!(bot.process.answered("unknown", 200, value).await.is_err());
    }
    for room in ["", "x", "!", "@ann:server"] {
        assert!(bot.process.decrypt(room, &event).await.is_err(), "{room}");
    }
    // The program is well.
    assert_eq!(bot.read(&event).await.unwrap(), "x");
}

#[tokio::test]
async fn odd_responses_do_not_end_the_program() {
    let mut server = Homeserver::default();
    let (bot, _ann) = bot_and_ann(&mut server).await;
    let members = ["@ann:server".to_owned()];
    for value in odd_values() {
        let requests = bot
            .process
            .share_room_key(ROOM, &members, &crate::side::encryption())
            .await
            .unwrap();
        let id = &requests.first().expect("a key query").id;
        for status in [0, 199, 401, 429, 500, u16::MAX] {
            bot.process
                .answered(id, status, value.clone())
                .await
                .unwrap();
        }
        if let Err(error) = bot.process.answered(id, 200, value).await {
            assert!(
                matches!(error, nanobot_matrix_crypto::CryptoError::Refused(_)),
                "{error}"
            );
        }
        // The keys are asked for again.
        let mut changes = server.sync(&bot.device);
        changes.device_lists = json!({ "changed": ["@ann:server"] });
        bot.process.receive_sync(changes).await.unwrap();
    }
    bot.share(&mut server, &crate::side::MEMBERS).await;
}
