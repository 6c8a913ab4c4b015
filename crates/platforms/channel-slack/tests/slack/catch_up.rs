//! What was said while nobody listened.

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
async fn what_was_said_between_two_runs_is_fetched_in_order_and_once() {
    let keys = json!({"includeThreadContext": false});
    let running = Running::start(keys.clone()).await;
    running
        .fake
        .push_silently(Incoming::direct(&ann(), "before the first start"));
    running.said(Incoming::direct(&ann(), "hello")).await;
    let question = running.said(mention("a question")).await;
    running
        .said(to_room("in the thread").in_thread(&question.ts))
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
    running.said(Incoming::direct(&ann(), "eight")).await;
    running.said(to_room("nine")).await;
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
    running.said(Incoming::direct(&ann(), "ten")).await;
    running.said(to_room("eleven")).await;
    assert_eq!(
        running.assistant.seen().arrived.len(),
        seen.arrived.len() + 2
    );
    running.stop().await;
}

#[tokio::test]
async fn a_direct_conversation_goes_on_in_its_session() {
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
async fn what_was_lost_with_a_connection_comes_before_what_is_said_after_it() {
    let running = Running::start(json!({})).await;
    running.said(Incoming::direct(&ann(), "hello")).await;
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
async fn what_is_told_live_waits_for_its_own_conversation_alone() {
    let keys = json!({"includeThreadContext": false, "requestTimeout": 600});
    let running = Running::start(keys.clone()).await;
    running.said(Incoming::direct(&ann(), "hello")).await;
    running.said(mention("hello")).await;
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
    running.said(live).await;
    assert_eq!(running.arrived(&other), ["hello", "missed", "live"]);
    running.stop().await;
}

#[tokio::test]
async fn a_missing_scope_is_said_once() {
    let running = Running::start(json!({})).await;
    running.said(Incoming::direct(&ann(), "hello")).await;
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
            .said(Incoming::direct(&ann(), &format!("hello again {number}")))
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
async fn a_conversation_that_is_gone_is_not_asked_for_again() {
    let running = Running::start(json!({})).await;
    running.said(Incoming::direct(&ann(), "hello")).await;
    running.said(mention("hello")).await;
    running
        .fake
        .fail_next("conversations.history", Fault::error("channel_not_found"));
    running
        .fake
        .fail_next("conversations.history", Fault::error("channel_not_found"));
    let running = running.restart(&json!({}), |_| {}).await;
    // A stranger, of whom nothing is noted, is dealt with behind what was missed in a conversation.
    running
        .said(Incoming::to(&ann().direct(), &mallory(), "let me in"))
        .await;
    running
        .said(Incoming::to(ROOM, &mallory(), "let me in"))
        .await;
    assert_eq!(running.fake.calls_of("conversations.history").len(), 2);
    let notes = std::sync::Arc::clone(running.assistant.notes());
    running.stop().await;
    let note: serde_json::Value = serde_json::from_str(&notes.all()["heard"]).unwrap();
    assert_eq!(note, json!({"account": BOT_USER, "places": []}));
}
