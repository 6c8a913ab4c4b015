//! Replies, targets, files, stickers, buttons, and recipients who get nothing.

use nanobot_channel::{
    Button, ChannelError, DeliveryGuarantee, Format, MediaRef, OutboundPart, SendRecovery,
};
use nanobot_channel_dingtalk_fake::{Fault, Incoming, SentMessage};
use nanobot_text::render;
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, fake, mallory, part, reply, room, with};

#[tokio::test]
async fn channel_reports_its_capabilities() {
    let fake = fake().await;
    let plain = channel(&fake, &json!({}));
    let style = plain.text_style();
    assert!(matches!(style.format, Format::Markup(_)) && style.limit == 4500);
    assert_eq!(plain.guarantee(), DeliveryGuarantee::BestEffort);
    assert!(plain.drafts().is_none() && plain.turn_ends().is_none() && plain.typing().is_none());
    let streaming = channel(&fake, &json!({"cardTemplateId": "x.schema"}));
    assert!(streaming.drafts().is_some());
    assert_eq!(streaming.guarantee(), DeliveryGuarantee::PartlyDetectable);
}

#[tokio::test]
async fn form_of_a_message_follows_its_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let marked = OutboundPart {
        plain: "bold words".to_owned(),
        ..part(&hello, 1, "**bold** words")
    };
    // A text for whose marks there was no room.
    let unmarked = part(&hello, 2, "*a*\n<b>");
    for part in [&part(&hello, 0, "plain text"), &marked, &unmarked] {
        running.channel.send(part).await.unwrap();
    }
    let sent = running.fake.sent();
    let shown: Vec<_> = sent
        .iter()
        .map(|sent| {
            (
                sent.kind.as_str(),
                sent.content["title"].as_str(),
                sent.text.as_str(),
            )
        })
        .collect();
    let expected = [
        ("sampleMarkdown", Some("plain text"), "plain text"),
        ("sampleMarkdown", Some("bold words"), "**bold** words"),
        ("sampleText", None, "*a*\n<b>"),
    ];
    assert_eq!(shown, expected);
    running.stop().await;
}

#[tokio::test]
async fn long_replies_are_split_within_the_limits() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let mut count = 0;
    for text in ["語", "🙂", "\"\\", "*a ", "a\n\n", "```\n語\n```\n\n"] {
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

#[tokio::test]
async fn targets_are_people_and_groups_also_after_a_restart() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.add_group("cidLeft==", false);
    let table = [
        (room(), Ok(ROOM.to_owned())),
        (ROOM.to_owned(), Ok(ROOM.to_owned())),
        ("mallory".to_owned(), Ok(mallory().direct())),
        ("group:cidLeft==".to_owned(), Err("NotFound")),
        ("group:cidNowhere==".to_owned(), Err("NotFound")),
        ("unknown".to_owned(), Err("NotFound")),
        ("$:LWCP_v1:$x".to_owned(), Err("NotFound")),
        ("group:".to_owned(), Err("NotFound")),
    ];
    for (position, (target, expected)) in (0..).zip(table) {
        let part = with(part(&hello, position, "there"), |message| {
            message.chat_id = target.as_str().into();
            message.metadata.clear();
        });
        // A channel that has received nothing sends as well.
        let sent = channel(&running.fake, &json!({})).send(&part).await;
        let place = running.fake.sent().pop().map(|sent| sent.chat_id);
        match expected {
            Ok(chat) => assert_eq!((sent.is_ok(), place), (true, Some(chat)), "{target}"),
            Err(_) => {
                let error = sent.unwrap_err();
                assert!(
                    matches!(error, ChannelError::NotFound(_)),
                    "{target}: {error}"
                );
            }
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn recipients_who_get_nothing_are_reported() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.control_flow(&ann(), true);
    let part = reply(&hello, "x");
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::RateLimited { .. }), "{error}");
    running.fake.control_flow(&ann(), false);
    running.channel.send(&part).await.unwrap();
    running.fake.remove_person(&ann());
    let error = running.channel.send(&part).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot deliver there: `ann` is no member of the organisation (code invalidStaffIdList)"
    );
    assert_eq!(running.texts(), ["x"]);
    running.stop().await;
}

#[tokio::test]
async fn lost_answer_is_uncertain() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "hello").mentioning_robot());
    let hello = running.assistant.message(1).await.unwrap();
    running
        .fake
        .fail_next("robot.group", Fault::DropAfterEffect);
    let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::Uncertain, "{error}");
    assert_eq!(running.fake.texts_in(ROOM), ["x"]);
    running.stop().await;
}

#[tokio::test]
async fn files_precede_the_text_and_are_not_resent() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        MediaRef::new(path.to_str().unwrap())
    };
    let media = vec![
        file("plot.png", b"\x89PNG\r\n\x1a\n"),
        file("report.PDF", b"%PDF"),
        file("nothing.txt", b""),
        file("page.html", b"<html>"),
        MediaRef::new("https://pictures.test/cat.png?a=1&b=2"),
        MediaRef::new("https://x.test/a.zip"),
    ];
    let part = with(reply(&hello, "here"), |message| message.media = media);
    running.fake.fail_next("media.upload", Fault::Status(500));
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running
        .fake
        .fail_next("robot.private", Fault::RateLimitedFor(7));
    let error = running.channel.send(&part).await.unwrap_err();
    assert_eq!(error.to_string(), "rate limited for 7000 ms");
    running.channel.send(&part).await.unwrap();
    let shown = |sent: &SentMessage| match sent.files.first() {
        Some(file) => format!("{} {} {}", sent.kind, file.kind, file.name),
        None => sent.text.clone(),
    };
    let shown: Vec<_> = running.fake.sent().iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            "sampleImageMsg image plot.png",
            "sampleFile file report.PDF",
            "[Failed to send: nothing.txt]",
            "[Failed to send: page.html]",
            "sampleImageMsg link https://pictures.test/cat.png?a=1&b=2",
            "https://x.test/a.zip",
            "here",
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn sticker_is_a_picture_without_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let sticker = "https://stickers.test/happy.gif";
    let part = with(reply(&hello, ""), |message| {
        message.media = vec![MediaRef::new(sticker)];
    });
    running.channel.send(&part).await.unwrap();
    let [sent] = running.fake.sent().try_into().unwrap();
    assert_eq!(sent.content, json!({"photoURL": sticker}));
    running.stop().await;
}

#[tokio::test]
async fn picture_that_is_refused_is_sent_as_a_file() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lie.png");
    std::fs::write(&path, "no picture").unwrap();
    let part = with(reply(&hello, ""), |message| {
        message.media = vec![MediaRef::new(path.to_str().unwrap())];
    });
    running
        .fake
        .fail_next("media.upload", Fault::error("40005"));
    running.channel.send(&part).await.unwrap();
    let [sent] = running.fake.sent().try_into().unwrap();
    assert_eq!(
        (sent.kind.as_str(), sent.files[0].name.as_str()),
        ("sampleFile", "lie.png")
    );
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
    let marked = OutboundPart {
        plain: "really?".to_owned(),
        ..asking(2, "**really?**")
    };
    for part in [&first, &asking(1, "sure?"), &marked] {
        running.channel.send(part).await.unwrap();
    }
    let expected = [
        "one",
        "sure?\n\n[Yes] [No]",
        "**really?**\n\n\\[Yes\\] \\[No\\]",
    ];
    assert_eq!(running.texts(), expected);
    running.stop().await;
}
