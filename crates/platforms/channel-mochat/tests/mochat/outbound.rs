//! Replies, targets, quotations, files, and buttons.

use nanobot_channel::{Button, ChannelError, DeliveryGuarantee, Format, MediaRef, OutboundPart};
use nanobot_channel_mochat_fake::{Fault, GROUP_ID, Incoming};
use nanobot_text::render;
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, fake, mallory, part, reply, with};

#[tokio::test]
async fn channel_reports_its_capabilities() {
    let channel = channel(&fake().await, &json!({}));
    let style = channel.text_style();
    assert!(matches!(style.format, Format::Markdown) && style.limit == 4000);
    assert_eq!(channel.guarantee(), DeliveryGuarantee::BestEffort);
    assert!(channel.drafts().is_none() && channel.turn_ends().is_none());
    assert!(channel.typing().is_none() && channel.probe().is_some());
}

#[tokio::test]
async fn reply_in_a_panel_quotes_the_question() {
    let running = Running::start(json!({"replyDelayMode": "off"})).await;
    let asked = running.fake.push(Incoming::to(ROOM, &ann(), "a question"));
    let question = running.assistant.message(1).await.unwrap();
    let second = OutboundPart {
        index: 1,
        count: 2,
        ..reply(&question, "second part")
    };
    let first = OutboundPart {
        count: 2,
        ..reply(&question, "first part")
    };
    // What is sent at another time, by its address alone.
    let later = with(reply(&question, "later"), |message| {
        message.metadata.clear();
    });
    for part in [&first, &second, &later] {
        running.channel.send(part).await.unwrap();
    }
    let sent = running.fake.sent();
    let quoted: Vec<_> = sent.iter().map(|sent| sent.reply_to.as_deref()).collect();
    assert_eq!(quoted, [Some(asked.message_id.as_str()), None, None]);
    assert!(
        sent.iter()
            .all(|sent| sent.group_id.as_deref() == Some(GROUP_ID) && sent.chat_id == ROOM)
    );
    // One that is gone is not quoted.
    running.fake.fail_next("panels.send", Fault::Error(404));
    running.channel.send(&first).await.unwrap();
    let last = running.fake.sent().pop().unwrap();
    assert_eq!((last.text.as_str(), last.reply_to), ("first part", None));
    running.stop().await;
}

#[tokio::test]
async fn reply_in_a_session_quotes_nothing() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.channel.send(&reply(&hello, "hi")).await.unwrap();
    let sent = running.fake.sent().pop().unwrap();
    assert_eq!(
        (sent.chat_id, sent.reply_to, sent.group_id),
        (ann().direct(), None, None)
    );
    running.stop().await;
}

#[tokio::test]
async fn targets_are_sessions_and_panels_also_after_a_restart() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let stranger = mallory().direct();
    let table = [
        (stranger.clone(), Some(stranger.as_str())),
        (format!("mochat:{stranger}"), Some(stranger.as_str())),
        (ROOM.to_owned(), Some(ROOM)),
        (format!("panel:{ROOM}"), Some(ROOM)),
        (format!("group:{ROOM}"), Some(ROOM)),
        (format!("Channel: {ROOM}"), Some(ROOM)),
        ("session_nowhere".to_owned(), None),
        ("nowhere".to_owned(), None),
        ("panel:".to_owned(), None),
    ];
    for (position, (target, expected)) in (0..).zip(table) {
        let part = with(part(&hello, position, "there"), |message| {
            message.chat_id = target.as_str().into();
            message.metadata.clear();
            message.delivery = nanobot_channel::DeliveryContext::default();
        });
        // A channel that has received nothing sends as well.
        let sent = channel(&running.fake, &json!({})).send(&part).await;
        match expected {
            Some(chat) => {
                assert!(sent.is_ok(), "{target}: {sent:?}");
                assert_eq!(running.fake.sent().pop().unwrap().chat_id, chat, "{target}");
            }
            None => {
                let error = sent.unwrap_err();
                assert!(
                    matches!(error, ChannelError::NotFound(_)),
                    "{target}: {error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn files_and_buttons_are_written_below_the_last_part() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let media = [
        MediaRef::new("/home/ann/secret/report.pdf"),
        MediaRef::new("https://x.test/a.png"),
    ];
    let with_all = |text: &str, index, count| OutboundPart {
        index,
        count,
        ..with(reply(&hello, text), |message| {
            message.media = media.to_vec();
            let button = |label: &str| Button {
                label: label.to_owned(),
            };
            message.buttons = vec![vec![button("yes"), button(" ")], vec![button("no")]];
        })
    };
    for part in [
        with_all("one", 0, 2),
        with_all("two", 1, 2),
        with_all("", 0, 1),
    ] {
        running.channel.send(&part).await.unwrap();
    }
    let below = "[Failed to send: report.pdf]\n\nhttps://x.test/a.png\n\n[yes] [no]";
    let expected = [
        "one".to_owned(),
        format!("two\n\n{below}"),
        below.to_owned(),
    ];
    assert_eq!(running.texts(), expected);
    // Nothing is no message.
    let sent = running.channel.send(&reply(&hello, " ")).await.unwrap();
    assert_eq!((sent.message_id, running.texts().len()), (None, 3));
    running.stop().await;
}

#[tokio::test]
async fn long_replies_are_split_within_the_limits() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let mut count = 0;
    for text in ["語", "🙂", "a\n\n", "```\n語\n```\n\n"] {
        let markdown = format!("**x** {}", text.repeat(30_000 / text.len()));
        for rendered in render(&markdown, running.channel.text_style()) {
            let part = OutboundPart {
                plain: rendered.plain,
                ..part(&hello, count, &rendered.text)
            };
            count += 1;
            running.channel.send(&part).await.unwrap();
        }
    }
    assert_eq!(running.fake.sent().len(), count as usize);
    running.stop().await;
}
