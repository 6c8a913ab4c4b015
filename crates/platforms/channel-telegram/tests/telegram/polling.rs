//! Long polls: offsets, faults, restarts.

use std::collections::BTreeSet;

use nanobot_channel::{Admission, ChannelError, SendRecovery};
use nanobot_channel_telegram_fake::{Fault, FileKind, Incoming, Person};
use serde_json::json;

use crate::support::{GROUP, Running, ann};

#[tokio::test]
async fn start_polls_at_once_and_registers_commands() {
    let running = Running::start(json!({})).await;
    let calls = running.fake.wait_for_calls("getUpdates", 2).await.unwrap();
    let expected = |timeout| json!({"timeout": timeout, "allowed_updates": ["message", "edited_message", "channel_post", "callback_query"]});
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
async fn failed_command_registration_is_not_fatal() {
    let fake = nanobot_channel_telegram_fake::TelegramFake::start()
        .await
        .unwrap();
    fake.fail_next("setMyCommands", Fault::bad_gateway());
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    running.stop().await;
}

#[tokio::test]
async fn updates_before_the_start_are_received() {
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
async fn unstored_message_is_offered_again_in_order() {
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
async fn shutdown_confirms_nothing_unstored() {
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
async fn unconfirmed_update_is_redelivered_with_the_same_id() {
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
async fn second_run_continues_at_its_offset() {
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
async fn refused_token_is_permanent() {
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
async fn second_poller_is_reported_as_a_conflict() {
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
async fn active_webhook_is_removed_before_polling() {
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
async fn failed_polls_are_retried_up_to_a_limit() {
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
async fn unreadable_update_does_not_block_others() {
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
async fn each_finished_poll_is_a_sign_of_life() {
    let running = Running::start(json!({"pollTimeout": 0})).await;
    running
        .assistant
        .wait_until("signs of life", |seen| seen.alive > 5)
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn empty_polls_despite_pending_updates_end_the_run() {
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
async fn long_retry_after_ends_the_run() {
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
async fn empty_polls_without_pending_updates_continue() {
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
async fn probe_returns_the_bot_without_receiving() {
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
async fn hanging_download_delays_only_its_chat_and_loses_nothing() {
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
async fn stalled_downloads_do_not_stop_other_chats() {
    let running = Running::start(json!({})).await;
    let senders = 1_000..1_040;
    for _ in senders.clone() {
        running.fake.fail_next("getFile", Fault::Hang);
    }
    for sender in senders {
        let sender = Person::new(sender, "Somebody", format!("crowd_{sender}"));
        let photo = Incoming::private(&sender, "look");
        let photo = photo.with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG");
        running.fake.push(photo);
    }
    running.fake.push(Incoming::group(GROUP, &ann(), "one"));
    assert_eq!(running.assistant.message(1).await.unwrap().content, "one");
    running.stop().await;
}

#[tokio::test]
async fn slow_chat_is_confirmed_after_it_is_handled() {
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
