//! Polls while there is no socket, and the return to it.

use nanobot_channel::ChannelError;
use nanobot_channel_mochat_fake::{Fault, Incoming};
use serde_json::{Value, json};

use crate::support::{ROOM, Running, ann, ben, fake};

fn off() -> Value {
    json!({"replyDelayMode": "off"})
}

#[tokio::test]
async fn messages_are_polled_without_a_socket_and_pushed_with_one() {
    let fake = fake().await;
    fake.refuse_sockets(true);
    let running = Running::at(fake, &off());
    // The first polls pass over the history.
    running.positioned(&ann().direct()).await;
    running.fake.push(Incoming::direct(&ann(), "one"));
    running.last("one").await;
    running.fake.push(Incoming::to(ROOM, &ann(), "two"));
    running.last("two").await;
    let impaired = running.assistant.seen().impaired;
    let why = "messages are polled, because the socket cannot be opened: ";
    let reason = impaired.iter().find_map(|text| text.strip_prefix(why));
    assert!(
        reason.is_some_and(|reason| !reason.contains(": ")),
        "one reason without errors around it: {impaired:?}"
    );
    running.fake.refuse_sockets(false);
    running.subscribed().await;
    running.fake.push(Incoming::direct(&ann(), "three"));
    running.last("three").await;
    // And back again.
    running.fake.refuse_sockets(true);
    running.fake.push(Incoming::direct(&ann(), "four"));
    running.last("four").await;
    running.fake.push(Incoming::to(ROOM, &ann(), "five"));
    assert_eq!(
        running.last("five").await,
        ["one", "two", "three", "four", "five"]
    );
    running.stop().await;
}

#[tokio::test]
async fn failed_polls_are_repeated() {
    let fake = fake().await;
    fake.refuse_sockets(true);
    let running = Running::at(fake, &json!({"watchTimeoutMs": 20, "panels": []}));
    running.positioned(&ann().direct()).await;
    let table = [
        Fault::Status(502),
        Fault::Error(500),
        Fault::RateLimitedFor(0),
        Fault::WebPage,
        Fault::Drop,
        Fault::Truncated,
        Fault::Answer(200, json!({"code": 200, "data": []})),
    ];
    for (number, fault) in (1..).zip(table) {
        running.fake.fail_next("sessions.watch", fault.clone());
        let text = format!("number {number}");
        running.fake.push(Incoming::direct(&ann(), &text));
        assert_eq!(running.last(&text).await.len(), number, "{fault:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn polls_that_keep_failing_end_the_run() {
    let running = Running::start(json!({"requestTimeout": 5.0})).await;
    running.hello().await;
    running.fake.go_down().await.unwrap();
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn refused_token_ends_the_polls() {
    let fake = fake().await;
    fake.refuse_sockets(true);
    let running = Running::at(fake, &json!({}));
    running.positioned(&ann().direct()).await;
    running.fake.revoke_credentials();
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn attempts_to_connect_end_at_their_limit() {
    let fake = fake().await;
    let refusal = Fault::ErrorWith(500, 500, "busy".to_owned());
    for _ in 0..5 {
        fake.fail_next("connect", refusal.clone());
    }
    let mut keys = off();
    keys["maxRetryAttempts"] = json!(3);
    let running = Running::at(fake, &keys);
    running.fake.wait_for_refused_logins(3).await.unwrap();
    // Polls go on for much longer than the pause between two attempts.
    let polls = running.fake.calls_of("panels.messages").len();
    running
        .fake
        .wait_for_calls("panels.messages", polls + 20)
        .await
        .unwrap();
    assert_eq!(running.fake.refused_logins(), 3);
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "still polled"));
    running.last("still polled").await;
    running.stop().await;
}

#[tokio::test]
async fn target_that_is_gone_harms_no_other() {
    let keys = json!({"sessions": ["session_ann", "session_ben", "session_gone"], "panels": [ROOM, "panel_gone"],
                      "replyDelayMode": "off"});
    let fake = fake().await;
    fake.add_person(&ben());
    let running = Running::at(fake, &keys);
    running.subscribed().await;
    running.fake.set_membership("session_ben", false);
    running.fake.cut();
    running.fake.wait_for_connections(2).await.unwrap();
    running.subscribed().await;
    running.fake.push(Incoming::direct(&ann(), "one"));
    running.last("one").await;
    running.fake.push(Incoming::to(ROOM, &ann(), "two"));
    assert_eq!(running.last("two").await, ["one", "two"]);
}
