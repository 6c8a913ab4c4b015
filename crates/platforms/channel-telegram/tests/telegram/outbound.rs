//! Replies, files, errors.

use std::time::Duration;

use nanobot_channel::{
    Button, DeliveryContext, DeliveryGuarantee, Format, InboundMessage, Measure, MediaRef,
    MessageId, OutboundPart, SendRecovery, TextStyle,
};
use nanobot_channel_telegram::TelegramHtml;
use nanobot_channel_telegram_fake::{Fault, FileKind, Incoming, SentMessage, TelegramFake};
use serde_json::json;

use crate::support::{GROUP, Running, ann, channel, reply, with};

#[tokio::test]
async fn channel_reports_its_capabilities() {
    let running = Running::start(json!({})).await;
    let style = TextStyle {
        format: Format::Markup(&TelegramHtml),
        measure: Measure::Utf16,
        limit: 4000,
    };
    assert_eq!(
        format!("{:?}", running.channel.text_style()),
        format!("{style:?}")
    );
    assert_eq!(
        running.channel.guarantee(),
        DeliveryGuarantee::PartlyDetectable
    );
    assert!(running.channel.drafts().is_some() && running.channel.typing().is_some());
    running.stop().await;
    let whole = Running::start(json!({"streaming": false})).await;
    assert!(whole.channel.drafts().is_none());
    assert_eq!(whole.channel.guarantee(), DeliveryGuarantee::BestEffort);
    whole.stop().await;
}

#[tokio::test]
async fn refused_markup_falls_back_to_plain_text() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let part = |text: &str, plain: &str| OutboundPart {
        plain: plain.to_owned(),
        ..reply(&inbound, text)
    };
    let sent = running
        .channel
        .send(&part("<b>1</b> &lt; 2", "1 < 2"))
        .await
        .unwrap();
    assert_eq!(sent.message_id, Some(MessageId::from("2")));
    running
        .channel
        .send(&part("<h1>1</h1>", "# 1"))
        .await
        .unwrap();
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.text, sent.parse_mode, sent.reply_to))
        .collect();
    let row = |text: &str, mode: &str| (text.to_owned(), mode.to_owned(), None);
    assert_eq!(shown, [row("1 < 2", "HTML"), row("# 1", "")]);
    running.stop().await;
}

#[tokio::test]
async fn only_the_first_part_quotes_and_missing_quotes_are_dropped() {
    let running = Running::start(json!({"replyToMessage": true})).await;
    let inbound = running.hello().await;
    let second = OutboundPart {
        index: 1,
        count: 2,
        ..reply(&inbound, "two")
    };
    running
        .channel
        .send(&OutboundPart {
            count: 2,
            ..reply(&inbound, "one")
        })
        .await
        .unwrap();
    running.channel.send(&second).await.unwrap();
    let gone = with(reply(&inbound, "three"), |message| {
        message.delivery.reply_to = Some("4711".into());
    });
    running.channel.send(&gone).await.unwrap();
    let quoted: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| sent.reply_to)
        .collect();
    assert_eq!(quoted, [Some(1), None, None]);
    running.stop().await;
}

#[tokio::test]
async fn files_precede_the_text_by_type() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let names = ["a.JPG", "b.ogg", "c.mp3", "d.mp4", "e.pdf"];
    let mut media = Vec::new();
    for name in names {
        let path = folder.path().join(name);
        std::fs::write(&path, name).unwrap();
        media.push(MediaRef::new(path.to_str().unwrap()));
    }
    media.push(MediaRef::new("https://pictures.test/cat.png"));
    media.push(MediaRef::new(
        folder.path().join("missing.txt").to_str().unwrap(),
    ));
    running
        .channel
        .send(&with(reply(&inbound, "here"), |message| {
            message.media = media;
        }))
        .await
        .unwrap();
    let row = |sent: SentMessage| match sent.file {
        Some(file) => (
            format!("{:?} {}", file.kind, file.name),
            String::from_utf8(file.bytes.to_vec()).unwrap(),
        ),
        None => (sent.text, sent.parse_mode),
    };
    let shown: Vec<_> = running.fake.sent().into_iter().map(row).collect();
    let expected = [
        ("Photo a.JPG", "a.JPG"),
        ("Voice b.ogg", "b.ogg"),
        ("Audio c.mp3", "c.mp3"),
        ("Video d.mp4", "d.mp4"),
        ("Document e.pdf", "e.pdf"),
        ("Photo https://pictures.test/cat.png", ""),
        ("[Failed to send: missing.txt]", ""),
        ("here", "HTML"),
    ];
    assert_eq!(
        shown,
        expected.map(|(what, content)| (what.to_owned(), content.to_owned()))
    );
    running.stop().await;
}

#[tokio::test]
async fn retried_part_does_not_resend_files() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let media = ["https://a.test/a.png", "https://a.test/b.ogg"]
        .map(MediaRef::new)
        .to_vec();
    let part = with(reply(&inbound, "here"), |message| message.media = media);
    running.fake.fail_next("sendMessage", Fault::bad_gateway());
    running.channel.send(&part).await.unwrap_err();
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.fake.sent().len(), 3);
    running.fake.fail_next(
        "sendPhoto",
        Fault::Status(
            400,
            "Bad Request: wrong type of the web page content".to_owned(),
        ),
    );
    running.channel.send(&part).await.unwrap();
    assert_eq!(
        running.fake.sent()[3].text,
        "[Failed to send: a.png]",
        "a whole new message begins at its first file"
    );
    assert_eq!(running.fake.sent().len(), 6);
    running.stop().await;
}

#[tokio::test]
async fn choices_are_appended_to_the_last_part() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let button = |label: &str| Button {
        label: label.to_owned(),
    };
    let rows = vec![vec![button("yes"), button("<no>")], vec![button("later")]];
    let first = with(
        OutboundPart {
            count: 2,
            ..reply(&inbound, "one")
        },
        |message| message.buttons = rows,
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
    assert_eq!(
        running.fake.texts_in(7),
        ["one", "two\n\n[yes] [<no>]\n[later]"]
    );
    running.stop().await;
}

#[tokio::test]
async fn failures_map_to_recovery_without_waiting() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let status = |code, text: &str| Fault::Status(code, text.to_owned());
    let retry = |seconds| SendRecovery::Retry {
        after: Some(Duration::from_secs(seconds)),
    };
    let table = [
        (Fault::RetryAfter(7), "rate limited for 7000 ms", retry(7)),
        (
            Fault::bad_gateway(),
            "the platform cannot be reached: Bad Gateway (code 502)",
            SendRecovery::Retry { after: None },
        ),
        (
            Fault::unauthorized(),
            "the platform refuses the credentials: Unauthorized (code 401); check the token",
            SendRecovery::GiveUp,
        ),
        (
            status(403, "Forbidden: bot was blocked by the user"),
            "cannot deliver there: Forbidden: bot was blocked by the user (code 403)",
            SendRecovery::GiveUp,
        ),
        (
            status(400, "Bad Request: chat not found"),
            "cannot deliver there: Bad Request: chat not found (code 400)",
            SendRecovery::GiveUp,
        ),
        (
            status(400, "Bad Request: message is too long"),
            "too large for the platform: Bad Request: message is too long (code 400)",
            SendRecovery::GiveUp,
        ),
        (
            Fault::DropAfterEffect,
            "unknown whether the platform took it: ",
            SendRecovery::Uncertain,
        ),
    ];
    for (fault, text, recovery) in table {
        // A client that waits inside takes 10 s for the 502 each time; a machine that is busy once.
        let mut waits = 0;
        let error = loop {
            running.fake.fail_next("sendMessage", fault.clone());
            let began = std::time::Instant::now();
            let error = running
                .channel
                .send(&reply(&inbound, "x"))
                .await
                .unwrap_err();
            if began.elapsed() < Duration::from_secs(10) {
                break error;
            }
            waits += 1;
            assert!(waits < 3, "it waits before it says so: {error}");
        };
        assert!(error.to_string().starts_with(text), "{error}");
        assert_eq!(error.recovery(), recovery, "{error}");
    }
    let nowhere = with(reply(&inbound, "x"), |message| {
        message.chat_id = "Ann".into();
    });
    let error = running.channel.send(&nowhere).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot deliver there: `Ann` is no id of a Telegram chat"
    );
    running.stop().await;
}

#[tokio::test]
async fn timeout_after_send_is_uncertain() {
    // It sends without running, so that nothing else has to be done within the time.
    let fake = TelegramFake::start().await.unwrap();
    let channel = channel(&fake, &json!({"requestTimeout": 3}));
    fake.push(Incoming::private(&ann(), "hello"));
    fake.fail_next("sendMessage", Fault::HangAfterEffect);
    let inbound = InboundMessage::text("telegram", "7|ann_x", "7", "hello");
    loop {
        let error = channel.send(&reply(&inbound, "x")).await.unwrap_err();
        // A machine that is busy may be too slow even to ask.
        if !fake.calls_of("sendMessage").is_empty() {
            assert_eq!(error.recovery(), SendRecovery::Uncertain, "{error}");
            break;
        }
    }
    assert_eq!(fake.texts_in(7), ["x"]);
}

#[tokio::test]
async fn typing_is_shown_in_the_topic() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::group(GROUP, &ann(), "hello").in_topic(5));
    let inbound = running.assistant.message(1).await.unwrap();
    let typing = running.channel.typing().unwrap();
    assert_eq!(typing.lasts(), Duration::from_secs(5));
    typing
        .show(&inbound.chat_id, &inbound.delivery)
        .await
        .unwrap();
    typing
        .show(&inbound.chat_id, &DeliveryContext::default())
        .await
        .unwrap();
    let params: Vec<_> = running
        .fake
        .calls_of("sendChatAction")
        .into_iter()
        .map(|call| call.params)
        .collect();
    let expected = [
        json!({"chat_id": GROUP, "action": "typing", "message_thread_id": 5}),
        json!({"chat_id": GROUP, "action": "typing"}),
    ];
    assert_eq!(params, expected);
    let gone = DeliveryContext {
        thread: Some("6".to_owned()),
        ..DeliveryContext::default()
    };
    let error = typing.show(&inbound.chat_id, &gone).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot deliver there: Bad Request: message thread not found (code 400)"
    );
    running.stop().await;
}

#[tokio::test]
async fn files_of_one_kind_form_an_album() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, name).unwrap();
        MediaRef::new(path.to_str().unwrap())
    };
    let media = vec![
        file("a.png"),
        file("b.mp4"),
        MediaRef::new("https://a.test/c.jpg"),
        file("d.pdf"),
        file("e.txt"),
    ];
    let sent = running
        .channel
        .send(&with(reply(&inbound, "here"), |message| {
            message.media = media;
        }))
        .await
        .unwrap();
    let methods: Vec<_> = running
        .fake
        .calls()
        .into_iter()
        .map(|call| call.method)
        .collect();
    assert_eq!(
        methods
            .iter()
            .filter(|method| *method == "sendMediaGroup")
            .count(),
        2,
        "{methods:?}"
    );
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| sent.file.map_or(sent.text, |file| file.name))
        .collect();
    assert_eq!(
        shown,
        [
            "a.png",
            "b.mp4",
            "https://a.test/c.jpg",
            "d.pdf",
            "e.txt",
            "here"
        ]
    );
    assert_eq!(
        sent.message_id,
        running
            .fake
            .sent()
            .last()
            .map(|sent| sent.message_id.to_string().as_str().into())
    );
    running.stop().await;
}

#[tokio::test]
async fn album_with_a_bad_file_is_sent_one_by_one() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("a.png"), "PNG").unwrap();
    std::fs::write(path("large.png"), vec![0; (10 << 20) + 1]).unwrap();
    let media = ["a.png", "missing.png", "large.png"]
        .map(|name| MediaRef::new(path(name)))
        .to_vec();
    running
        .channel
        .send(&with(reply(&inbound, ""), |message| message.media = media))
        .await
        .unwrap();
    let row = |sent: SentMessage| {
        sent.file
            .map_or(sent.text, |file| format!("{:?} {}", file.kind, file.name))
    };
    let shown: Vec<_> = running.fake.sent().into_iter().map(row).collect();
    assert_eq!(
        shown,
        [
            "Photo a.png",
            "[Failed to send: missing.png]",
            "Document large.png"
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn private_addresses_are_not_passed_to_telegram() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let media = [
        "http://127.0.0.1:1/a.png",
        "https://a.test/b.png",
        "http://nas.local/c.png",
    ]
    .map(MediaRef::new)
    .to_vec();
    running
        .channel
        .send(&with(reply(&inbound, ""), |message| message.media = media))
        .await
        .unwrap();
    let row = |sent: SentMessage| sent.file.map_or(sent.text, |file| file.name);
    let shown: Vec<_> = running.fake.sent().into_iter().map(row).collect();
    assert_eq!(
        shown,
        [
            "[Failed to send: a.png]",
            "https://a.test/b.png",
            "[Failed to send: c.png]"
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn refused_media_type_falls_back_to_a_document() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    for (name, method, refusal) in [
        (
            "wide.png",
            "sendPhoto",
            "Bad Request: PHOTO_INVALID_DIMENSIONS",
        ),
        (
            "hi.ogg",
            "sendVoice",
            "Bad Request: VOICE_MESSAGES_FORBIDDEN",
        ),
    ] {
        running
            .fake
            .fail_next(method, Fault::Status(400, refusal.to_owned()));
        let media = vec![MediaRef::new(format!("https://a.test/{name}"))];
        running
            .channel
            .send(&with(reply(&inbound, ""), |message| message.media = media))
            .await
            .unwrap();
    }
    let kinds: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| sent.file.unwrap().kind)
        .collect();
    assert_eq!(kinds, [FileKind::Document, FileKind::Document]);
    running.stop().await;
}

#[tokio::test]
async fn closed_or_deleted_topic_falls_back_to_the_chat() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::group(GROUP, &ann(), "/new").in_topic(5));
    running
        .fake
        .push(Incoming::group(GROUP, &ann(), "/new").in_topic(6));
    let inbound = [
        running.assistant.message(1).await.unwrap(),
        running.assistant.message(2).await.unwrap(),
    ];
    running.fake.close_topic(GROUP, 5);
    running.fake.delete_topic(GROUP, 6);
    for inbound in &inbound {
        running.channel.send(&reply(inbound, "back")).await.unwrap();
    }
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.text, sent.thread_id))
        .collect();
    assert_eq!(shown, vec![("back".to_owned(), None); 2]);
    running.stop().await;
}

#[tokio::test]
async fn migrated_chat_is_followed_and_blocked_chat_gives_up() {
    let running = Running::start(json!({})).await;
    running.fake.push(Incoming::group(-42, &ann(), "/new"));
    let inbound = running.assistant.message(1).await.unwrap();
    running.fake.migrate(-42, GROUP);
    let media = vec![MediaRef::new("https://a.test/a.png")];
    running
        .channel
        .send(&with(reply(&inbound, "hello"), |message| {
            message.media = media;
        }))
        .await
        .unwrap();
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| sent.chat_id)
        .collect();
    assert_eq!(shown, [GROUP, GROUP]);
    running.fake.block(GROUP);
    let error = running
        .channel
        .send(&reply(&inbound, "hello"))
        .await
        .unwrap_err();
    let expected = "cannot deliver there: Forbidden: bot was blocked by the user (code 403)";
    assert_eq!(
        (error.to_string().as_str(), error.recovery()),
        (expected, SendRecovery::GiveUp)
    );
    running.stop().await;
}
