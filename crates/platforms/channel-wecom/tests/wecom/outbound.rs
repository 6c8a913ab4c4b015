//! Replies, targets, buttons, and refusals.

use std::time::Duration;

use nanobot_channel::{
    Button, ChannelError, DeliveryContext, DeliveryGuarantee, Format, OutboundPart, SendRecovery,
};
use nanobot_channel_wecom_fake::Fault;
use nanobot_text::render;
use serde_json::{Value, json};

use crate::support::{ROOM, Running, channel, completing, fake, part, reply, with};

#[tokio::test]
async fn channel_reports_its_capabilities() {
    let fake = fake().await;
    let usual = channel(&fake, &json!({}));
    let style = usual.text_style();
    assert!(matches!(style.format, Format::Markup(_)) && style.limit == 20_480);
    assert_eq!(usual.guarantee(), DeliveryGuarantee::PartlyDetectable);
    assert!(usual.drafts().is_some() && usual.turn_ends().is_some() && usual.typing().is_none());
    let whole = channel(&fake, &json!({"streaming": false}));
    assert_eq!(whole.guarantee(), DeliveryGuarantee::BestEffort);
    assert!(whole.drafts().is_none() && whole.turn_ends().is_none());
}

#[tokio::test]
async fn messages_and_replies_have_their_commands() {
    let running = Running::start(json!({"streaming": false})).await;
    let hello = running.hello_in_room().await;
    let job = with(reply(&hello, "a job"), |message| {
        message.delivery = DeliveryContext::default();
    });
    let marked = OutboundPart {
        plain: "bold".to_owned(),
        ..part(&hello, 1, "**bold**")
    };
    for part in [&job, &marked, &completing(&hello, "s", "the reply")] {
        running.channel.send(part).await.unwrap();
    }
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.command, sent.kind, sent.text, sent.chat_id))
        .collect();
    let send = |text: &str| {
        let kind = "markdown".to_owned();
        (
            "aibot_send_msg".to_owned(),
            kind,
            text.to_owned(),
            ROOM.to_owned(),
        )
    };
    let reply = (
        "aibot_respond_msg".to_owned(),
        "stream".to_owned(),
        "the reply".to_owned(),
        ROOM.to_owned(),
    );
    assert_eq!(shown, [send("a job"), send("**bold**"), reply]);
    let bodies = running.fake.calls_of("aibot_send_msg").into_iter();
    let types: Vec<Value> = bodies.map(|call| call.body["chat_type"].clone()).collect();
    assert_eq!(types, [json!(null), json!(2)]);
    running.stop().await;
}

#[tokio::test]
async fn long_replies_are_split_within_the_limit() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let style = running.channel.text_style();
    let rendered = render(&"語*".repeat(9000), style);
    assert!(rendered.len() > 1);
    for (position, text) in (0..).zip(&rendered) {
        let part = OutboundPart {
            plain: text.plain.clone(),
            ..part(&hello, position, &text.text)
        };
        running.channel.send(&part).await.unwrap();
    }
    assert!(running.texts().iter().all(|text| text.len() <= 20_480));
    assert_eq!(running.texts().len(), rendered.len());
    running.stop().await;
}

#[tokio::test]
async fn text_without_marks_is_escaped() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running
        .channel
        .send(&reply(&hello, "*a* <b>"))
        .await
        .unwrap();
    assert_eq!(running.texts(), ["\\*a\\* \\<b>"]);
    running.stop().await;
}

#[tokio::test]
async fn lost_answer_is_uncertain() {
    for fault in [Fault::DropAfterEffect, Fault::Drop] {
        let running = Running::start(json!({})).await;
        let hello = running.hello().await;
        running.fake.fail_next("aibot_send_msg", fault.clone());
        let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
        assert_eq!(
            error.recovery(),
            SendRecovery::Uncertain,
            "{fault:?}: {error}"
        );
        running.stop().await;
    }
    let running = Running::start(json!({"requestTimeout": 0.3})).await;
    let hello = running.hello().await;
    running
        .fake
        .fail_next("aibot_send_msg", Fault::HangAfterEffect);
    let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::Uncertain, "{error}");
    // The connection goes on.
    running.channel.send(&part(&hello, 1, "y")).await.unwrap();
    assert_eq!(running.texts(), ["x", "y"]);
    running.stop().await;
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
        (Fault::RateLimited, retry(Some(5))),
        (Fault::error(846_607), retry(Some(5))),
        (Fault::error(-1), retry(None)),
        (Fault::error(93_006), give_up),
        (Fault::error(40_058), give_up),
        (Fault::ErrorWith(7, "odd".to_owned()), give_up),
        (Fault::Answer(json!({"errcode": "strange"})), uncertain),
        (Fault::Answer(json!({})), uncertain),
    ];
    let part = reply(&hello, "x");
    for (fault, recovery) in table {
        running.fake.fail_next("aibot_send_msg", fault.clone());
        let error = running.channel.send(&part).await.unwrap_err();
        assert_eq!(error.recovery(), recovery, "{fault:?}: {error}");
    }
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.texts(), ["x"]);
    running.stop().await;
}

#[tokio::test]
async fn message_over_the_limit_of_a_chat_waits() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.limit_messages();
    for position in 0..30 {
        let part = part(&hello, position, "x");
        running.channel.send(&part).await.unwrap();
    }
    let last = completing(&hello, "s", "the reply");
    let error = running.channel.send(&last).await.unwrap_err();
    assert_eq!(error.to_string(), "rate limited for 5000 ms");
    running.fake.advance(Duration::from_mins(1));
    running.channel.send(&last).await.unwrap();
    assert_eq!(running.texts().last().unwrap(), "the reply");
    running.stop().await;
}

#[tokio::test]
async fn unusable_chats_are_reported() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for chat in ["", "ann b", "nobody"] {
        let part = with(reply(&hello, "x"), |message| message.chat_id = chat.into());
        let error = running.channel.send(&part).await.unwrap_err();
        assert!(
            matches!(error, ChannelError::NotFound(_)),
            "{chat}: {error}"
        );
    }
    assert!(running.texts().is_empty());
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
    let expected = ["one", "sure?\n\n\\[Yes\\] \\[No\\]", "\\[Yes\\] \\[No\\]"];
    assert_eq!(running.texts(), expected);
    running.stop().await;
}
