//! The gateway: sessions, resumption, heartbeats, close codes, restarts, hostile frames.

use std::time::Duration;

use nanobot_channel::{Admission, ChannelError};
use nanobot_channel_qq_fake::{DIRECT_MESSAGE, Fault, Incoming};
use nanobot_testkit::ChannelRun;
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, fake, mallory};

#[tokio::test]
async fn session_advances_only_past_stored_messages() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.assistant.hold(true);
    let held = running.fake.push(Incoming::direct(&ann(), "slow"));
    let other = Incoming::to_group(ROOM, &ann(), "other").mentioning_bot();
    running.fake.push(other);
    running.assistant.message(3).await.unwrap();
    running.fake.cut();
    running.fake.wait_for_resumes(1).await.unwrap();
    running.fake.wait_for_deliveries(&held, 2).await.unwrap();
    assert!(!running.fake.is_acknowledged(&held));
    running.assistant.hold(false);
    running.fake.wait_for_acknowledged(&held).await.unwrap();
    let mut arrived = running.arrived();
    arrived.sort();
    assert_eq!(arrived, ["hello", "other", "slow"]);
    running.stop().await;
}

#[tokio::test]
async fn unstored_message_is_offered_again_in_order() {
    let running = Running::start(json!({})).await;
    running.assistant.will_answer([Admission::TryLater; 2]);
    running.fake.push(Incoming::direct(&ann(), "first"));
    running
        .push_and_wait(Incoming::direct(&ann(), "second"))
        .await;
    assert_eq!(running.arrived(), ["first", "first", "first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn missed_messages_arrive_after_every_end_that_keeps_the_session() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let ends: [fn(&Running); 6] = [
        |running| running.fake.cut(),
        |running| running.fake.reconnect(),
        |running| running.fake.invalidate(true),
        |running| running.fake.close_with(1000),
        |running| running.fake.close_with(4008),
        |running| running.fake.close_with(4009),
    ];
    for (count, end) in (1..).zip(ends) {
        end(&running);
        // It is pushed to a session without a connection, or while that one ends.
        let text = format!("missed {count}");
        running.push_and_wait(Incoming::direct(&ann(), &text)).await;
        running.fake.wait_for_resumes(count).await.unwrap();
    }
    assert_eq!(running.arrived().len(), 7);
    assert_eq!(running.fake.identifies(), 1);
    running.stop().await;
}

#[tokio::test]
async fn new_session_follows_every_end_of_the_old_one() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let ends: [fn(&Running); 3] = [
        |running| running.fake.invalidate(false),
        |running| running.fake.close_with(4006),
        |running| running.fake.close_with(4007),
    ];
    for (count, end) in (2..).zip(ends) {
        end(&running);
        running.fake.wait_for_identifies(count).await.unwrap();
        running.fake.wait_for_ready(1).await.unwrap();
        let text = format!("new {count}");
        running.push_and_wait(Incoming::direct(&ann(), &text)).await;
    }
    assert_eq!(running.arrived(), ["hello", "new 2", "new 3", "new 4"]);
    running.stop().await;
}

#[tokio::test]
async fn forgotten_session_is_replaced() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.fake.advance(Duration::from_mins(20));
    // The gateway closes sessions of another time.
    running.fake.go_down().await.unwrap();
    running.fake.advance(Duration::from_mins(20));
    running.fake.come_back().await.unwrap();
    running.fake.wait_for_identifies(2).await.unwrap();
    running.fake.wait_for_ready(1).await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "again"))
        .await;
    assert_eq!(running.arrived(), ["hello", "again"]);
    running.stop().await;
}

#[tokio::test]
async fn restart_continues_the_session_where_it_was() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let (fake, assistant) = running.halt().await;
    fake.push(Incoming::direct(&ann(), "while away"));
    let running = Running::with(fake, &json!({}), assistant);
    running.fake.wait_for_resumes(1).await.unwrap();
    running.assistant.message(2).await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "back"))
        .await;
    assert_eq!(running.arrived(), ["hello", "while away", "back"]);
    assert_eq!(running.fake.identifies(), 1);
    // The session of another bot is of no use.
    let (fake, assistant) = running.halt().await;
    let base = fake.base_url().replace("127.0.0.1", "localhost");
    let running = Running::with(fake, &json!({"apiBase": base}), assistant);
    running.fake.wait_for_identifies(2).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn session_is_noted_while_the_channel_runs() {
    let running = Running::start(json!({})).await;
    running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    // The process is killed: nothing is written at an end, and another one begins.
    let next = channel(&running.fake, &json!({}));
    let next = ChannelRun::start(next, &running.assistant, &[]);
    running.fake.wait_for_resumes(1).await.unwrap();
    assert_eq!(running.fake.identifies(), 1);
    next.stop().await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn message_that_was_not_stored_comes_after_a_restart() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.assistant.hold(true);
    running.fake.push(Incoming::direct(&ann(), "slow"));
    let other = Incoming::to_group(ROOM, &ann(), "other").mentioning_bot();
    running.fake.push(other);
    running.assistant.message(3).await.unwrap();
    let (fake, assistant) = running.halt().await;
    assistant.hold(false);
    let running = Running::with(fake, &json!({}), assistant);
    running
        .push_and_wait(Incoming::direct(&ann(), "last"))
        .await;
    let arrived = running.arrived();
    let slow = arrived.iter().filter(|text| *text == "slow");
    assert_eq!(
        (slow.count(), arrived.last().unwrap().as_str()),
        (2, "last")
    );
    running.stop().await;
}

#[tokio::test]
async fn connection_without_answered_heartbeats_is_replaced() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.fake.withhold_acks(true);
    running.fake.wait_for_resumes(1).await.unwrap();
    running.fake.withhold_acks(false);
    running
        .push_and_wait(Incoming::direct(&ann(), "again"))
        .await;
    assert_eq!(running.arrived(), ["hello", "again"]);
    running.stop().await;
}

#[tokio::test]
async fn refused_token_is_replaced_once() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.fake.revoke_tokens();
    running.fake.close_with(4004);
    running
        .push_and_wait(Incoming::direct(&ann(), "again"))
        .await;
    assert_eq!(running.arrived(), ["hello", "again"]);
    assert_eq!(running.fake.calls_of("token").len(), 2);
    running.fake.refuse_sessions(Some(4004));
    running.fake.cut();
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn final_close_codes_end_the_channel_with_advice() {
    let table = [
        (4011, "appId: is of a bot that needs several connections"),
        (4013, "request these events on the bot's page"),
        (4014, "request these events on the bot's page"),
        (4914, "sandbox: has to be true"),
        (4915, "QQ has banned the bot"),
    ];
    for (code, advice) in table {
        let fake = fake().await;
        fake.refuse_sessions(Some(code));
        let error = Running::at(fake, &json!({})).end().await;
        assert!(error.is_permanent(), "{code}: {error}");
        assert!(error.to_string().contains(advice), "{code}: {error}");
    }
    let fake = fake().await;
    fake.disallow_intents(DIRECT_MESSAGE);
    let error = Running::at(fake, &json!({})).end().await;
    assert!(matches!(error, ChannelError::Config { .. }), "{error}");
}

#[tokio::test]
async fn exhausted_sessions_are_waited_for() {
    let fake = fake().await;
    let gateway = |remaining| {
        let limit = json!({"total": 1, "remaining": remaining, "reset_after": 7_200_000});
        let gateway = json!({"url": "ws://127.0.0.1:9", "shards": 1, "session_start_limit": limit});
        Fault::Answer(200, gateway)
    };
    fake.fail_next("gateway.bot", gateway(0));
    let error = Running::at(fake, &json!({})).end().await;
    let ChannelError::RateLimited { retry_after } = error else {
        panic!("{error}");
    };
    assert_eq!(retry_after, Duration::from_hours(2));
}

#[tokio::test]
async fn connections_are_replaced_after_every_kind_of_failure() {
    let fake = fake().await;
    fake.fail_next("gateway.bot", Fault::Status(503));
    fake.fail_next("socket", Fault::Status(401));
    let running = Running::at(fake, &json!({}));
    running.fake.wait_for_ready(1).await.unwrap();
    running.hello().await;
    let degraded = running.assistant.seen().degraded;
    let last = "the socket was refused with 401 Unauthorized";
    assert!(degraded.iter().any(|why| why == last), "{degraded:?}");
    running.stop().await;
    // A platform that is away is another matter.
    let keys = json!({"apiBase": "http://127.0.0.1:9"});
    let error = Running::at(crate::support::fake().await, &keys).end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn hostile_frames_do_no_harm() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let large = "x".repeat(1 << 20);
    let frames = [
        "[".repeat(1 << 20),
        "{\"d\":".repeat(1 << 16),
        json!({"op": 0, "t": large, "s": 1, "d": large}).to_string(),
        json!({"op": 0, "t": "C2C_MESSAGE_CREATE", "s": u64::MAX, "d": {"id": large}}).to_string(),
        json!({"op": 0, "t": "READY", "s": 3, "d": {"session_id": 5}}).to_string(),
        json!({"op": 10, "d": {"heartbeat_interval": 0}}).to_string(),
    ];
    for frame in &frames {
        running.fake.push_text_frame(frame);
    }
    running.fake.push_binary_frame(vec![0x7b; 1 << 16]);
    running
        .push_and_wait(Incoming::direct(&ann(), "still there"))
        .await;
    assert_eq!(running.arrived(), ["hello", "still there"]);
    assert_eq!(running.fake.connections(), 1);
    running.stop().await;
}

#[tokio::test]
async fn absurd_numbers_do_not_silence_the_channel() {
    let ready = json!({"op": 0, "t": "READY", "s": u64::MAX, "d": {"session_id": "unknown"}});
    // This one may follow on the others: it is believed.
    let event = json!({"op": 0, "t": "EVENT_OF_TOMORROW", "s": 90_000, "d": {}});
    for frame in [ready, event] {
        let running = Running::start(json!({})).await;
        running.hello().await;
        running.fake.push_text_frame(&frame.to_string());
        running.fake.push(Incoming::direct(&ann(), "next"));
        running.assistant.message(2).await.unwrap();
        // A number that QQ does not know is not shown again for ever.
        running.fake.cut();
        running.fake.wait_for_identifies(2).await.unwrap();
        running.fake.wait_for_ready(1).await.unwrap();
        running
            .push_and_wait(Incoming::direct(&ann(), "last"))
            .await;
        assert_eq!(running.arrived(), ["hello", "next", "last"]);
    }
}

#[tokio::test]
async fn two_gateways_store_each_message() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let assistant = std::sync::Arc::new(nanobot_testkit::Assistant::new(mallory().openid));
    let other = channel(&running.fake, &json!({}));
    let other = ChannelRun::start(other, &assistant, &[]);
    running.fake.wait_for_ready(2).await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "both"))
        .await;
    assert_eq!(assistant.message(1).await.unwrap().content, "both");
    other.stop().await.unwrap();
    assert_eq!(running.arrived(), ["hello", "both"]);
    running.stop().await;
}
