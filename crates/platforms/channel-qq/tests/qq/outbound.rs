//! Replies, targets, Markdown, files, links, buttons.

use nanobot_channel::{
    Button, ChannelError, DeliveryGuarantee, Format, MediaRef, OutboundPart, SendRecovery,
};
use nanobot_channel_qq_fake::{ChatKind, Incoming, SentMessage};
use nanobot_text::render;
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, fake, mallory, part, with};

#[tokio::test]
async fn channel_reports_its_capabilities() {
    let fake = fake().await;
    let channel = channel(&fake, &json!({}));
    let style = channel.text_style();
    assert!(matches!(style.format, Format::Markup(_)) && style.limit == 2000);
    assert_eq!(channel.guarantee(), DeliveryGuarantee::Detectable);
    assert!(channel.drafts().is_none() && channel.turn_ends().is_none());
    assert!(channel.typing().is_none() && channel.probe().is_some());
}

#[tokio::test]
async fn form_of_a_message_follows_the_configuration() {
    for (format, expected) in [
        ("plain", (0, "bold <words>")),
        ("markdown", (2, "**bold** \\<words>")),
    ] {
        let running = Running::start(json!({"msgFormat": format})).await;
        let hello = running.hello().await;
        let marked = OutboundPart {
            plain: "bold <words>".to_owned(),
            ..part(&hello, 0, "**bold** \\<words>")
        };
        running.channel.send(&marked).await.unwrap();
        // A text without marks needs no Markdown.
        running.send(&hello, 1, "a * b").await.unwrap();
        let sent = running.fake.sent();
        let shown: Vec<_> = sent
            .iter()
            .map(|sent| (sent.msg_type, sent.text.as_str()))
            .collect();
        assert_eq!(shown, [expected, (0, "a * b")]);
        running.stop().await;
    }
}

#[tokio::test]
async fn refused_markdown_is_sent_as_plain_text() {
    let running = Running::start(json!({"msgFormat": "markdown"})).await;
    running.fake.refuse_markdown(true);
    let hello = running.hello().await;
    let marked = OutboundPart {
        plain: "bold".to_owned(),
        ..part(&hello, 0, "**bold**")
    };
    running.channel.send(&marked).await.unwrap();
    assert_eq!(running.sent(), [("bold".to_owned(), true)]);
    running.stop().await;
}

#[tokio::test]
async fn long_replies_are_split_within_the_limits() {
    let running = Running::start(json!({"msgFormat": "markdown"})).await;
    running.fake.limit_text(2000);
    running.fake.limit_active_messages(1000);
    let hello = running.hello().await;
    let mut count = 0;
    for text in ["語", "🙂", "\"\\", "*a ", "a\n\n", "```\n語\n```\n\n"] {
        let markdown = format!("**x** {}", text.repeat(9_000 / text.len()));
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
async fn targets_are_people_groups_and_guilds_also_after_a_restart() {
    let running = Running::start(json!({})).await;
    running.fake.add_group("GONE", false);
    running.fake.push(Incoming::guild_direct(&ann(), "hi"));
    running.assistant.message(1).await.unwrap();
    let hello = running.hello_in_room().await;
    let (fake, assistant) = running.halt().await;
    let running = Running::with(fake, &json!({}), assistant);
    running.fake.wait_for_ready(1).await.unwrap();
    let (person, guild) = (ann(), ann().dms());
    let table = [
        (ROOM.to_owned(), Some((ChatKind::Group, ROOM.to_owned()))),
        (
            format!("group:{ROOM}"),
            Some((ChatKind::Group, ROOM.to_owned())),
        ),
        (mallory().openid, Some((ChatKind::User, mallory().openid))),
        (
            format!("c2c:{}", person.openid),
            Some((ChatKind::User, person.openid.clone())),
        ),
        (person.user_id.clone(), Some((ChatKind::Dms, guild.clone()))),
        (format!("dms:{guild}"), None),
        (format!("dm:{guild}"), Some((ChatKind::Dms, guild))),
        ("group:GONE".to_owned(), None),
        ("GONE".to_owned(), None),
        ("../users/@me".to_owned(), None),
    ];
    for (position, (target, expected)) in (0..).zip(table) {
        let part = with(part(&hello, position, "there"), |message| {
            message.chat_id = target.as_str().into();
            message.delivery = Default::default();
            message.metadata.clear();
        });
        let before = running.fake.sent().len();
        let sent = running.channel.send(&part).await;
        let found = running.fake.sent().into_iter().nth(before);
        let found = found.map(|sent| (sent.chat_kind, sent.chat_id));
        assert_eq!(found, expected, "{target}");
        if let Err(error) = sent {
            assert!(
                matches!(error, ChannelError::NotFound(_)),
                "{target}: {error}"
            );
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn unknown_id_may_be_one_of_a_group() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    for position in 0..2 {
        let part = with(part(&hello, position, "there"), |message| {
            message.chat_id = ROOM.into();
            message.delivery = Default::default();
        });
        running.channel.send(&part).await.unwrap();
    }
    assert_eq!(running.fake.texts_in(ROOM), ["there", "there"]);
    // The first answer is remembered.
    assert_eq!(running.fake.calls_of("user.send").len(), 1);
    running.stop().await;
}

fn with_files(inbound: &nanobot_channel::InboundMessage, files: &[&str]) -> OutboundPart {
    with(part(inbound, 0, "text"), |message| {
        message.media = files.iter().map(|file| MediaRef::new(*file)).collect();
    })
}

fn files(sent: &[SentMessage]) -> Vec<(String, String)> {
    let files = sent.iter().flat_map(|sent| &sent.files);
    files
        .map(|file| (file.kind.clone(), file.name.clone()))
        .collect()
}

#[tokio::test]
async fn files_are_sent_as_what_they_are() {
    let running = Running::start(json!({})).await;
    running.fake.limit_active_messages(100);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    };
    let paths = [
        write("cat.png", b"\x89PNG\r\n\x1a\n"),
        write("film.mp4", b"\0\0\0\x18ftypmp42"),
        write("no picture.png", b"words"),
        write("a.txt", b"words"),
        write("empty.txt", b""),
        folder
            .path()
            .join("gone.txt")
            .to_string_lossy()
            .into_owned(),
        "https://x.test/a/dog.jpg?size=1".to_owned(),
    ];
    let hello = running.hello().await;
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    running
        .channel
        .send(&with_files(&hello, &paths))
        .await
        .unwrap();
    let expected = [
        ("image", "cat.png"),
        ("video", "film.mp4"),
        ("file", "no picture.png"),
        ("file", "a.txt"),
        ("image", "dog.jpg"),
    ];
    let found = files(&running.fake.sent());
    let found: Vec<_> = found
        .iter()
        .map(|(kind, name)| (kind.as_str(), name.as_str()))
        .collect();
    assert_eq!(found, expected);
    let texts: Vec<String> = running
        .texts()
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    assert_eq!(
        texts,
        [
            "[Failed to send: empty.txt]",
            "[Failed to send: gone.txt]",
            "text"
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn refused_group_file_is_named_in_its_place() {
    let running = Running::start(json!({})).await;
    running.fake.refuse_group_files(true);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "words").unwrap();
    let hello = running.hello_in_room().await;
    let part = with_files(&hello, &[&path.to_string_lossy()]);
    running.channel.send(&part).await.unwrap();
    assert_eq!(
        running.fake.texts_in(ROOM),
        ["[Failed to send: a.txt]", "text"]
    );
    running.stop().await;
}

#[tokio::test]
async fn guilds_take_text_and_pictures() {
    let running = Running::start(json!({"msgFormat": "markdown"})).await;
    let folder = tempfile::tempdir().unwrap();
    let (picture, other) = (folder.path().join("cat.png"), folder.path().join("a.txt"));
    std::fs::write(&picture, b"\x89PNG\r\n\x1a\n").unwrap();
    std::fs::write(&other, b"words").unwrap();
    running.fake.push(Incoming::guild_direct(&ann(), "hi"));
    let hello = running.assistant.message(1).await.unwrap();
    let paths = [
        &*picture.to_string_lossy(),
        "https://x.test/dog.png",
        &*other.to_string_lossy(),
    ];
    let marked = OutboundPart {
        plain: "bold".to_owned(),
        text: "**bold**".to_owned(),
        ..with_files(&hello, &paths)
    };
    running.channel.send(&marked).await.unwrap();
    let sent = running.fake.sent();
    assert!(
        sent.iter()
            .all(|sent| sent.chat_id == ann().dms() && sent.msg_id.is_some())
    );
    assert_eq!(files(&sent).len(), 2);
    assert_eq!(sent[0].files[0].bytes.as_ref(), b"\x89PNG\r\n\x1a\n");
    assert_eq!(running.texts(), ["", "", "[Failed to send: a.txt]", "bold"]);
    running.stop().await;
}

#[tokio::test]
async fn refused_links_are_reported() {
    let running = Running::start(json!({})).await;
    running.fake.refuse_urls(true);
    let hello = running.hello().await;
    let error = running
        .send(&hello, 0, "see https://x.test")
        .await
        .unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::GiveUp);
    assert!(
        error.to_string().contains("registered on the bot's page"),
        "{error}"
    );
    running.stop().await;
}

#[tokio::test]
async fn buttons_are_text_below_the_last_part() {
    for (format, expected) in [
        ("plain", "which?\n\n[yes*] [no]"),
        ("markdown", "**which?**\n\n[yes\\*] [no]"),
    ] {
        let running = Running::start(json!({"msgFormat": format})).await;
        let hello = running.hello().await;
        let asked = with(part(&hello, 0, "**which?**"), |message| {
            let button = |label: &str| Button {
                label: label.to_owned(),
            };
            message.buttons = vec![vec![button(" yes* "), button("")], vec![button("no")]];
        });
        let asked = OutboundPart {
            plain: "which?".to_owned(),
            ..asked
        };
        let first = OutboundPart {
            count: 2,
            ..asked.clone()
        };
        running.channel.send(&first).await.unwrap();
        let last = OutboundPart {
            index: 1,
            count: 2,
            ..asked
        };
        running.channel.send(&last).await.unwrap();
        assert_eq!(running.texts()[1], expected);
        assert!(!running.texts()[0].contains("yes"));
        running.stop().await;
    }
}
