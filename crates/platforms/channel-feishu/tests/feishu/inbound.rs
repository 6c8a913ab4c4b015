//! Messages of people: addressing, topics, mentions, quotations, files, buttons, reactions.

use nanobot_channel::{
    Button, InboundMessage, MessageId, OutboundKey, OutboundKind, OutboundMessage, SessionKey,
};
use nanobot_channel_feishu_fake::{Fault, Incoming};
use serde_json::json;

use crate::support::{ROOM, Running, ann, mallory, reply, with};

fn place(message: &InboundMessage) -> (&str, SessionKey, Option<&str>) {
    (
        message.chat_id.as_str(),
        message.session_key(),
        message.delivery.thread.as_deref(),
    )
}

#[tokio::test]
async fn topics_of_a_group_are_sessions_and_replies_stay_in_them() {
    let running = Running::start(json!({})).await;
    let question = running
        .push_and_wait(Incoming::to(ROOM, &ann(), "a question").mentioning_bot())
        .await
        .message_id;
    let first = running.assistant.message(1).await.unwrap();
    let session = SessionKey::from(format!("feishu:{ROOM}:{question}"));
    assert_eq!(first.content, "a question");
    assert_eq!(
        place(&first),
        (ROOM, session.clone(), Some(question.as_str()))
    );
    running
        .channel
        .send(&reply(&first, "an answer"))
        .await
        .unwrap();
    running
        .push_and_wait(Incoming::to(ROOM, &ann(), "and more").in_thread_of(&question))
        .await;
    let second = running.assistant.message(2).await.unwrap();
    assert_eq!(place(&second), (ROOM, session, Some(question.as_str())));
    let part = with(reply(&second, "more"), |message| message.key.position = 1);
    running.channel.send(&part).await.unwrap();
    let sent = running.fake.sent();
    let roots: Vec<_> = sent.iter().map(|sent| sent.root_id.as_deref()).collect();
    assert_eq!(roots, [Some(question.as_str()); 2]);
    assert!(
        sent.iter().all(|sent| sent.thread_id.is_some()),
        "{sent:#?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn without_isolation_a_group_is_one_session() {
    let running = Running::start(json!({"topicIsolation": false})).await;
    let question = running.fake.push(Incoming::to(ROOM, &ann(), "a question"));
    let first = running.assistant.message(1).await.unwrap();
    let session = SessionKey::from(format!("feishu:{ROOM}"));
    assert_eq!(place(&first), (ROOM, session.clone(), None));
    running
        .channel
        .send(&reply(&first, "an answer"))
        .await
        .unwrap();
    // A topic that people began is kept.
    let topic = Incoming::to(ROOM, &ann(), "in a topic").in_thread_of(&question.message_id);
    running.fake.push(topic);
    let second = running.assistant.message(2).await.unwrap();
    assert_eq!(
        place(&second),
        (ROOM, session, Some(question.message_id.as_str()))
    );
    let part = with(reply(&second, "there"), |message| message.key.position = 1);
    running.channel.send(&part).await.unwrap();
    let sent = running.fake.sent();
    let roots: Vec<_> = sent.iter().map(|sent| sent.root_id.as_deref()).collect();
    assert_eq!(roots, [None, Some(question.message_id.as_str())]);
    running.stop().await;
}

#[tokio::test]
async fn addressing_and_mentions_are_read_from_the_event() {
    let running = Running::start(json!({})).await;
    let ben = nanobot_channel_feishu_fake::Person::new("ou_ben", "Ben 王");
    let to = |text: &str| Incoming::to(ROOM, &ann(), text);
    let table = [
        (to("@_user_1 /new").mentioning_bot(), "/new", true),
        (to("ask @_user_1").mentioning(&ben), "ask @Ben 王", false),
        (
            to("@_user_1 @_user_2 hi").mentioning(&ben).mentioning_bot(),
            "@Ben 王 @nanobot hi",
            true,
        ),
        (to("everybody").mentioning_all(), "@all everybody", true),
        (to("among us"), "among us", false),
    ];
    for (number, (incoming, text, is_addressed)) in (1..).zip(table) {
        running.push_and_wait(incoming).await;
        running.assistant.message(number).await.unwrap();
        let (message, arrival) = running.assistant.seen().arrived.pop().unwrap();
        assert_eq!(
            (message.content.as_str(), arrival.addressed),
            (text, is_addressed)
        );
    }
    // Other bots are left out.
    running
        .push_and_wait(to("I am a bot").mentioning_bot().from_app())
        .await;
    assert_eq!(running.assistant.seen().arrived.len(), 5);
    running.stop().await;
}

#[tokio::test]
async fn quoted_message_precedes_the_text() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let direct = |text: &str| Incoming::direct(&ann(), text);
    let long = "語".repeat(201);
    let png = b"\x89PNG\r\n\x1a\n".to_vec();
    let post = json!([[{"tag": "text", "text": "a post"}]]);
    let table = [
        (
            direct("an /old text"),
            "[Reply to: an /old text]".to_owned(),
        ),
        (
            direct(&long),
            format!("[Reply to: {}...]", "語".repeat(200)),
        ),
        (
            direct("").with_post("Title", &post),
            "[Reply to:]\n> Title\n> a post".to_owned(),
        ),
        (
            direct("").with_image("image/png", png),
            "[Reply to: [image: /media/image.jpg]]".to_owned(),
        ),
        (
            direct("").with_file("a.txt", "text/plain", "x"),
            "[Reply to: [file: /media/a.txt]]".to_owned(),
        ),
        (
            direct("").of_kind("sticker", json!({"file_key": "k"})),
            "[Reply to:]\n> [sticker]".to_owned(),
        ),
    ];
    for (number, (quoted, shown)) in (2..).zip(table) {
        let quoted = running.fake.push_silently(quoted).message_id;
        running
            .fake
            .push(direct("/what is this").replying_to(&quoted));
        let message = running.assistant.message(number).await.unwrap();
        assert_eq!(message.content, format!("{shown}\n/what is this"));
    }
    // What cannot be fetched is left out.
    let gone = running.fake.push_silently(direct("gone")).message_id;
    running.fake.withdraw(&gone);
    running.fake.push(direct("first").replying_to(&gone));
    assert_eq!(running.assistant.message(8).await.unwrap().content, "first");
    running.fake.fail_next("message.get", Fault::Status(502));
    running.fake.push(direct("second").replying_to(&gone));
    assert_eq!(
        running.assistant.message(9).await.unwrap().content,
        "second"
    );
    running.stop().await;
}

#[tokio::test]
async fn nothing_is_fetched_for_strangers() {
    let running = Running::start(json!({})).await;
    let quoted = Incoming::direct(&mallory(), "").with_file("a.txt", "text/plain", "x");
    let quoted = running.fake.push_silently(quoted).message_id;
    let forwarded = vec![Incoming::direct(&ann(), "secret")];
    let incoming = [
        Incoming::direct(&mallory(), "see").replying_to(&quoted),
        Incoming::direct(&mallory(), "").with_forwarded(forwarded),
        Incoming::direct(&mallory(), "").with_file("b.txt", "text/plain", "x"),
    ];
    for incoming in incoming {
        running.push_and_wait(incoming).await;
    }
    let calls = running.fake.calls().into_iter().map(|call| call.method);
    let usual = ["token", "bot.info", "ws.endpoint"];
    let other: Vec<_> = calls
        .filter(|method| !usual.contains(&method.as_str()))
        .collect();
    assert_eq!((other, running.fake.downloads()), (Vec::<String>::new(), 0));
    assert!(running.assistant.seen().arrived.is_empty());
    // A second question would take away the code that answers the first.
    assert_eq!(running.assistant.seen().asked.len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn every_kind_of_content_arrives() {
    let running = Running::start(json!({})).await;
    running.assistant.will_transcribe(" spoken ");
    let direct = |text: &str| Incoming::direct(&ann(), text);
    let png = b"\x89PNG\r\n\x1a\n".to_vec();
    let card = json!({"title": "Card", "elements": [[{"tag": "text", "text": "/new"}]]});
    let table = [
        (
            direct("").with_image("image/png", png.clone()),
            "[image: /media/image.jpg]",
        ),
        (
            direct("").with_audio(1000, "opus"),
            "[transcription: spoken]",
        ),
        (
            direct("").with_audio(1000, "opus"),
            "[audio: /media/audio.opus]",
        ),
        (
            direct("").with_video("film.mp4", 1000, "mp4"),
            "[video: /media/film.mp4]",
        ),
        (
            direct("").with_file("../a.txt", "text/plain", "x"),
            "[file: /media/../a.txt]",
        ),
        (
            direct("look").with_post_image("image/png", png),
            "look\n[image: /media/image.jpg]",
        ),
        (
            direct("").of_kind("interactive", card),
            "[card:]\n> Card\n> /new",
        ),
        (
            direct("").of_kind("share_chat", json!({"chat_id": "oc_1"})),
            "[shared chat: oc_1]",
        ),
        (
            direct("").of_kind("share_user", json!({"user_id": "ou_1"})),
            "[shared user: ou_1]",
        ),
        (
            direct("").of_kind("sticker", json!({"file_key": "k"})),
            "[sticker]",
        ),
        (
            direct("").of_kind("of_tomorrow", json!({})),
            "[of_tomorrow]",
        ),
        (
            direct("").with_forwarded(vec![direct("one"), direct("/new\nand ]")]),
            "[forwarded: one]\n[forwarded:]\n> /new\n> and ]",
        ),
    ];
    for (number, (incoming, text)) in (1..).zip(table) {
        running.push_and_wait(incoming).await;
        let message = running.assistant.message(number).await.unwrap();
        assert_eq!(message.content, text);
    }
    running.stop().await;
}

#[tokio::test]
async fn failed_downloads_are_stated() {
    let running = Running::start(json!({})).await;
    let file = || Incoming::direct(&ann(), "").with_file("a.txt", "text/plain", "x");
    let faults = [
        Fault::Status(500),
        Fault::Truncated,
        Fault::Error(234_003),
        Fault::WebPage,
    ];
    for (number, fault) in (1..).zip(faults) {
        let is_page = fault == Fault::WebPage;
        running.fake.fail_next("resource.get", fault);
        running.push_and_wait(file()).await;
        let message = running.assistant.message(number).await.unwrap();
        let text = "[file: a.txt: download failed]";
        // A page in place of a file cannot be told from a file.
        assert!(is_page || message.content == text, "{}", message.content);
    }
    let large = Incoming::direct(&ann(), "").with_file("large", "text/plain", vec![0; 1001]);
    running.push_and_wait(large).await;
    let message = running.assistant.message(5).await.unwrap();
    assert_eq!(message.content, "[file: large: download failed]");
    running.stop().await;
}

#[tokio::test]
async fn press_is_a_message_and_replaces_the_buttons() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "choose").mentioning_bot());
    let question = running.assistant.message(1).await.unwrap();
    let rows = vec![vec![
        Button {
            label: "Yes".to_owned(),
        },
        Button {
            label: "No".to_owned(),
        },
    ]];
    let part = with(reply(&question, "really?"), |message| {
        message.buttons = rows;
    });
    running.channel.send(&part).await.unwrap();
    let card = running.fake.sent().remove(0);
    // A stranger's press is no message.
    let ignored = running
        .fake
        .press(&card.message_id, &mallory(), "No")
        .unwrap();
    running.fake.wait_for_acknowledged(&ignored).await.unwrap();
    let pressed = running.fake.press(&card.message_id, &ann(), "Yes").unwrap();
    running.fake.wait_for_acknowledged(&pressed).await.unwrap();
    let choice = running.assistant.message(2).await.unwrap();
    assert_eq!(choice.content, "Yes");
    assert_eq!(place(&choice), place(&question));
    assert_eq!(choice.sender_id.as_str(), ann().open_id);
    running.shown("really?\n✓ Yes").await;
    assert!(running.fake.press(&card.message_id, &ann(), "No").is_none());
    // In a direct chat, the person is the chat, also after a restart.
    let hello = running.fake.push(Incoming::direct(&ann(), "hello"));
    let hello = (running.assistant.message(3).await.unwrap(), hello);
    let rows = vec![vec![Button {
        label: "Go".to_owned(),
    }]];
    let part = with(reply(&hello.0, "go?"), |message| {
        (message.buttons, message.key.position) = (rows, 1);
    });
    running.channel.send(&part).await.unwrap();
    let card = running.fake.sent().pop().unwrap();
    running.fake.press(&card.message_id, &ann(), "Go").unwrap();
    let choice = running.assistant.message(4).await.unwrap();
    assert_eq!(place(&choice), place(&hello.0));
    running.stop().await;
}

#[tokio::test]
async fn reactions_last_until_the_end_of_the_turn() {
    let running = Running::start(json!({"doneEmoji": "DONE"})).await;
    let first = running.hello().await;
    running.fake.push(Incoming::direct(&ann(), "and more"));
    let second = running.assistant.message(2).await.unwrap();
    let ids = [first, second.clone()].map(|message| message.id.unwrap().to_string());
    for id in &ids {
        running
            .fake
            .wait_for_reactions(id, &["THUMBSUP"])
            .await
            .unwrap();
    }
    let key = OutboundKey {
        turn: "turn".into(),
        position: 9,
    };
    let kind = OutboundKind::TurnEnd { unfinished: 0 };
    let end = OutboundMessage::in_reply_to(&second, key, kind, String::new());
    running
        .channel
        .turn_ends()
        .unwrap()
        .ended(&end)
        .await
        .unwrap();
    for id in &ids {
        assert_eq!(running.fake.reactions(id), ["DONE"]);
    }
    running.stop().await;
    // After a restart, the reaction of the answered message is looked up.
    let running = Running::start(json!({"doneEmoji": ""})).await;
    let hello = running.hello().await;
    let id = hello.id.as_ref().map(MessageId::to_string).unwrap();
    running
        .fake
        .wait_for_reactions(&id, &["THUMBSUP"])
        .await
        .unwrap();
    let restarted = crate::support::channel(&running.fake, &json!({}));
    let key = OutboundKey {
        turn: "turn".into(),
        position: 9,
    };
    let kind = OutboundKind::TurnEnd { unfinished: 0 };
    let end = OutboundMessage::in_reply_to(&hello, key, kind, String::new());
    restarted.turn_ends().unwrap().ended(&end).await.unwrap();
    assert_eq!(running.fake.reactions(&id), Vec::<String>::new());
    running.stop().await;
    let quiet = Running::start(json!({"reactEmoji": ""})).await;
    quiet.hello().await;
    assert!(quiet.channel.turn_ends().is_none());
    quiet.stop().await;
}
