//! Connections, acknowledgements, and what happens when they fail.

use std::time::Duration;

use nanobot_channel::{Admission, ChannelError};
use nanobot_channel_slack_fake::{Fault, Incoming, SlackFake};
use serde_json::json;

use crate::support::{Running, ann, channel};

#[tokio::test]
async fn late_envelope_is_redelivered_and_deduplicated() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.assistant.hold(true);
    let pushed = running.fake.push(Incoming::direct(&ann(), "slow"));
    running.fake.wait_for_deliveries(&pushed, 2).await.unwrap();
    assert!(!running.fake.is_acknowledged(&pushed));
    running.assistant.hold(false);
    running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    assert_eq!(running.assistant.seen().arrived.len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn unstored_message_is_offered_again_in_order() {
    let running = Running::start(json!({})).await;
    running
        .assistant
        .will_answer([Admission::TryLater, Admission::TryLater]);
    let first = running.fake.push(Incoming::direct(&ann(), "first"));
    let second = running.fake.push(Incoming::direct(&ann(), "second"));
    running.fake.wait_for_acknowledged(&first).await.unwrap();
    running.fake.wait_for_acknowledged(&second).await.unwrap();
    let texts: Vec<_> = running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .map(|(message, _)| message.content)
        .collect();
    assert_eq!(texts, ["first", "first", "first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn thousand_reconnects_lose_nothing() {
    let running = Running::start(json!({"reactEmoji": "", "doneEmoji": ""})).await;
    let reasons = ["warning", "refresh_requested", "link_disabled"];
    for number in 1..=1000 {
        let pushed = running
            .fake
            .push(Incoming::direct(&ann(), &number.to_string()));
        running.fake.wait_for_acknowledged(&pushed).await.unwrap();
        running.fake.disconnect(reasons[number % reasons.len()]);
    }
    let texts: Vec<_> = running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .map(|(message, _)| message.content)
        .collect();
    let expected: Vec<_> = (1..=1000).map(|number: usize| number.to_string()).collect();
    assert_eq!(texts, expected);
    assert!(running.fake.connections() >= 1000);
    running.stop().await;
}

#[tokio::test]
async fn failing_connections_back_off() {
    let fake = SlackFake::start().await.unwrap();
    fake.disconnect_at_once(3);
    fake.fail_next("socket", Fault::Drop);
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    let times: Vec<_> = running
        .fake
        .calls_of("apps.connections.open")
        .into_iter()
        .map(|call| call.at)
        .collect();
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses.len(), 4, "{pauses:?}");
    for (pause, shortest) in pauses.iter().zip([500, 1000, 2000, 4000]) {
        assert!(*pause >= Duration::from_millis(shortest), "{pauses:?}");
    }
    assert_eq!(running.assistant.seen().degraded.len(), 4);
    running.stop().await;
}

#[tokio::test]
async fn reconnect_honours_retry_after() {
    let fake = SlackFake::start().await.unwrap();
    fake.fail_next("apps.connections.open", Fault::RetryAfter(1));
    fake.fail_next("auth.test", Fault::Status(503));
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    let times: Vec<_> = running
        .fake
        .calls_of("apps.connections.open")
        .into_iter()
        .map(|call| call.at)
        .collect();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "{times:?}");
    let expected = [
        "something on the way to Slack answered 503 Service Unavailable",
        "Slack asks for a pause of 1 s",
    ];
    assert_eq!(running.assistant.seen().degraded, expected);
    running.stop().await;
}

#[tokio::test]
async fn second_connection_of_the_app_is_reported() {
    let fake = SlackFake::start().await.unwrap();
    fake.claim_connections(2);
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    let seen = running.assistant.seen();
    assert!(
        matches!(seen.degraded.as_slice(), [why] if why.contains("another program is connected")),
        "{seen:#?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn permanent_errors_end_the_channel() {
    let table = [
        (
            "auth.test",
            "invalid_auth",
            "the platform refuses the credentials: invalid_auth; check botToken and appToken",
        ),
        (
            "apps.connections.open",
            "missing_scope",
            "the platform refuses the credentials: missing_scope",
        ),
    ];
    for (method, code, text) in table {
        let fake = SlackFake::start().await.unwrap();
        fake.fail_next(method, Fault::error(code));
        let error = Running::at(fake, &json!({})).end().await;
        assert_eq!(error.to_string(), text);
        assert!(error.is_permanent());
    }
    // A platform that is away is another matter.
    let fake = SlackFake::start().await.unwrap();
    let running = Running::at(fake, &json!({"apiBase": "http://127.0.0.1:9/api"}));
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn bot_and_app_tokens_are_not_interchanged() {
    let fake = SlackFake::start().await.unwrap();
    let mixed = channel(&fake, &json!({"botToken": "xoxb-of-somebody-else"}));
    let error = mixed.probe().unwrap().probe().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the platform refuses the credentials: invalid_auth; check botToken and appToken"
    );
}
