//! Long polls: offsets, faults, restarts.

use std::collections::BTreeSet;

use nanobot_channel::{Admission, ChannelError, SendRecovery};
use nanobot_channel_telegram_fake::{Fault, FileKind, Incoming};
use serde_json::json;

use crate::support::{GROUP, Running, ann};

#[tokio::test]
async fn the_first_calls_say_who_the_bot_is_and_what_it_can_do() {
    let running = Running::start(json!({})).await;
    let calls = running.fake.wait_for_calls("getUpdates", 2).await.unwrap();
    let expected = |timeout| json!({"timeout": timeout, "allowed_updates": ["message", "edited_message", "channel_post"]});
    assert_eq!(
        calls[0].params,
        expected(0),
        "the first one shows at once that polls work"
    );
    assert_eq!(
        calls[1].params,
        expected(50),
        "without an offset nothing that waits is dropped"
    );
    let commands: Vec<_> = running
        .fake
        .commands()
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["command"].clone())
        .collect();
    assert_eq!(commands, ["new", "stop"]);
    running.stop().await;
}

#[tokio::test]
async fn commands_that_cannot_be_set_do_no_harm() {
    let fake = nanobot_channel_telegram_fake::TelegramFake::start()
        .await
        .unwrap();
    fake.fail_next("setMyCommands", Fault::bad_gateway());
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    running.stop().await;
}

#[tokio::test]
async fn what_waited_before_the_start_is_received() {
    let fake = nanobot_channel_telegram_fake::TelegramFake::start()
        .await
        .unwrap();
    let pushed = fake.push(Incoming::private(&ann(), "while you were away"));
    let running = Running::at(fake, &json!({}));
    assert_eq!(
        running.assistant.message(1).await.unwrap().content,
        "while you were away"
    );
    running.fake.wait_for_acknowledged(pushed).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn what_cannot_be_stored_is_offered_again_before_anything_after_it() {
    let running = Running::start(json!({})).await;
    running
        .assistant
        .will_answer([Admission::TryLater, Admission::TryLater]);
    let first = running.fake.push(Incoming::private(&ann(), "first"));
    let second = running.fake.push(Incoming::private(&ann(), "second"));
    running.assistant.message(2).await.unwrap();
    assert!(
        !running.fake.is_acknowledged(first),
        "nothing is confirmed before it is stored"
    );
    running.fake.wait_for_acknowledged(second).await.unwrap();
    let seen = running.assistant.seen();
    let texts: Vec<_> = seen
        .arrived
        .iter()
        .map(|(message, _)| message.content.as_str())
        .collect();
    assert_eq!(texts, ["first", "first", "first", "second"]);
    assert_eq!(
        seen.degraded[0],
        "messages cannot be stored now; Telegram keeps them"
    );
    running.stop().await;
}

#[tokio::test]
async fn going_down_confirms_nothing_and_the_next_start_gets_it_again() {
    let running = Running::start(json!({})).await;
    running
        .assistant
        .will_answer([Admission::Accepted, Admission::ShuttingDown]);
    running.fake.push(Incoming::private(&ann(), "stored"));
    let lost = running.assistant.message(1).await.unwrap();
    let pushed = running.fake.push(Incoming::private(&ann(), "not stored"));
    running.assistant.message(2).await.unwrap();
    let fake = running.stop().await;
    assert!(!fake.is_acknowledged(pushed));
    let again = Running::at(fake, &json!({}));
    let message = again.assistant.message(1).await.unwrap();
    assert_ne!(message.id, lost.id);
    assert_eq!(message.content, "not stored");
    again.fake.wait_for_acknowledged(pushed).await.unwrap();
    again.stop().await;
}

#[tokio::test]
async fn a_crash_between_storing_and_confirming_brings_the_same_message_again() {
    let running = Running::start(json!({})).await;
    // The poll that would confirm is never answered, and does nothing. The first one ends by
    // itself.
    running.fake.wait_for_calls("getUpdates", 2).await.unwrap();
    running.fake.fail_next("getUpdates", Fault::Hang);
    let pushed = running.fake.push(Incoming::private(&ann(), "once"));
    let first = running.assistant.message(1).await.unwrap();
    running.fake.wait_for_calls("getUpdates", 3).await.unwrap();
    let fake = running.stop().await;
    assert!(!fake.is_acknowledged(pushed));
    let again = Running::at(fake, &json!({}));
    again.assistant.will_answer([Admission::Duplicate]);
    let second = again.assistant.message(1).await.unwrap();
    assert_eq!(
        (second.journal_id(), second.content),
        (first.journal_id(), first.content)
    );
    again.fake.wait_for_acknowledged(pushed).await.unwrap();
    again.stop().await;
}

#[tokio::test]
async fn a_channel_that_runs_again_goes_on_where_it_was() {
    let running = Running::start(json!({})).await;
    running.fake.wait_for_calls("getUpdates", 2).await.unwrap();
    running.fake.fail_next("getUpdates", Fault::Hang);
    let pushed = running.fake.push(Incoming::private(&ann(), "once"));
    running.assistant.message(1).await.unwrap();
    running.fake.wait_for_calls("getUpdates", 3).await.unwrap();
    let channel = std::sync::Arc::clone(&running.channel);
    let again = Running::of(running.stop().await, channel);
    again.fake.wait_for_acknowledged(pushed).await.unwrap();
    assert_eq!(again.assistant.seen().arrived.len(), 0);
    again.stop().await;
}

#[tokio::test]
async fn a_refused_token_ends_the_channel_for_good() {
    for (fault, method) in [
        (Fault::unauthorized(), "getMe"),
        (Fault::Status(404, "Not Found".to_owned()), "getUpdates"),
    ] {
        let fake = nanobot_channel_telegram_fake::TelegramFake::start()
            .await
            .unwrap();
        fake.fail_next(method, fault);
        let (_, error) = Running::at(fake, &json!({})).end().await;
        assert!(
            matches!(error, ChannelError::Auth(_)) && error.is_permanent(),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_second_poller_is_named() {
    let fake = nanobot_channel_telegram_fake::TelegramFake::start()
        .await
        .unwrap();
    let conflict = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
    fake.fail_next("getUpdates", Fault::Status(409, conflict.to_owned()));
    let (_, error) = Running::at(fake, &json!({})).end().await;
    let advice =
        "stop the other program that polls with this token, or give one of the two its own bot";
    let expected =
        format!("another program receives with these credentials: {advice} ({conflict})");
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.recovery(), SendRecovery::Retry { after: None });
}

#[tokio::test]
async fn a_webhook_in_the_way_is_removed() {
    let fake = nanobot_channel_telegram_fake::TelegramFake::start()
        .await
        .unwrap();
    let text = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first";
    fake.fail_next("getUpdates", Fault::Status(409, text.to_owned()));
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    assert_eq!(
        running.fake.calls_of("deleteWebhook")[0].params,
        json!({}),
        "what waits is kept"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_broken_poll_is_repeated_and_too_many_end_the_run() {
    let running = Running::start(json!({})).await;
    running.fake.wait_for_calls("getUpdates", 1).await.unwrap();
    running.fake.fail_next("getUpdates", Fault::Drop);
    running.fake.fail_next("getUpdates", Fault::RetryAfter(1));
    running.hello().await;
    running.fake.push(Incoming::private(&ann(), "still there"));
    running.assistant.message(2).await.unwrap();
    let degraded = running.assistant.seen().degraded;
    assert_eq!(degraded.len(), 2, "{degraded:?}");
    assert_eq!(degraded[1], "Telegram asks for a pause of 1 s");
    for _ in 0..3 {
        running.fake.fail_next("getUpdates", Fault::bad_gateway());
    }
    running
        .fake
        .push(Incoming::private(&ann(), "wakes the poll"));
    let (_, error) = running.end().await;
    assert_eq!(
        error.to_string(),
        "the platform cannot be reached: Bad Gateway (code 502)"
    );
}

#[tokio::test]
async fn an_update_nobody_understands_does_not_stop_the_others() {
    let running = Running::start(json!({})).await;
    running.fake.wait_for_calls("getUpdates", 1).await.unwrap();
    running
        .fake
        .push_raw("message", json!({"some fields": "are missing"}));
    running.fake.push(Incoming::private(&ann(), "after it"));
    assert_eq!(
        running.assistant.message(1).await.unwrap().content,
        "after it"
    );
    running.stop().await;
}

#[tokio::test]
async fn every_finished_poll_is_a_sign_of_life() {
    let running = Running::start(json!({"pollTimeout": 0})).await;
    running
        .assistant
        .wait_until("signs of life", |seen| seen.alive > 5)
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn polls_that_bring_nothing_although_something_waits_end_the_run() {
    let fake = nanobot_channel_telegram_fake::TelegramFake::start()
        .await
        .unwrap();
    fake.blind(true);
    fake.push(Incoming::private(&ann(), "unseen"));
    let (fake, error) = Running::at(fake, &json!({"pollTimeout": 0})).end().await;
    assert_eq!(
        error.to_string(),
        "the platform cannot be reached: 1 updates wait at Telegram, but polls bring none"
    );
    fake.blind(false);
    let again = Running::at(fake, &json!({"pollTimeout": 0}));
    assert_eq!(again.assistant.message(1).await.unwrap().content, "unseen");
    again.stop().await;
}

#[tokio::test]
async fn a_long_pause_is_left_to_whoever_runs_the_channel() {
    let fake = nanobot_channel_telegram_fake::TelegramFake::start()
        .await
        .unwrap();
    fake.fail_next("getUpdates", Fault::RetryAfter(300));
    let (_, error) = Running::at(fake, &json!({})).end().await;
    assert_eq!(
        error.recovery(),
        SendRecovery::Retry {
            after: Some(std::time::Duration::from_secs(300))
        }
    );
}

#[tokio::test]
async fn quiet_is_quiet_when_nothing_waits() {
    let running = Running::start(json!({"pollTimeout": 0})).await;
    running
        .fake
        .wait_for_calls("getWebhookInfo", 2)
        .await
        .unwrap();
    running.hello().await;
    running.stop().await;
}

#[tokio::test]
async fn a_probe_says_who_the_bot_is_without_receiving() {
    let fake = nanobot_channel_telegram_fake::TelegramFake::start()
        .await
        .unwrap();
    let channel = crate::support::channel(&fake, &json!({}));
    assert_eq!(
        channel.probe().unwrap().probe().await.unwrap(),
        "@nanobot_test_bot"
    );
    assert_eq!(fake.calls().len(), 1);
    fake.revoke_token();
    assert!(matches!(
        channel.probe().unwrap().probe().await,
        Err(ChannelError::Auth(_))
    ));
}

#[tokio::test]
async fn a_file_that_does_not_come_keeps_other_chats_from_nothing_and_a_kill_loses_nothing() {
    let keys = json!({"requestTimeout": 3600});
    let running = Running::start(keys.clone()).await;
    running.fake.fail_next("getFile", Fault::Hang);
    let photo =
        Incoming::private(&ann(), "look").with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG");
    let pushed = [
        running.fake.push(photo),
        running.fake.push(Incoming::private(&ann(), "did you?")),
        running.fake.push(Incoming::group(GROUP, &ann(), "one")),
    ];
    assert_eq!(running.assistant.message(1).await.unwrap().content, "one");
    let later = running.fake.push(Incoming::group(GROUP, &ann(), "two"));
    assert_eq!(
        running.assistant.message(2).await.unwrap().content,
        "two",
        "it is asked what else there is"
    );
    assert!(
        pushed
            .iter()
            .chain([&later])
            .all(|pushed| !running.fake.is_acknowledged(*pushed)),
        "all may come again"
    );
    let running = running.restart(&keys).await;
    running.fake.wait_for_acknowledged(later).await.unwrap();
    let arrived: Vec<_> = running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .map(|(message, _)| message)
        .collect();
    let texts = |chat: i64| -> Vec<&str> {
        let here = arrived
            .iter()
            .filter(|message| message.chat_id == chat.to_string().as_str().into());
        here.map(|message| message.content.as_str()).collect()
    };
    assert_eq!(texts(7), ["look\n[image: /media/image.jpg]", "did you?"]);
    assert_eq!(
        texts(GROUP),
        ["one", "two", "one", "two"],
        "what was stored comes again, to be known by its id"
    );
    let ids: BTreeSet<_> = arrived.iter().map(|message| message.journal_id()).collect();
    assert_eq!(ids.len(), 4);
    running.stop().await;
}

#[tokio::test]
async fn what_is_slow_in_one_chat_is_confirmed_as_soon_as_it_is_done() {
    let running = Running::start(json!({})).await;
    for _ in 0..2 {
        running.fake.fail_next("getFile", Fault::bad_gateway());
    }
    let photo =
        Incoming::private(&ann(), "look").with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG");
    running.fake.push(photo);
    let last = running.fake.push(Incoming::group(GROUP, &ann(), "one"));
    running.fake.wait_for_acknowledged(last).await.unwrap();
    assert_eq!(
        running.assistant.seen().arrived.len(),
        2,
        "nothing is taken in twice while something is under way"
    );
    running.stop().await;
}
