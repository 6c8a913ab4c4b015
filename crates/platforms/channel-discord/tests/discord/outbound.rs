//! Outbound messages: quotes, files, buttons, repeated sends.

use std::sync::Arc;

use nanobot_channel::{
    Button, ChannelError, DeliveryGuarantee, MediaRef, OutboundKind, OutboundPart,
};
use nanobot_channel_discord_fake::{CHANNELS, Fault, Incoming};
use serde_json::json;

use crate::support::{Running, ann, event, part, reply, with};

#[tokio::test]
async fn reply_quotes_and_pings_only_named_users() {
    let running = Running::start(json!({})).await;
    let pushed = running
        .fake
        .push(Incoming::in_channel(CHANNELS[0], &ann(), "hello"));
    let inbound = running.assistant.message(1).await.unwrap();
    let sent = running
        .channel
        .send(&reply(&inbound, "@everyone @here <@&5> <@7>: **hi**"))
        .await
        .unwrap();
    let shown = running.fake.sent().remove(0);
    assert_eq!(
        sent.message_id.unwrap().as_str(),
        shown.message_id.to_string()
    );
    assert_eq!(
        (shown.reply_to, shown.pings),
        (Some(pushed.message_id), vec!["7".to_owned()])
    );
    let call = running.fake.calls_of("createMessage").remove(0);
    assert_eq!(call.body["allowed_mentions"]["replied_user"], json!(false));
    running.stop().await;
}

#[tokio::test]
async fn deleted_message_is_not_quoted_and_quoting_is_optional() {
    let running = Running::start(json!({})).await;
    let pushed = running.fake.push(Incoming::direct(&ann(), "hello"));
    let inbound = running.assistant.message(1).await.unwrap();
    running.fake.delete(pushed.channel_id, pushed.message_id);
    running
        .channel
        .send(&reply(&inbound, "too late"))
        .await
        .unwrap();
    assert_eq!(running.fake.sent()[0].reply_to, None);
    running.stop().await;
    let running = Running::start(json!({"replyToMessage": false})).await;
    let inbound = running.hello().await;
    running.channel.send(&reply(&inbound, "hi")).await.unwrap();
    assert_eq!(running.fake.sent()[0].reply_to, None);
    running.stop().await;
}

#[tokio::test]
async fn part_sent_twice_appears_once() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    assert!(matches!(
        running.channel.guarantee(),
        DeliveryGuarantee::Idempotent { window: Some(_) }
    ));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "a").unwrap();
    let part = with(reply(&inbound, "once"), |message| {
        message.media = vec![MediaRef::new(path.to_string_lossy())];
    });
    for fault in [Fault::DropAfterEffect, Fault::Drop] {
        running.fake.fail_next("createMessage", fault);
        let error = running.channel.send(&part).await.unwrap_err();
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    }
    for _ in 0..2 {
        running.channel.send(&part).await.unwrap();
    }
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.text, sent.files.len()))
        .collect();
    assert_eq!(shown, [(String::new(), 1), ("once".to_owned(), 0)]);
    let other = OutboundPart {
        index: 1,
        count: 2,
        ..part.clone()
    };
    running.channel.send(&other).await.unwrap();
    assert_eq!(
        running.fake.sent().len(),
        3,
        "another part is another message"
    );
    running.stop().await;
}

#[tokio::test]
async fn progress_messages_quote_nothing() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let texts = [
        (OutboundKind::Progress, "thinking"),
        (OutboundKind::ToolHint, "exec(\"ls\")"),
        (OutboundKind::Final, "done"),
    ];
    for (position, (kind, text)) in (0..).zip(texts) {
        let mut message = event(&inbound, kind, text);
        message.key.position = position;
        running.channel.send(&part(message)).await.unwrap();
    }
    let shown: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.text, sent.reply_to.is_some()))
        .collect();
    let expected = [("thinking", false), ("exec(\"ls\")", false), ("done", true)];
    assert_eq!(
        shown,
        expected.map(|(text, quotes)| (text.to_owned(), quotes))
    );
    running.stop().await;
}

#[tokio::test]
async fn files_precede_the_text_and_failures_are_named() {
    let running = Running::start(json!({})).await;
    let pushed = running.fake.push(Incoming::direct(&ann(), "files, please"));
    let inbound = running.assistant.message(1).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plot 1.png");
    std::fs::write(&path, "PNG").unwrap();
    running.fake.set_upload_limit(10);
    let large = folder.path().join("large.bin");
    std::fs::write(&large, vec![0; 11]).unwrap();
    let part = with(reply(&inbound, "there you are"), |message| {
        let nowhere = folder.path().join("nowhere.txt");
        let local = [&path, &large, &nowhere].map(|path| MediaRef::new(path.to_string_lossy()));
        message.media = local
            .into_iter()
            .chain([MediaRef::new("https://x.test/cat.gif")])
            .collect();
    });
    running.channel.send(&part).await.unwrap();
    let shown: Vec<_> = running.fake.sent();
    let texts: Vec<_> = shown
        .iter()
        .map(|sent| (sent.text.as_str(), sent.reply_to))
        .collect();
    let expected = [
        ("", Some(pushed.message_id)),
        ("[attachment: large.bin - send failed]", None),
        ("[attachment: nowhere.txt - send failed]", None),
        ("https://x.test/cat.gif", None),
        ("there you are", None),
    ];
    assert_eq!(texts, expected);
    assert_eq!(
        (
            shown[0].files[0].name.as_str(),
            &shown[0].files[0].bytes[..]
        ),
        ("plot 1.png", b"PNG".as_slice())
    );
    running.stop().await;
}

#[tokio::test]
async fn choices_become_buttons_of_the_last_part() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let question = with(reply(&inbound, "really?"), |message| {
        let button = |label: &str| Button {
            label: label.to_owned(),
        };
        message.buttons = vec![
            vec![button("Yes"), button("No")],
            vec![button(&"long ".repeat(30))],
        ];
    });
    let first = OutboundPart {
        count: 2,
        ..question.clone()
    };
    let last = OutboundPart {
        index: 1,
        count: 2,
        text: "well?".to_owned(),
        ..question
    };
    running.channel.send(&first).await.unwrap();
    running.channel.send(&last).await.unwrap();
    let shown = running.fake.sent();
    assert_eq!(shown[0].buttons, Vec::<Vec<String>>::new());
    assert_eq!(shown[1].buttons[0], ["Yes", "No"]);
    assert_eq!(shown[1].buttons[1][0].chars().count(), 80);
    running.stop().await;
}

#[tokio::test]
async fn unknown_and_forbidden_targets_are_reported() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    for chat in ["general", "0", "12345"] {
        let part = with(reply(&inbound, "x"), |message| {
            message.chat_id = chat.into();
        });
        let error = running.channel.send(&part).await.unwrap_err();
        assert!(
            matches!(error, ChannelError::NotFound(_)),
            "{chat}: {error}"
        );
    }
    running
        .fake
        .push(Incoming::in_channel(CHANNELS[0], &ann(), "hello"));
    let inbound = running.assistant.message(2).await.unwrap();
    running.fake.forbid(CHANNELS[0]);
    let error = running
        .channel
        .send(&reply(&inbound, "x"))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot deliver there: Missing Permissions (status 403, code 50013)"
    );
    running.stop().await;
}

#[tokio::test]
async fn sends_while_not_receiving() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let channel = Arc::clone(&running.channel);
    let fake = running.stop().await;
    channel.send(&reply(&inbound, "still here")).await.unwrap();
    assert_eq!(
        channel.probe().unwrap().probe().await.unwrap(),
        "@nanobot_test"
    );
    assert_eq!(fake.sent()[0].text, "still here");
}
