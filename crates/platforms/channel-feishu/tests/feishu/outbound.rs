//! Replies, cards, files, targets, quotations, and sends with an uncertain outcome.

use std::collections::BTreeSet;

use nanobot_channel::{
    Block, Button, ChannelError, DeliveryGuarantee, Format, InboundMessage, Measure, MediaRef,
    OutboundKind, OutboundPart, SendRecovery, Table, TextStyle,
};
use nanobot_channel_feishu::CardMarkdown;
use nanobot_channel_feishu_fake::{Fault, FeishuFake, Incoming, SentMessage};
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, mallory, reply, with};

fn marked(inbound: &InboundMessage, position: u32, text: &str, plain: &str) -> OutboundPart {
    let part = with(reply(inbound, text), |message| {
        message.key.position = position;
    });
    OutboundPart {
        plain: plain.to_owned(),
        ..part
    }
}

fn kinds(sent: &[SentMessage]) -> Vec<(&str, &str)> {
    let kinds = sent
        .iter()
        .map(|sent| (sent.kind.as_str(), sent.text.as_str()));
    kinds.collect()
}

#[tokio::test]
async fn channel_reports_its_capabilities() {
    let fake = FeishuFake::start().await.unwrap();
    let plain = channel(&fake, &json!({"streaming": false}));
    let style = TextStyle {
        format: Format::Markup(&CardMarkdown),
        measure: Measure::Bytes,
        limit: 28_000,
    };
    assert_eq!(format!("{:?}", plain.text_style()), format!("{style:?}"));
    let guarantee = DeliveryGuarantee::Idempotent {
        window: Some(std::time::Duration::from_hours(1)),
    };
    assert_eq!(plain.guarantee(), guarantee);
    assert!(plain.drafts().is_none() && plain.turn_ends().is_some() && plain.typing().is_none());
    assert_eq!(plain.probe().unwrap().probe().await.unwrap(), "@nanobot");
    assert!(channel(&fake, &json!({})).drafts().is_some());
}

#[tokio::test]
async fn form_of_a_message_follows_its_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let parts = [
        marked(&hello, 0, "plain text", "plain text"),
        marked(&hello, 1, "**bold**", "bold"),
        // A text for whose marks there was no room, or that has none.
        marked(&hello, 2, "<at id=all></at>", "<at id=all></at>"),
        with(
            marked(&hello, 3, "`name(\"x\")`\nother", "name(\"x\")\nother"),
            |message| {
                message.kind = OutboundKind::ToolHint;
            },
        ),
    ];
    for part in &parts {
        running.channel.send(part).await.unwrap();
    }
    let sent = running.fake.sent();
    assert_eq!(
        kinds(&sent),
        [
            ("text", "plain text"),
            ("interactive", "**bold**"),
            ("post", "<at id=all></at>"),
            ("text", "🔧 name(\"x\")\n🔧 other"),
        ]
    );
    let ids: BTreeSet<_> = sent.iter().filter_map(|sent| sent.uuid.as_ref()).collect();
    assert_eq!(ids.len(), parts.len());
    running.stop().await;
}

#[tokio::test]
async fn refused_card_is_sent_as_its_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let text = "Failed to create card content, ext=ErrCode: 200621; ErrMsg: parse card json err; ";
    running
        .fake
        .fail_next("message.create", Fault::ErrorWith(230_099, text.to_owned()));
    let part = marked(&hello, 0, "**a** &#60;b", "a <b");
    running.channel.send(&part).await.unwrap();
    assert_eq!(kinds(&running.fake.sent()), [("post", "a <b")]);
    running.stop().await;
}

#[tokio::test]
async fn full_cards_fit_whatever_their_characters_are() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let texts = [
        "\"",
        "\\",
        "<",
        "*a",
        "語",
        "`\"`",
        "```\n\"\\\n```\n\n",
        "a\n\n",
        "- \"\n",
    ];
    let mut count = 0;
    for text in texts {
        let markdown = format!("**x** {}", text.repeat(20_000 / text.len()));
        for part in nanobot_text::render(&markdown, running.channel.text_style()) {
            count += 1;
            let part = OutboundPart {
                blocks: part.blocks,
                ..marked(&hello, count, &part.text, &part.plain)
            };
            running.channel.send(&part).await.unwrap();
        }
    }
    assert_eq!(running.fake.sent().len(), count as usize);
    running.stop().await;
}

fn with_table(part: OutboundPart) -> OutboundPart {
    let rows = vec![
        vec!["a".to_owned(), "b".to_owned()],
        vec!["1".to_owned(), "\"2\"".to_owned()],
    ];
    let table = Block::Table(Table {
        rows,
        right: vec![false, true],
    });
    OutboundPart {
        blocks: vec![Block::Text("**Look**".to_owned()), table],
        ..part
    }
}

#[tokio::test]
async fn card_has_one_table_and_a_refused_one_is_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let aligned = "**Look**\n\n```\na  b\n```";
    let part = |position| with_table(marked(&hello, position, aligned, "Look\n\na  b"));
    running.channel.send(&part(0)).await.unwrap();
    let text =
        "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit; ";
    let fault = Fault::ErrorWith(230_099, text.to_owned());
    running.fake.fail_next("message.create", fault);
    running.channel.send(&part(1)).await.unwrap();
    let sent = running.fake.sent();
    assert_eq!(
        kinds(&sent),
        [
            ("interactive", "**Look**\na | b\n1 | \"2\""),
            ("interactive", aligned)
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn buttons_that_do_not_fit_follow_the_text() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let rows = || {
        let button = |label: &str| Button {
            label: label.to_owned(),
        };
        vec![
            vec![button("Yes"), button("<No>")],
            vec![button(&"x".repeat(800))],
        ]
    };
    let long = "y".repeat(28_000);
    for (position, text) in [(0, "really?"), (1, long.as_str()), (2, "")] {
        let part = with(marked(&hello, position, text, text), |message| {
            message.buttons = rows();
        });
        running.channel.send(&part).await.unwrap();
    }
    // Only the last part has them.
    let first = with(marked(&hello, 3, "one", "one"), |message| {
        message.buttons = rows();
    });
    running
        .channel
        .send(&OutboundPart { count: 2, ..first })
        .await
        .unwrap();
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| {
            (
                sent.kind,
                sent.content.to_string().matches("\"callback\"").count(),
            )
        })
        .collect();
    let card = |buttons| ("interactive".to_owned(), buttons);
    let text = || ("text".to_owned(), 0);
    assert_eq!(shown, [card(3), text(), card(3), card(3), text()]);
    running.stop().await;
}

#[tokio::test]
async fn targets_are_chats_people_and_addresses() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.add_group("oc_elsewhere", true);
    running.fake.add_group("oc_left", false);
    running.fake.add_person(&mallory());
    let table = [
        ("oc_elsewhere", Ok("oc_elsewhere".to_owned())),
        ("ou_mallory", Ok(mallory().direct())),
        ("on_mallory", Ok(mallory().direct())),
        (
            "oc_left",
            Err("cannot deliver there: Bot/User can NOT be out of the chat. (code 230002)"),
        ),
        (
            "oc_nowhere",
            Err("cannot deliver there: The receive_id is invalid. (code 230034)"),
        ),
        (
            "#general",
            Err(
                "cannot deliver there: `#general` is no chat (oc_…), person (ou_…, on_…) or mail address of Feishu",
            ),
        ),
    ];
    for (position, (target, expected)) in (0..).zip(table) {
        let part = with(marked(&hello, position, "there", "there"), |message| {
            message.chat_id = target.into();
        });
        let sent = running.channel.send(&part).await;
        let place = running.fake.sent().pop().map(|sent| sent.chat_id);
        match expected {
            Ok(chat) => assert_eq!((sent.is_ok(), place), (true, Some(chat)), "{target}"),
            Err(text) => assert_eq!(sent.unwrap_err().to_string(), text),
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn answered_message_is_quoted_if_that_is_wanted() {
    let running = Running::start(json!({"replyToMessage": true})).await;
    let hello = running.hello().await;
    let id = hello.id.as_ref().map(ToString::to_string);
    for position in 0..2 {
        let part = marked(&hello, position, "quoting", "quoting");
        let part = OutboundPart {
            index: position,
            count: 2,
            ..part
        };
        running.channel.send(&part).await.unwrap();
    }
    // A message that is gone cannot be quoted.
    running.fake.withdraw(id.as_deref().unwrap());
    running
        .channel
        .send(&marked(&hello, 2, "alone", "alone"))
        .await
        .unwrap();
    let sent = running.fake.sent();
    let parents: Vec<_> = sent.iter().map(|sent| sent.parent_id.clone()).collect();
    assert_eq!(parents, [id, None, None]);
    assert!(sent.iter().all(|sent| sent.thread_id.is_none()));
    running.stop().await;
}

#[tokio::test]
async fn reply_to_a_withdrawn_topic_goes_to_its_chat() {
    let running = Running::start(json!({})).await;
    let question = Incoming::to(ROOM, &ann(), "a question").mentioning_bot();
    let question = running.fake.push(question).message_id;
    let inbound = running.assistant.message(1).await.unwrap();
    running.fake.withdraw(&question);
    running
        .channel
        .send(&reply(&inbound, "an answer"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(ROOM), ["an answer"]);
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
        file("talk.opus", b"OggS"),
        file("page.PDF", b"%PDF"),
        file("nothing.txt", b""),
        MediaRef::new("https://pictures.test/cat.png?a=1&b=2"),
    ];
    let part = with(reply(&hello, "here"), |message| message.media = media);
    running.fake.fail_next("image.create", Fault::Status(500));
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running.fake.fail_next("file.create", Fault::RateLimited(7));
    let error = running.channel.send(&part).await.unwrap_err();
    assert_eq!(error.to_string(), "rate limited for 7000 ms");
    running.channel.send(&part).await.unwrap();
    let shown = |sent: &SentMessage| match sent.files.first() {
        Some(file) => format!("{} {} {}", sent.kind, file.kind, file.name),
        None => format!("{} {}", sent.kind, sent.text),
    };
    let shown: Vec<_> = running.fake.sent().iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            "image image image",
            "audio opus talk.opus",
            "file pdf page.PDF",
            "post [Failed to send: nothing.txt]",
            "post https://pictures.test/cat.png?a=1&b=2",
            "text here",
        ]
    );
    assert_eq!(running.fake.calls_of("image.create").len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn images_at_their_limit_and_beyond() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let media = [
        ("full.png", 10 << 20),
        ("large.png", (10 << 20) + 1),
        ("full.bin", 30 << 20),
    ];
    let media = media.map(|(name, length)| {
        let path = folder.path().join(name);
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        bytes.resize(length, 0);
        std::fs::write(&path, bytes).unwrap();
        MediaRef::new(path.to_str().unwrap())
    });
    let lie = folder.path().join("lie.png");
    std::fs::write(&lie, "no image").unwrap();
    let mut media = media.to_vec();
    media.push(MediaRef::new(lie.to_str().unwrap()));
    let part = with(reply(&hello, ""), |message| message.media = media);
    running.channel.send(&part).await.unwrap();
    let sent = running.fake.sent();
    let files: Vec<_> = sent
        .iter()
        .flat_map(|sent| &sent.files)
        .map(|file| (file.kind.as_str(), file.name.as_str(), file.bytes.len()))
        .collect();
    assert_eq!(
        files,
        [
            ("image", "image", 10 << 20),
            ("stream", "large.png", (10 << 20) + 1),
            ("stream", "full.bin", 30 << 20),
            ("stream", "lie.png", 8),
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn repeated_send_is_shown_once() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let faults = [
        Fault::DropAfterEffect,
        Fault::ErrorAfterEffect(2200),
        Fault::Drop,
    ];
    for (position, fault) in (0..).zip(faults) {
        running.fake.fail_next("message.create", fault);
        let part = marked(&hello, position, "**once**", "once");
        let error = running.channel.send(&part).await.unwrap_err();
        assert_ne!(error.recovery(), SendRecovery::GiveUp, "{error}");
        running.channel.send(&part).await.unwrap();
        // After a restart, too.
        let restarted = channel(&running.fake, &json!({}));
        let sent = restarted.send(&part).await.unwrap();
        assert_eq!(running.fake.sent().len(), position as usize + 1);
        let last = running.fake.sent().pop().unwrap().message_id;
        assert_eq!(sent.message_id.map(|id| id.to_string()), Some(last));
    }
    running.stop().await;
}
