//! Replies, ids, quotes, targets, buttons, signs of life, and refusals.

use std::time::Duration;

use nanobot_channel::{
    Button, ChannelError, DeliveryGuarantee, Format, OutboundKind, OutboundPart, SendRecovery,
};
use nanobot_channel_whatsapp_fake::{Fault, WhatsAppFake};
use serde_json::{Value, json};

use crate::support::{ROOM, Running, ann, channel, fake, in_doubt, part, reply, user, with};

#[tokio::test]
async fn channel_reports_its_capabilities() {
    let fake = fake().await;
    let channel = channel(&fake, &json!({}));
    let style = channel.text_style();
    assert!(matches!(style.format, Format::Markup(_)) && style.limit == 4096);
    assert_eq!(channel.guarantee(), DeliveryGuarantee::Detectable);
    assert!(channel.drafts().is_none() && channel.typing().is_some());
    assert!(channel.sign_in().is_some() && channel.turn_ends().is_none());
}

#[tokio::test]
async fn replies_in_groups_quote_their_message() {
    let running = Running::start(json!({})).await;
    let hello = running.hello_in_room().await;
    let progress = with(part(&hello, 1, "working"), |message| {
        message.kind = OutboundKind::Progress;
    });
    let later = OutboundPart {
        index: 1,
        count: 2,
        ..part(&hello, 2, "more")
    };
    for part in [&part(&hello, 0, "hi"), &progress, &later] {
        running.channel.send(part).await.unwrap();
    }
    let quotes: Vec<Value> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| sent.quote)
        .collect();
    let id = hello.id.as_ref().unwrap().as_str();
    assert_eq!(quotes[0]["id"], id);
    assert_eq!(
        user(quotes[0]["participant"].as_str().unwrap()),
        user(&ann().lid())
    );
    assert_eq!(quotes[1..], [Value::Null, Value::Null]);
    running.stop().await;
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.channel.send(&reply(&hello, "hi")).await.unwrap();
    assert_eq!(running.fake.sent()[0].quote, Value::Null);
    running.stop().await;
}

#[tokio::test]
async fn repeated_part_is_recognised_by_its_id() {
    for fault in [
        Fault::DropAfterEffect,
        Fault::HangAfterEffect,
        Fault::ErrorAfterEffect("unknown_outcome".to_owned()),
        Fault::Drop,
    ] {
        let running = Running::start(json!({"requestTimeout": 0.5})).await;
        let hello = running.hello().await;
        running.fake.fail_next("send", fault.clone());
        let part = reply(&hello, "once");
        let error = running.channel.send(&part).await.unwrap_err();
        assert_eq!(
            error.recovery(),
            SendRecovery::Uncertain,
            "{fault:?}: {error}"
        );
        running.fake.wait_for_client().await.unwrap();
        let sent = resend(&running, &part).await;
        assert_eq!((running.texts(), sent.len()), (vec!["once".to_owned()], 24));
        running.stop().await;
    }
}

/// Sends a part in doubt until there is a connection, and returns the id of its message.
async fn resend(running: &Running, part: &OutboundPart) -> String {
    for readies in 1.. {
        match running.channel.send(&in_doubt(part)).await {
            Ok(sent) => return sent.message_id.unwrap().as_str().to_owned(),
            Err(ChannelError::Unavailable(_)) => {
                running.fake.wait_for_readies(readies).await.unwrap();
            }
            Err(error) => unreachable!("{error}"),
        }
        tokio::task::yield_now().await;
    }
    String::new()
}

#[tokio::test]
async fn restarted_channel_repeats_no_part() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let part = reply(&hello, "once");
    let first = running.channel.send(&part).await.unwrap();
    let next = Running::at(running.stop().await, &json!({}));
    next.hello_in_room().await;
    let again = next.channel.send(&in_doubt(&part)).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(next.texts(), ["once"]);
    next.stop().await;
}

#[tokio::test]
async fn refusals_have_the_right_recovery() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let retry = |seconds: Option<u64>| SendRecovery::Retry {
        after: seconds.map(Duration::from_secs),
    };
    let (give_up, uncertain) = (SendRecovery::GiveUp, SendRecovery::Uncertain);
    let table = [
        (Fault::error("not_connected"), retry(None)),
        (Fault::error("failed"), retry(None)),
        (Fault::RateLimitedFor(7), retry(Some(7))),
        (Fault::error("not_found"), give_up),
        (Fault::error("forbidden"), give_up),
        (Fault::error("too_large"), give_up),
        (Fault::error("invalid"), give_up),
        (Fault::error("unknown_outcome"), uncertain),
        (
            Fault::ErrorWith("of_tomorrow".to_owned(), "odd".to_owned()),
            uncertain,
        ),
    ];
    let part = reply(&hello, "x");
    for (fault, recovery) in table {
        running.fake.fail_next("send", fault.clone());
        let error = running.channel.send(&part).await.unwrap_err();
        assert_eq!(error.recovery(), recovery, "{fault:?}: {error}");
    }
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.texts(), ["x"]);
    running.stop().await;
}

#[tokio::test]
async fn answers_find_their_requests() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.fail_next("send", Fault::Hold);
    let (first, second) = (part(&hello, 0, "first"), part(&hello, 1, "second"));
    let other = async {
        running.fake.wait_for_calls("send", 1).await.unwrap();
        running.channel.send(&second).await.unwrap();
        running.fake.release_answers();
    };
    let (sent, ()) = tokio::join!(running.channel.send(&first), other);
    sent.unwrap();
    assert_eq!(running.texts(), ["first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn phone_number_is_a_target() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let number = format!("+{}", user(&ann().direct()));
    let to = |chat: &str| with(reply(&hello, "x"), |message| message.chat_id = chat.into());
    running.channel.send(&to(&number)).await.unwrap();
    assert_eq!(running.fake.texts_in(&ann().direct()), ["x"]);
    for chat in ["", "ann", "ann b@lid", "49999@s.whatsapp.net"] {
        let error = running.channel.send(&to(chat)).await.unwrap_err();
        assert!(
            matches!(error, ChannelError::NotFound(_)),
            "{chat}: {error}"
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn buttons_are_listed_below_the_last_part() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let button = |label: &str| Button {
        label: label.to_owned(),
    };
    let asking = |position, text: &str| {
        with(part(&hello, position, text), |message| {
            message.buttons = vec![vec![button("Yes"), button(" ")], vec![button("No")]];
        })
    };
    let first = OutboundPart {
        count: 2,
        ..asking(0, "one")
    };
    for part in [&first, &asking(1, "sure?"), &asking(2, "")] {
        running.channel.send(part).await.unwrap();
    }
    assert_eq!(
        running.texts(),
        ["one", "sure?\n\n[Yes] [No]", "[Yes] [No]"]
    );
    running.stop().await;
}

#[tokio::test]
async fn nothing_is_sent_without_a_connection() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let channel = running.channel.clone();
    let typing = channel.typing().unwrap();
    typing.show(&hello.chat_id, &hello.delivery).await.unwrap();
    running.fake.wait_for_calls("typing", 1).await.unwrap();
    assert_eq!(running.fake.typing(), [ann().direct()]);
    let fake: WhatsAppFake = running.stop().await;
    for part in [reply(&hello, "x"), in_doubt(&reply(&hello, "x"))] {
        let error = channel.send(&part).await.unwrap_err();
        assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    }
    typing.show(&hello.chat_id, &hello.delivery).await.unwrap();
    assert!(fake.sent().is_empty());
}

#[tokio::test]
async fn reaction_lasts_until_the_end_of_the_turn() {
    let running = Running::start(json!({"reactEmoji": "👀"})).await;
    let hello = running.hello_in_room().await;
    let id = hello.id.as_ref().unwrap().as_str();
    running.fake.wait_for_calls("react", 1).await.unwrap();
    let end = with(reply(&hello, ""), |message| {
        message.kind = OutboundKind::TurnEnd { unfinished: 0 };
    });
    let ends = running.channel.turn_ends().unwrap();
    ends.ended(&end.message).await.unwrap();
    assert_eq!(running.fake.reaction(id), None);
    let emoji: Vec<Value> = running
        .fake
        .calls_of("react")
        .into_iter()
        .map(|call| call.body["emoji"].clone())
        .collect();
    assert_eq!(emoji, ["👀", ""]);
    assert_eq!(hello.chat_id.as_str(), ROOM);
    running.stop().await;
}
