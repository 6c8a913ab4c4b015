//! Buttons below messages.

use nanobot_channel::{Arrival, Button, OutboundKind, OutboundPart, StreamId};
use nanobot_channel_telegram_fake::Incoming;
use serde_json::json;

use crate::support::{GROUP, Running, ann, mallory, reply, with};

fn rows(labels: &[&[&str]]) -> Vec<Vec<Button>> {
    let button = |label: &&str| Button {
        label: (*label).to_owned(),
    };
    labels
        .iter()
        .map(|row| row.iter().map(button).collect())
        .collect()
}

#[tokio::test]
async fn button_press_sends_the_label() {
    let running = Running::start(json!({"inlineKeyboards": true, "reactEmoji": ""})).await;
    let inbound = running.hello().await;
    let long = "a label that is much too long for what a button carries along with it 字";
    let question = with(reply(&inbound, "Which?"), |message| {
        message.buttons = rows(&[&["yes", "no"], &[long]]);
    });
    let sent = running
        .channel
        .send(&question)
        .await
        .unwrap()
        .message_id
        .unwrap();
    let sent: i64 = sent.as_str().parse().unwrap();
    let keyboard = running.fake.sent()[0].reply_markup.clone().unwrap();
    let expected = json!({"inline_keyboard": [
        [{"text": "yes", "callback_data": "yes"}, {"text": "no", "callback_data": "no"}],
        [{"text": long, "callback_data": "#2"}],
    ]});
    assert_eq!(
        (running.fake.sent()[0].text.as_str(), keyboard),
        ("Which?", expected)
    );
    let pressed = running.fake.press(7, sent, &ann(), "#2").unwrap();
    let message = running.assistant.message(2).await.unwrap();
    assert_eq!(
        (message.content.as_str(), message.sender_id),
        (long, "7|ann_x".into())
    );
    assert_eq!(
        message.delivery.reply_to,
        Some(sent.to_string().as_str().into())
    );
    assert_eq!(running.assistant.seen().arrived[1].1, Arrival::direct());
    running.fake.wait_for_acknowledged(pressed).await.unwrap();
    running
        .fake
        .wait_for_calls("editMessageReplyMarkup", 1)
        .await
        .unwrap();
    assert_eq!(running.fake.calls_of("answerCallbackQuery").len(), 1);
    assert_eq!(
        running.fake.sent()[0].reply_markup,
        None,
        "a choice is made once"
    );
    running.stop().await;
}

#[tokio::test]
async fn strangers_button_press_is_ignored() {
    let running = Running::start(json!({"inlineKeyboards": true})).await;
    running
        .fake
        .push(Incoming::group(GROUP, &ann(), "/new").in_topic(5));
    let inbound = running.assistant.message(1).await.unwrap();
    let question = with(reply(&inbound, "Which?"), |message| {
        message.buttons = rows(&[&["yes"]]);
    });
    running.channel.send(&question).await.unwrap();
    let sent = running.fake.sent()[0].message_id;
    let in_vain = running.fake.press(GROUP, sent, &mallory(), "yes").unwrap();
    running.fake.wait_for_acknowledged(in_vain).await.unwrap();
    assert_eq!(
        (
            running.assistant.seen().arrived.len(),
            running.fake.calls_of("answerCallbackQuery").len()
        ),
        (1, 0)
    );
    running.fake.press(GROUP, sent, &ann(), "yes").unwrap();
    let message = running.assistant.message(2).await.unwrap();
    assert_eq!(
        message.session_key(),
        format!("telegram:{GROUP}:topic:5").as_str().into()
    );
    assert_eq!(running.assistant.seen().arrived[1].1, Arrival::group(true));
    running.stop().await;
}

#[tokio::test]
async fn buttons_are_below_the_last_part_and_completed_drafts() {
    let running = Running::start(json!({"inlineKeyboards": true, "nativeDrafts": false})).await;
    let inbound = running.hello().await;
    let buttons = rows(&[&["yes"]]);
    let first = with(
        OutboundPart {
            count: 2,
            ..reply(&inbound, "one")
        },
        |message| message.buttons.clone_from(&buttons),
    );
    running.channel.send(&first).await.unwrap();
    running
        .channel
        .send(&OutboundPart {
            index: 1,
            text: "two".into(),
            plain: "two".into(),
            ..first
        })
        .await
        .unwrap();
    let delta = with(reply(&inbound, "thr"), |message| {
        message.kind = OutboundKind::Delta {
            stream: StreamId::from("s"),
        }
    });
    running
        .channel
        .drafts()
        .unwrap()
        .append(&delta.message)
        .await
        .unwrap();
    running.fake.wait_for_sent(3).await.unwrap();
    let third = with(reply(&inbound, "three"), |message| {
        message.buttons.clone_from(&buttons);
        message.completes = Some(StreamId::from("s"));
    });
    running.channel.send(&third).await.unwrap();
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.text, sent.reply_markup.is_some()))
        .collect();
    let row = |text: &str, has: bool| (text.to_owned(), has);
    assert_eq!(
        shown,
        [row("one", false), row("two", true), row("three", true)]
    );
    running.stop().await;
}

#[tokio::test]
async fn choices_without_text_are_listed_as_text() {
    let running = Running::start(json!({"inlineKeyboards": true})).await;
    let inbound = running.hello().await;
    let question = with(reply(&inbound, ""), |message| {
        message.buttons = rows(&[&["yes", "no"]]);
    });
    running.channel.send(&question).await.unwrap();
    assert_eq!(running.fake.sent()[0].text, "[yes] [no]");
    assert!(running.fake.sent()[0].reply_markup.is_some());
    running.stop().await;
}
