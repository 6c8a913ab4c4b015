//! The connection: resuming, new sessions, heartbeats, and permanent failures.

use std::time::Duration;

use nanobot_channel::{Admission, ChannelError};
use nanobot_channel_discord_fake::{DiscordFake, Fault, Incoming, Order};
use nanobot_testkit::log::Log;
use serde_json::json;

use crate::support::{Running, ann, channel};

/// Returns the texts that arrived.
fn texts(running: &Running) -> Vec<String> {
    running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .map(|(message, _)| message.content)
        .collect()
}

#[tokio::test]
async fn lost_connection_is_resumed_at_the_session_url() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let orders = [
        Order::Reconnect,
        Order::HangUp,
        Order::Close(4000),
        Order::Close(4008),
        Order::Close(1001),
        Order::Invalidate { resumable: true },
    ];
    let mut expected = vec!["hello".to_owned()];
    for (number, order) in (1..).zip(orders) {
        running.fake.order(order);
        let text = format!("message {number}");
        running.fake.push(Incoming::direct(&ann(), &text));
        running.fake.wait_for_resumes(number).await.unwrap();
        running.assistant.message(number + 1).await.unwrap();
        expected.push(text);
    }
    assert_eq!(texts(&running), expected);
    assert_eq!(
        (running.fake.identifies(), running.fake.resumes_elsewhere()),
        (1, 0)
    );
    assert_eq!(running.fake.complaints(), Vec::<String>::new());
    running.stop().await;
}

#[tokio::test]
async fn thousand_disconnects_lose_and_repeat_nothing() {
    const DISCONNECTS: usize = 1000;
    let running = Running::start(json!({"reconnectPause": 0.001})).await;
    for number in 0..DISCONNECTS {
        running.fake.cut();
        running
            .fake
            .push(Incoming::direct(&ann(), &number.to_string()));
        running.assistant.message(number + 1).await.unwrap();
    }
    assert_eq!(
        texts(&running),
        (0..DISCONNECTS)
            .map(|number| number.to_string())
            .collect::<Vec<_>>()
    );
    assert_eq!(
        (
            running.fake.identifies(),
            running.fake.resumes() >= DISCONNECTS - 1
        ),
        (1, true)
    );
    running.stop().await;
}

#[tokio::test]
async fn connections_without_progress_count_as_failures() {
    let fake = DiscordFake::start().await.unwrap();
    for _ in 0..20 {
        fake.order(Order::Reconnect);
    }
    let channel = channel(&fake, &json!({}));
    let (fake, error) = Running::of(fake, channel).end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    assert_eq!(fake.identifies() + fake.resumes(), 5);
}

#[tokio::test]
async fn missing_heartbeat_ack_closes_the_connection() {
    let fake = DiscordFake::start().await.unwrap();
    fake.set_heartbeat_interval(100);
    let channel = channel(&fake, &json!({}));
    let running = Running::of(fake, channel).ready().await;
    running.hello().await;
    running.fake.order(Order::Stall);
    running
        .fake
        .push(Incoming::direct(&ann(), "into the silence"));
    running.fake.wait_for_resumes(1).await.unwrap();
    assert_eq!(
        running.assistant.message(2).await.unwrap().content,
        "into the silence"
    );
    running.stop().await;
}

#[tokio::test]
async fn invalidated_session_is_replaced_by_a_new_one() {
    for order in [Order::Invalidate { resumable: false }, Order::Close(4009)] {
        let running = Running::start(json!({})).await;
        running.hello().await;
        running.fake.order(order);
        running.fake.wait_for_identifies(2).await.unwrap();
        running.fake.push(Incoming::direct(&ann(), "again"));
        assert_eq!(running.assistant.message(2).await.unwrap().content, "again");
        assert_eq!(running.fake.resumes(), 0);
        running.stop().await;
    }
}

#[tokio::test]
async fn requested_heartbeat_is_sent_at_once() {
    let running = Running::start(json!({})).await;
    let pushed = running.fake.push(Incoming::direct(&ann(), "hello"));
    running.assistant.message(1).await.unwrap();
    while !running.fake.is_acknowledged(pushed) {
        let alive = running.assistant.seen().alive;
        running.fake.order(Order::AskForHeartbeat);
        running
            .assistant
            .wait_until("a sign of life", |seen| seen.alive > alive)
            .await
            .unwrap();
    }
    running.stop().await;
}

#[tokio::test]
async fn unstored_event_is_redelivered_in_the_next_run() {
    let fake = DiscordFake::start().await.unwrap();
    fake.set_heartbeat_interval(50);
    let channel = channel(&fake, &json!({}));
    let running = Running::of(fake, channel).ready().await;
    running.hello().await;
    running.assistant.hold(true);
    let first = running.fake.push(Incoming::direct(&ann(), "one"));
    let second = running.fake.push(Incoming::direct(&ann(), "two"));
    running.assistant.message(2).await.unwrap();
    let alive = running.assistant.seen().alive;
    running
        .assistant
        .wait_until("heartbeats to go on", |seen| seen.alive > alive + 2)
        .await
        .unwrap();
    assert_eq!(
        [first, second].map(|pushed| running.fake.is_acknowledged(pushed)),
        [false, false]
    );
    let channel = std::sync::Arc::clone(&running.channel);
    let running = Running::of(running.stop().await, channel);
    running.assistant.message(2).await.unwrap();
    assert_eq!(texts(&running), ["one", "two"]);
    running.fake.wait_for_acknowledged(second).await.unwrap();
    // A machine that is busy may miss a heartbeat, after which a session is resumed once more.
    assert_eq!(
        (running.fake.identifies(), running.fake.resumes() >= 1),
        (1, true)
    );
    running.stop().await;
}

#[tokio::test]
async fn unstored_message_is_offered_again_in_order() {
    let running = Running::start(json!({})).await;
    running
        .assistant
        .will_answer([Admission::TryLater, Admission::TryLater]);
    running.fake.push(Incoming::direct(&ann(), "first"));
    running.fake.push(Incoming::direct(&ann(), "second"));
    running.assistant.message(4).await.unwrap();
    assert_eq!(texts(&running), ["first", "first", "first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn repeated_event_is_skipped() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.fake.order(Order::Repeat { after: 2 });
    running.fake.push(Incoming::direct(&ann(), "next"));
    running.assistant.message(2).await.unwrap();
    assert_eq!(texts(&running), ["hello", "next"]);
    running.stop().await;
}

#[tokio::test]
async fn permanent_close_codes_are_explained() {
    let too_large = |code: u16| {
        format!(
            "token: is of a bot on more servers than one connection serves (2,500), and this program has no shards: take \
             the bot out of some, or use a bot of your own; the gateway closed the connection: as ordered (code {code})"
        )
    };
    let [shard, sharding] = [4010, 4011].map(too_large);
    let table = [
        (
            4004,
            "the platform refuses the credentials: the gateway closed the connection: as ordered (code 4004)",
        ),
        (
            4014,
            "intents: ask for more than the bot may have: switch on \"Message Content Intent\" on the bot's page at \
             discord.com/developers/applications; the gateway closed the connection: as ordered (code 4014)",
        ),
        (
            4013,
            "intents: are none that Discord knows; leave the key out; the gateway closed the connection: as ordered \
             (code 4013)",
        ),
        (
            4012,
            "gatewayUrl: leads to a gateway that does not speak version 10; leave the key out; the gateway closed the \
             connection: as ordered (code 4012)",
        ),
        (4010, &shard),
        (4011, &sharding),
    ];
    for (code, text) in table {
        let running = Running::start(json!({})).await;
        running.fake.order(Order::Close(code));
        let (_, error) = running.end().await;
        assert_eq!(
            (error.to_string().as_str(), error.is_permanent()),
            (text, true)
        );
    }
}

#[tokio::test]
async fn bad_intents_and_tokens_end_the_first_connection() {
    let fake = DiscordFake::start().await.unwrap();
    fake.disallow_message_content();
    let unallowed = channel(&fake, &json!({}));
    let (fake, error) = Running::of(fake, unallowed).end().await;
    assert!(
        error
            .to_string()
            .contains("switch on \"Message Content Intent\" on"),
        "{error}"
    );
    let more = channel(&fake, &json!({"intents": 37377 | 2 | 256}));
    let (fake, error) = Running::of(fake, more).end().await;
    let all = "switch on \"Presence Intent\" and \"Server Members Intent\" and \"Message Content Intent\" on";
    assert!(error.to_string().contains(all), "{error}");
    let allowed = channel(&fake, &json!({"intents": 4609}));
    let running = Running::of(fake, allowed).ready().await;
    assert_eq!(running.hello().await.content, "hello");
    let fake = running.stop().await;
    let odd = channel(&fake, &json!({"intents": 1_u64 << 40}));
    let (fake, error) = Running::of(fake, odd).end().await;
    assert!(
        error
            .to_string()
            .starts_with("intents: are none that Discord knows"),
        "{error}"
    );
    let wrong = channel(&fake, &json!({"token": "some.wrong.token"}));
    let (_, error) = Running::of(fake, wrong).end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn unreachable_platform_ends_the_run_after_retries() {
    let fake = DiscordFake::start().await.unwrap();
    fake.go_down().await.unwrap();
    let channel = channel(&fake, &json!({}));
    let (fake, error) = Running::of(fake, std::sync::Arc::clone(&channel))
        .end()
        .await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    fake.come_back().await.unwrap();
    fake.refuse_connections(2);
    let running = Running::of(fake, channel).ready().await;
    assert_eq!(running.hello().await.content, "hello");
    assert!(
        !running.assistant.seen().degraded.is_empty(),
        "the trouble was not told"
    );
    running.stop().await;
}

#[tokio::test]
async fn long_retry_after_is_returned_to_the_caller() {
    let fake = DiscordFake::start().await.unwrap();
    fake.fail_next("getGateway", Fault::retry_after(90.0));
    let channel = channel(&fake, &json!({}));
    let (_, error) = Running::of(fake, channel).end().await;
    let pause = Duration::from_secs(90);
    assert!(
        matches!(error, ChannelError::RateLimited { retry_after } if retry_after == pause),
        "{error}"
    );
}

#[tokio::test]
async fn session_start_limit_is_reported_with_a_bounded_pause() {
    const YEAR: Duration = Duration::from_hours(24 * 365);
    for (reset_after, pause) in [
        (90_000, Duration::from_secs(90)),
        (1 << 50, YEAR),
        (u64::MAX, YEAR),
    ] {
        let fake = DiscordFake::start().await.unwrap();
        fake.set_session_starts(0, reset_after);
        let channel = channel(&fake, &json!({}));
        let (_, error) = Running::of(fake, channel).end().await;
        assert!(
            matches!(error, ChannelError::RateLimited { retry_after } if retry_after == pause),
            "{error}"
        );
    }
}

#[tokio::test]
async fn recommended_sharding_is_logged_and_ignored() {
    let log = Log::capture().unwrap();
    let fake = DiscordFake::start().await.unwrap();
    fake.set_shards(2);
    let channel = channel(&fake, &json!({}));
    let running = Running::of(fake, channel).ready().await;
    running.hello().await;
    assert!(
        log.text()
            .contains("which is not supported: it is connected once"),
        "{}",
        log.text()
    );
    running.stop().await;
}
