//! The few replies to a message, and messages that are none.

use std::time::Duration;

use nanobot_channel::{ChannelError, OutboundPart, SendRecovery};
use nanobot_channel_qq_fake::{Fault, Incoming};
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, part, progress, with};

fn shown(sent: &[(String, bool)]) -> Vec<(&str, bool)> {
    sent.iter()
        .map(|(text, is_reply)| (text.as_str(), *is_reply))
        .collect()
}

#[tokio::test]
async fn replies_beyond_the_budget_are_messages_of_their_own() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for (position, text) in (0..).zip(["1", "2", "3", "4", "5", "6"]) {
        running.send(&hello, position, text).await.unwrap();
    }
    let expected = [
        ("1", true),
        ("2", true),
        ("3", true),
        ("4", true),
        ("5", false),
        ("6", false),
    ];
    assert_eq!(shown(&running.sent()), expected);
    let in_room = running.hello_in_room().await;
    for position in 0..6 {
        running.send(&in_room, position, "x").await.unwrap();
    }
    let replies = running.sent().into_iter().skip(6);
    let replies: Vec<bool> = replies.map(|(_, is_reply)| is_reply).collect();
    assert_eq!(replies, [true, true, true, true, true, false]);
    running.stop().await;
}

#[tokio::test]
async fn last_reply_is_kept_for_the_answer() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for position in 0..3 {
        let part = progress(&hello, position, "working");
        running.channel.send(&part).await.unwrap();
    }
    let more = progress(&hello, 3, "still working");
    let error = running.channel.send(&more).await.unwrap_err();
    assert!(error.to_string().contains("kept for the answer"), "{error}");
    // A scheduled message is none.
    let scheduled = with(part(&hello, 4, "reminder"), |message| {
        message.delivery.reply_to = None;
    });
    running.channel.send(&scheduled).await.unwrap();
    running.send(&hello, 5, "the answer").await.unwrap();
    let sent = running.sent();
    assert_eq!(
        shown(&sent)[3..],
        [("reminder", false), ("the answer", true)]
    );
    running.stop().await;
}

#[tokio::test]
async fn scheduled_message_uses_a_reply_that_is_left() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let scheduled = with(part(&hello, 0, "reminder"), |message| {
        message.delivery.reply_to = None;
    });
    running.channel.send(&scheduled).await.unwrap();
    assert_eq!(shown(&running.sent()), [("reminder", true)]);
    running.stop().await;
}

#[tokio::test]
async fn late_reply_is_a_message_of_its_own() {
    let running = Running::start(json!({})).await;
    let hello = running.hello_in_room().await;
    running.fake.advance(Duration::from_mins(6));
    running.send(&hello, 0, "late").await.unwrap();
    assert_eq!(shown(&running.sent()), [("late", false)]);
    // The first refusal is enough.
    running.send(&hello, 1, "later").await.unwrap();
    assert_eq!(running.fake.calls_of("group.send").len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn budget_of_an_earlier_process_is_found_out() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for position in 0..4 {
        running.send(&hello, position, "x").await.unwrap();
    }
    let next = channel(&running.fake, &json!({}));
    next.send(&part(&hello, 4, "after a restart"))
        .await
        .unwrap();
    assert_eq!(
        running.sent().pop().unwrap(),
        ("after a restart".to_owned(), false)
    );
}

#[tokio::test]
async fn exhausted_quota_is_a_clear_error() {
    let running = Running::start(json!({})).await;
    running.fake.limit_active_messages(0);
    let hello = running.hello().await;
    running.fake.advance(Duration::from_mins(61));
    let error = running.send(&hello, 0, "x").await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::GiveUp);
    assert!(
        error
            .to_string()
            .contains("write to the bot, and it can reply again"),
        "{error}"
    );
    running.fake.reject_active_messages(&ann().direct(), true);
    let error = running.send(&hello, 1, "x").await.unwrap_err();
    assert!(matches!(error, ChannelError::Refused(_)), "{error}");
    // A new message can be replied to.
    running.fake.push(Incoming::direct(&ann(), "again"));
    let again = running.assistant.message(2).await.unwrap();
    running.send(&again, 2, "an answer").await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn uncertain_reply_is_sent_again_under_its_number() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let reply = part(&hello, 0, "once");
    running.fake.fail_next("user.send", Fault::DropAfterEffect);
    let error = running.channel.send(&reply).await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::Uncertain);
    let in_doubt = OutboundPart {
        in_doubt: true,
        ..reply
    };
    // Also after a restart.
    let next = channel(&running.fake, &json!({}));
    next.send(&in_doubt).await.unwrap();
    running.channel.send(&in_doubt).await.unwrap();
    // One that did not arrive is sent.
    let lost = part(&hello, 1, "lost");
    running.fake.fail_next("user.send", Fault::Hang);
    let waiting = tokio::time::timeout(Duration::from_millis(300), running.channel.send(&lost));
    assert!(waiting.await.is_err());
    let in_doubt = OutboundPart {
        in_doubt: true,
        ..lost
    };
    running.channel.send(&in_doubt).await.unwrap();
    assert_eq!(shown(&running.sent()), [("once", true), ("lost", true)]);
}

#[tokio::test]
async fn uncertain_message_of_its_own_stays_uncertain() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for position in 0..4 {
        running.send(&hello, position, "x").await.unwrap();
    }
    let alone = part(&hello, 4, "alone");
    running.fake.fail_next("user.send", Fault::DropAfterEffect);
    running.channel.send(&alone).await.unwrap_err();
    let in_doubt = OutboundPart {
        in_doubt: true,
        ..alone
    };
    for channel in [running.channel.clone(), channel(&running.fake, &json!({}))] {
        let error = channel.send(&in_doubt).await.unwrap_err();
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    }
    assert_eq!(running.sent().len(), 5);
}

#[tokio::test]
async fn receipt_is_confirmed_with_one_reply() {
    let running = Running::start(json!({"ackMessage": "⏳"})).await;
    let hello = running.hello().await;
    let is_shown = |sent: &[nanobot_channel_qq_fake::SentMessage]| {
        sent.iter().any(|sent| sent.text == "⏳").then_some(())
    };
    running.fake.wait_for("a receipt", is_shown).await.unwrap();
    for position in 0..4 {
        running.send(&hello, position, "x").await.unwrap();
    }
    let replies = running.sent().into_iter().filter(|(_, is_reply)| *is_reply);
    assert_eq!(replies.count(), 4);
    assert!(running.fake.texts_in(ROOM).is_empty());
    running.stop().await;
}
