//! Messages of people: sessions, panels, mentions, rules, strangers, and what is no message.

use nanobot_channel::{Arrival, ChatKind, SessionKey};
use nanobot_channel_mochat_fake::{Feed, GROUP_ID, Incoming, Mention};
use serde_json::{Value, json};

use crate::support::{ROOM, Running, ann, ben, fake, mallory};

#[tokio::test]
async fn session_continues_that_of_the_python_program() {
    let running = Running::start(json!({})).await;
    let pushed = running.fake.push(Incoming::direct(&ann(), " hello "));
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(message.content, "hello");
    assert_eq!(
        message.session_key(),
        SessionKey::from("mochat:session_ann")
    );
    assert_eq!(
        (message.sender_id.as_str(), message.chat_id.as_str()),
        ("ann", "session_ann")
    );
    let metadata = Value::Object(message.metadata);
    let expected = json!({
        "message_id": pushed.message_id, "timestamp": metadata["timestamp"], "is_group": false,
        "group_id": "", "sender_name": "Ann", "sender_username": "", "target_kind": "session",
        "was_mentioned": false, "buffered_count": 1,
    });
    assert!(metadata["timestamp"].is_i64());
    assert_eq!(metadata, expected);
    running.stop().await;
}

#[tokio::test]
async fn content_is_text_or_json() {
    let running = Running::start(json!({})).await;
    let direct = |content: Value| Incoming::direct(&ann(), "").with_content(content);
    let table = [
        (json!("語 🙂"), "語 🙂"),
        (json!({"a": [1]}), r#"{"a":[1]}"#),
        (json!(" "), "[empty message]"),
        (json!(null), "[empty message]"),
    ];
    for (number, (content, expected)) in (1..).zip(table) {
        running.fake.push(direct(content));
        assert_eq!(
            running.assistant.message(number).await.unwrap().content,
            expected
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn every_form_of_a_mention_addresses_the_agent() {
    let running = Running::start(json!({"replyDelayMode": "off"})).await;
    let say = |text: &str| Incoming::to(ROOM, &ann(), text);
    running
        .fake
        .push(say("to the others").mentioning(&mallory()));
    running.assistant.message(1).await.unwrap();
    for (number, form) in (2..).zip(Mention::ALL) {
        running.fake.push(say("/new").mentioning_robot_as(form));
        let message = running.assistant.message(number).await.unwrap();
        // A mention at the beginning hides no command.
        assert_eq!(message.content, "/new", "{form:?}");
    }
    let arrived = running.assistant.seen().arrived;
    let addressed: Vec<bool> = arrived
        .iter()
        .map(|(_, arrival)| arrival.addressed)
        .collect();
    assert!(!addressed[0] && addressed[1..].iter().all(|is_addressed| *is_addressed));
    let expected = Arrival {
        parents: vec![GROUP_ID.into()],
        ..Arrival::group(false)
    };
    assert_eq!(arrived[0].1, expected);
    running.stop().await;
}

#[tokio::test]
async fn session_of_a_group_is_no_direct_chat() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::direct(&ann(), "hello").in_group(GROUP_ID));
    running.assistant.message(1).await.unwrap();
    let (_, arrival) = running.assistant.seen().arrived.pop().unwrap();
    assert_eq!((arrival.kind, arrival.addressed), (ChatKind::Group, false));
    running.stop().await;
}

#[tokio::test]
async fn rules_decide_which_panels_need_a_mention() {
    let rules = [
        (json!({"mention": {"requireInGroups": true}}), true),
        (json!({"groups": {"*": {"requireMention": true}}}), true),
        (json!({"groups": {ROOM: {"requireMention": true}}}), true),
        (
            json!({"mention": {"requireInGroups": true}, "groups": {GROUP_ID: {"requireMention": false}}}),
            false,
        ),
        (json!({}), false),
    ];
    for mode in ["off", "non-mention"] {
        for (rule, is_needed) in &rules {
            let mut keys = rule.clone();
            keys["replyDelayMode"] = json!(mode);
            let running = Running::start(keys).await;
            running.fake.push(Incoming::to(ROOM, &ann(), "without"));
            running
                .fake
                .push(Incoming::to(ROOM, &ann(), "with").mentioning_robot());
            let expected: &[&str] = match (*is_needed, mode) {
                (true, _) => &["with"],
                (false, "off") => &["without", "with"],
                (false, _) => &["Ann: without\nAnn: with"],
            };
            let last = expected.last().unwrap();
            assert_eq!(running.last(last).await, expected, "{mode} {rule}");
            running.stop().await;
        }
    }
}

#[tokio::test]
async fn changes_of_messages_are_no_messages() {
    let running = Running::start(json!({"replyDelayMode": "off"})).await;
    for incoming in [
        Incoming::direct(&ann(), "first"),
        Incoming::to(ROOM, &ann(), "first").mentioning_robot(),
    ] {
        let pushed = running.fake.push(incoming);
        running.fake.update(&pushed, "changed");
        running.fake.recall(&pushed);
        running.fake.delete(&pushed);
    }
    running.fake.push(Incoming::direct(&ann(), "last"));
    running.fake.push(Incoming::to(ROOM, &ann(), "last"));
    running.assistant.message(4).await.unwrap();
    let mut arrived = running.arrived();
    arrived.sort();
    assert_eq!(arrived, ["first", "first", "last", "last"]);
    running.stop().await;
}

#[tokio::test]
async fn notifications_alone_bring_every_message() {
    let fake = fake().await;
    fake.feed(Feed::Notifications);
    let running = Running::at(fake, &json!({"replyDelayMode": "off"}));
    running.subscribed().await;
    // The notification has a part of the text, the session has all of it.
    let long = "x".repeat(500);
    running.fake.push(Incoming::direct(&ann(), &long));
    assert_eq!(running.assistant.message(1).await.unwrap().content, long);
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "in the panel"));
    running.last("in the panel").await;
    running.stop().await;
}

#[tokio::test]
async fn first_message_of_a_new_session_arrives() {
    let running = Running::start(json!({"refreshIntervalMs": 3_600_000})).await;
    running.fake.push(Incoming::direct(&ben(), "who are you"));
    assert_eq!(running.last("who are you").await, ["who are you"]);
    running
        .fake
        .wait_for_subscription(&ben().direct())
        .await
        .unwrap();
    running.fake.push(Incoming::direct(&ben(), "and now"));
    assert_eq!(running.last("and now").await, ["who are you", "and now"]);
    running.stop().await;
}

#[tokio::test]
async fn new_sessions_and_panels_are_found() {
    let running = Running::start(json!({"replyDelayMode": "off"})).await;
    running.fake.add_person(&ben());
    running.fake.add_panel("panel2");
    running
        .fake
        .wait_for_subscription(&ben().direct())
        .await
        .unwrap();
    running.fake.wait_for_subscription("panel2").await.unwrap();
    running.fake.push(Incoming::direct(&ben(), "hello"));
    running.last("hello").await;
    running.stop().await;
}

#[tokio::test]
async fn only_named_targets_are_received() {
    let keys = json!({"sessions": ["session_ann"], "panels": [ROOM], "replyDelayMode": "off"});
    let running = Running::start(keys).await;
    running.fake.push(Incoming::direct(&ben(), "not named"));
    running
        .fake
        .push(Incoming::to("panel2", &ann(), "not named"));
    running.fake.push(Incoming::direct(&ann(), "one"));
    running.last("one").await;
    running.fake.push(Incoming::to(ROOM, &ann(), "two"));
    assert_eq!(running.last("two").await, ["one", "two"]);
    assert!(!running.fake.is_subscribed(&ben().direct()) && !running.fake.is_subscribed("panel2"));
    running.stop().await;
}

#[tokio::test]
async fn stranger_gets_a_code_in_a_session_only() {
    let running = Running::start(json!({"replyDelayMode": "off"})).await;
    running.assistant.will_pair_strangers("Your code: ABCD");
    running
        .fake
        .push(Incoming::to(ROOM, &mallory(), "hello").mentioning_robot());
    running.fake.push(Incoming::direct(&mallory(), "hello"));
    let told = running
        .fake
        .wait_for("a code", |sent| sent.last().cloned())
        .await
        .unwrap();
    assert_eq!(
        (told.chat_id, told.text),
        (mallory().direct(), "Your code: ABCD".to_owned())
    );
    running.fake.push(Incoming::to(ROOM, &ann(), "hello"));
    assert_eq!(running.last("hello").await, ["hello"]);
    assert_eq!(running.texts().len(), 1);
    running.stop().await;
}
