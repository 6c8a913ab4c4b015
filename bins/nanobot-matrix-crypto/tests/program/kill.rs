//! A program that is killed.

use std::{collections::BTreeSet, path::Path};

use nanobot_matrix_crypto::{
    CryptoProcess,
    protocol::{Operation, Outcome},
};
use serde_json::json;

use crate::{
    homeserver::Homeserver,
    pipe::Pipe,
    side::{MEMBERS, PROGRAM, ROOM, bot_and_ann, encryption},
};

#[tokio::test]
async fn a_received_key_survives() {
    let mut server = Homeserver::default();
    let (mut bot, ann) = bot_and_ann(&mut server).await;
    bot.process.close().await;
    let mut events = Vec::new();
    let once = json!({ "algorithm": "m.megolm.v1.aes-sha2", "rotation_period_msgs": 1 });
    for round in 0..5 {
        ann.share_by(&mut server, &MEMBERS, &once).await;
        events.push(ann.say(&mut server, &format!("message {round}")).await);
        let mut pipe = Pipe::open(&bot.store());
        let outcome = pipe.ask(Operation::ReceiveSync(server.sync(&bot.device)));
        pipe.child.kill().unwrap();
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        drop(pipe.finish());
    }
    bot.process = CryptoProcess::start(Path::new(PROGRAM), &bot.store())
        .await
        .unwrap();
    for (round, event) in events.iter().enumerate() {
        assert_eq!(bot.read(event).await.unwrap(), format!("message {round}"));
    }
}

#[tokio::test]
async fn no_index_of_a_key_is_used_twice() {
    let mut server = Homeserver::default();
    let (bot, ann) = bot_and_ann(&mut server).await;
    bot.share(&mut server, &MEMBERS).await;
    ann.pump(&mut server).await;
    bot.process.close().await;
    let share = || Operation::ShareRoomKey {
        room_id: ROOM.to_owned(),
        members: MEMBERS.map(str::to_owned).to_vec(),
        encryption: encryption(),
    };
    let encrypt = || Operation::Encrypt {
        room_id: ROOM.to_owned(),
        event_type: "m.room.message".to_owned(),
        content: json!({ "body": "x" }),
    };
    let mut texts = BTreeSet::new();
    for answered in [1, 3, 7] {
        let mut pipe = Pipe::open(&bot.store());
        assert_eq!(pipe.ask(share()), Outcome::Done(json!([])));
        for _ in 0..20 {
            pipe.post(encrypt());
        }
        for _ in 0..answered {
            let Outcome::Done(content) = pipe.read().outcome else {
                panic!("not encrypted");
            };
            assert!(texts.insert(content.to_string()));
        }
        pipe.child.kill().unwrap();
        drop(pipe.finish());
    }
    for content in &texts {
        let content = serde_json::from_str(content).unwrap();
        let event = server.event(&bot.device, ROOM, &content);
        // A repeated index would be refused as a replay.
        assert_eq!(ann.read(&event).await.unwrap(), "x");
    }
    assert_eq!(texts.len(), 11);
}
