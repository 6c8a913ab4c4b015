//! The long connection: heartbeats, takeovers, reconnecting, subscriptions, hostile frames.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{Admission, ChannelError};
use nanobot_channel_wecom_fake::{Fault, Incoming};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

use crate::support::{Running, ann, channel, fake, part, reply};

/// Interval of heartbeats.
const BEAT: Duration = Duration::from_secs(30);

/// Lets time pass for the channel.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn accepted_subscription_is_a_sign_of_life() {
    let running = Running::start(json!({})).await;
    running
        .assistant
        .wait_until("a sign of life", |seen| seen.alive > 0)
        .await
        .unwrap();
    assert!(running.fake.calls_of("ping").is_empty());
    running.stop().await;
}

#[tokio::test]
async fn heartbeat_is_a_sign_of_life() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let alive = running.assistant.seen().alive;
    pass(BEAT).await;
    running.fake.wait_for_calls("ping", 1).await.unwrap();
    running
        .assistant
        .wait_until("a sign of life", |seen| seen.alive > alive)
        .await
        .unwrap();
    assert_eq!(running.fake.connections(), 1);
    running.stop().await;
}

#[tokio::test]
async fn connection_without_answers_is_replaced() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    for count in 1..=2 {
        running.fake.fail_next("ping", Fault::Hang);
        pass(BEAT).await;
        running.fake.wait_for_calls("ping", count).await.unwrap();
    }
    assert_eq!(running.fake.connections(), 1);
    pass(BEAT).await;
    running.fake.wait_for_subscriptions(2).await.unwrap();
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    assert_eq!(running.fake.calls_of("ping").len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn takeover_ends_the_run() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let rival = channel(&running.fake, &json!({}));
    let rival = ChannelRun::start(rival, &running.assistant, &[]);
    let usurped = running.channel.clone();
    let (fake, error) = running.end().await;
    assert!(matches!(error, ChannelError::Conflict(_)), "{error}");
    assert_eq!(fake.subscriptions(), 2);
    // Neither a send nor a probe takes the connection back.
    let error = usurped.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    usurped.probe().unwrap().probe().await.unwrap();
    assert!(fake.is_subscribed());
    assert_eq!(fake.subscriptions(), 2);
    rival.stop().await.unwrap();
    assert_eq!(fake.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn received_messages_are_stored_before_the_run_ends() {
    for is_takeover in [true, false] {
        let running = Running::start(json!({})).await;
        running.assistant.hold(true);
        running.assistant.will_answer([Admission::TryLater]);
        running.fake.push(Incoming::direct(&ann(), "first"));
        let second = running.fake.push(Incoming::direct(&ann(), "second"));
        running.fake.wait_for_deliveries(&second, 1).await.unwrap();
        running.assistant.message(1).await.unwrap();
        let reason = if is_takeover {
            "another program receives with these credentials"
        } else {
            "the platform refuses the credentials"
        };
        let rival = is_takeover.then(|| {
            let assistant = Arc::new(Assistant::new("mallory"));
            ChannelRun::start(channel(&running.fake, &json!({})), &assistant, &[])
        });
        if !is_takeover {
            running.fake.revoke_credentials();
        }
        let assistant = Arc::clone(&running.assistant);
        let is_shown = |why: &String| why.starts_with(reason);
        assistant
            .wait_until(reason, |seen| seen.degraded.iter().any(is_shown))
            .await
            .unwrap();
        assistant.hold(false);
        let (_fake, error) = running.end().await;
        assert!(error.to_string().starts_with(reason), "{error}");
        let arrived = assistant.seen().arrived.into_iter();
        let arrived: Vec<String> = arrived.map(|(message, _)| message.content).collect();
        assert_eq!(arrived, ["first", "first", "second"], "{reason}");
        if let Some(rival) = rival {
            rival.stop().await.unwrap();
        }
    }
}

#[tokio::test]
async fn connections_are_replaced_after_every_kind_of_failure() {
    let fake = fake().await;
    fake.fail_next("socket", Fault::Status(503));
    fake.fail_next("socket", Fault::Drop);
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    running.fake.close();
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    running.fake.cut();
    running
        .receive(Incoming::direct(&ann(), "and again"), 3)
        .await;
    assert_eq!(running.arrived(), ["hello", "again", "and again"]);
    let degraded = running.assistant.seen().degraded;
    let first = "the socket was refused with 503 Service Unavailable";
    assert!(degraded.iter().any(|why| why == first), "{degraded:?}");
    running.stop().await;
}

#[tokio::test]
async fn busy_and_silent_subscriptions_are_repeated() {
    let fake = fake().await;
    fake.fail_next("aibot_subscribe", Fault::error(-1));
    fake.fail_next("aibot_subscribe", Fault::Hang);
    let running = Running::at(fake, &json!({"requestTimeout": 0.3}));
    running.hello().await;
    assert_eq!(running.fake.calls_of("aibot_subscribe").len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn refused_subscription_ends_the_run() {
    for code in [853_000, 40_058, 1] {
        let fake = fake().await;
        fake.fail_next("aibot_subscribe", Fault::error(code));
        let (_, error) = Running::at(fake, &json!({})).end().await;
        assert!(matches!(error, ChannelError::Auth(_)), "{code}: {error}");
    }
    let (_, error) = Running::start(json!({"secret": "wrong"})).await.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    // A platform that is away is another matter.
    let away = json!({"wsUrl": "ws://127.0.0.1:9"});
    let (_, error) = Running::start(away).await.end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn forgotten_subscription_is_renewed() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.forget_subscriptions();
    let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    running.channel.send(&part(&hello, 1, "x")).await.unwrap();
    assert_eq!(running.texts(), ["x"]);
    running.stop().await;
}

#[tokio::test]
async fn answers_are_matched_with_their_commands() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.fail_next("aibot_send_msg", Fault::Hold);
    let first = part(&hello, 0, "first");
    let second = part(&hello, 1, "second");
    let other = async {
        running
            .fake
            .wait_for_calls("aibot_send_msg", 1)
            .await
            .unwrap();
        // This one need not wait for the answer to the other.
        running.channel.send(&second).await.unwrap();
        running.fake.release_answers();
    };
    let (sent, ()) = tokio::join!(running.channel.send(&first), other);
    sent.unwrap();
    assert_eq!(running.texts(), ["first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn hostile_frames_do_no_harm() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let large = "x".repeat(1 << 20);
    let frames = [
        "[".repeat(1 << 20),
        "{\"body\":".repeat(1 << 16),
        json!({"cmd": large, "headers": {"req_id": large}}).to_string(),
        json!({"cmd": "aibot_msg_callback", "headers": {"req_id": large}, "body": [large]})
            .to_string(),
        json!({"headers": {"req_id": "ping_1"}, "errcode": large}).to_string(),
        json!({"cmd": "aibot_event_callback", "body": {"event": {"eventtype": 5}}}).to_string(),
    ];
    for frame in &frames {
        running.fake.push_text_frame(frame);
    }
    running.fake.push_binary_frame(vec![0x7b; 1 << 16]);
    running
        .receive(Incoming::direct(&ann(), "still there"), 2)
        .await;
    assert_eq!(running.arrived(), ["hello", "still there"]);
    assert_eq!(running.fake.connections(), 1);
    running.stop().await;
}

#[tokio::test]
async fn sends_go_on_while_messages_wait_to_be_stored() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.assistant.hold(true);
    for number in 0..400 {
        running
            .fake
            .push(Incoming::direct(&ann(), &number.to_string()));
    }
    let delivery = running.fake.push(Incoming::direct(&ann(), "the last"));
    running
        .fake
        .wait_for_deliveries(&delivery, 1)
        .await
        .unwrap();
    running.assistant.hold(false);
    running.assistant.message(402).await.unwrap();
    running.channel.send(&reply(&hello, "x")).await.unwrap();
    let arrived = running.arrived();
    assert_eq!(arrived.len(), 402);
    assert_eq!(arrived[401], "the last");
    running.stop().await;
}
