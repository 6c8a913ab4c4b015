//! Catch-up: messages that were posted while nothing received them.

use nanobot_channel_slack_fake::{BOT_USER, Fault, Incoming};
use serde_json::json;

use crate::support::{ROOM, Running, ann, mallory};

fn to_room(text: &str) -> Incoming {
    Incoming::to(ROOM, &ann(), text)
}

fn mention(text: &str) -> Incoming {
    to_room(&format!("<@{BOT_USER}> {text}"))
}

#[tokio::test]
async fn messages_between_runs_are_fetched_in_order_and_once() {
    let keys = json!({"includeThreadContext": false});
    let running = Running::start(keys.clone()).await;
    running
        .fake
        .push_silently(Incoming::direct(&ann(), "before the first start"));
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    let question = running.push_and_wait(mention("a question")).await;
    running
        .push_and_wait(to_room("in the thread").in_thread(&question.ts))
        .await;
    let mut second = String::new();
    let running = running
        .restart(&keys, |fake| {
            fake.push_silently(Incoming::direct(&ann(), "one"));
            fake.push_silently(Incoming::direct(&mallory(), "a stranger"));
            fake.push_silently(mention("two"));
            fake.push_silently(to_room("three").in_thread(&question.ts));
            second = fake.push_silently(mention("four")).ts;
            fake.push_silently(to_room("five").in_thread(&second));
            fake.push_silently(
                to_room("six")
                    .in_thread(&question.ts)
                    .of_subtype("thread_broadcast"),
            );
            fake.push_silently(Incoming::direct(&ann(), "seven").with_file(
                "a.txt",
                "text/plain",
                "a",
            ));
        })
        .await;
    running.assistant.message(10).await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "eight"))
        .await;
    running.push_and_wait(to_room("nine")).await;
    let direct = running.arrived(&ann().direct());
    assert_eq!(
        (&direct[..2], &direct[3..]),
        (&["hello".into(), "one".into()][..], &["eight".into()][..])
    );
    assert!(direct[2].starts_with("seven\n"), "{direct:?}");
    assert_eq!(running.assistant.seen().kept.len(), 1);
    let room = [
        "a question",
        "in the thread",
        "two",
        "three",
        "four",
        "five",
        "six",
        "nine",
    ];
    assert_eq!(running.arrived(ROOM), room);
    let seen = running.assistant.seen();
    let five = seen
        .arrived
        .iter()
        .find(|(message, _)| message.content == "five")
        .unwrap();
    assert_eq!(
        five.0.session_key().to_string(),
        format!("slack:{ROOM}:{second}")
    );
    let four = seen
        .arrived
        .iter()
        .find(|(message, _)| message.content == "four")
        .unwrap();
    assert_eq!(
        (four.0.session_key(), four.1.addressed),
        (five.0.session_key(), true)
    );
    // Nothing is fetched a second time.
    let running = running.restart(&keys, |_| {}).await;
    running.push_and_wait(Incoming::direct(&ann(), "ten")).await;
    running.push_and_wait(to_room("eleven")).await;
    assert_eq!(
        running.assistant.seen().arrived.len(),
        seen.arrived.len() + 2
    );
    running.stop().await;
}

#[tokio::test]
async fn fetched_direct_messages_keep_their_session() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let running = running
        .restart(&json!({}), |fake| {
            let root = fake.push_silently(Incoming::direct(&ann(), "root")).ts;
            fake.push_silently(Incoming::direct(&ann(), "answer").in_thread(&root));
        })
        .await;
    let (root, answer) = (
        running.assistant.message(2).await.unwrap(),
        running.assistant.message(3).await.unwrap(),
    );
    assert_eq!(
        (root.content.as_str(), root.session_key()),
        ("root", hello.session_key())
    );
    let thread = root.id.unwrap();
    assert_eq!(
        answer.session_key().to_string(),
        format!("slack:{}:{thread}", ann().direct())
    );
    running.stop().await;
}

#[tokio::test]
async fn missed_messages_precede_live_ones_after_reconnect() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    running.fake.push_silently(Incoming::direct(&ann(), "lost"));
    running
        .fake
        .fail_next("conversations.history", Fault::Status(503));
    running
        .fake
        .fail_next("conversations.history", Fault::RetryAfter(1));
    running.fake.cut();
    running.fake.wait_for_connections(2).await.unwrap();
    running.fake.push(Incoming::direct(&ann(), "later"));
    running.assistant.message(3).await.unwrap();
    assert_eq!(running.arrived(&ann().direct()), ["hello", "lost", "later"]);
    let calls = running.fake.calls_of("conversations.history");
    assert_eq!(calls.len(), 3);
    assert!(
        (calls[2].at - calls[1].at).as_secs() >= 1,
        "the pause that Slack asks for is kept"
    );
    running.stop().await;
}

#[tokio::test]
async fn live_event_waits_only_for_its_own_conversation() {
    let keys = json!({"includeThreadContext": false, "requestTimeout": 600});
    let running = Running::start(keys.clone()).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    running.push_and_wait(mention("hello")).await;
    // The conversation that is asked for first is never answered for.
    running.fake.fail_next("conversations.history", Fault::Hang);
    let running = running
        .restart(&keys, |fake| {
            fake.push_silently(Incoming::direct(&ann(), "missed"));
            fake.push_silently(mention("missed"));
        })
        .await;
    let first = running
        .fake
        .wait_for_calls("conversations.history", 1)
        .await
        .unwrap()
        .remove(0);
    let (other, live) = match first.params["channel"] == ROOM {
        true => (ann().direct(), Incoming::direct(&ann(), "live")),
        false => (ROOM.to_owned(), mention("live")),
    };
    running.push_and_wait(live).await;
    assert_eq!(running.arrived(&other), ["hello", "missed", "live"]);
    running.stop().await;
}

#[tokio::test]
async fn missing_scope_is_reported_once() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    for number in 1..=2 {
        running
            .fake
            .push_silently(Incoming::direct(&ann(), "never heard"));
        running
            .fake
            .fail_next("conversations.history", Fault::error("missing_scope"));
        running.fake.cut();
        running
            .fake
            .wait_for_calls("conversations.history", number)
            .await
            .unwrap();
        running
            .push_and_wait(Incoming::direct(&ann(), &format!("hello again {number}")))
            .await;
    }
    assert_eq!(
        running.arrived(&ann().direct()),
        ["hello", "hello again 1", "hello again 2"]
    );
    let degraded = running.assistant.seen().degraded;
    assert_eq!(
        degraded
            .iter()
            .filter(|why| why.contains("the scope im:history"))
            .count(),
        1,
        "{degraded:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn removed_conversation_is_not_fetched_again() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    running.push_and_wait(mention("hello")).await;
    running
        .fake
        .fail_next("conversations.history", Fault::error("channel_not_found"));
    running
        .fake
        .fail_next("conversations.history", Fault::error("channel_not_found"));
    let running = running.restart(&json!({}), |_| {}).await;
    // A stranger leaves no mark, and is handled after the missed messages of a conversation.
    running
        .push_and_wait(Incoming::to(&ann().direct(), &mallory(), "let me in"))
        .await;
    running
        .push_and_wait(Incoming::to(ROOM, &mallory(), "let me in"))
        .await;
    assert_eq!(running.fake.calls_of("conversations.history").len(), 2);
    let notes = std::sync::Arc::clone(running.assistant.notes());
    running.stop().await;
    let note: serde_json::Value = serde_json::from_str(&notes.all()["heard"]).unwrap();
    assert_eq!(note, json!({"account": BOT_USER, "places": []}));
}
