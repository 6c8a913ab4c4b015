//! What is sent: forms, transaction ids, files, drafts.

use std::time::Duration;

use nanobot_channel::{ChannelError, MediaRef, OutboundKind, OutboundMessage, StreamId};
use nanobot_channel_matrix_fake::{Fault, Incoming};
use serde_json::json;

use crate::support::{ROOM, Running, ann, part, reply, with};

#[tokio::test]
async fn repeated_part_is_one_message() {
    let running = Running::start(json!({"reactEmoji": ""})).await;
    let inbound = running.hello().await;
    running.fake.fail_next("send", Fault::DropAfterEffect);
    let first = running.channel.send(&reply(&inbound, "answer")).await;
    assert!(
        matches!(first, Err(ChannelError::Ambiguous(_))),
        "{first:?}"
    );
    running
        .channel
        .send(&reply(&inbound, "answer"))
        .await
        .unwrap();
    running
        .channel
        .send(&part(&inbound, 1, "other"))
        .await
        .unwrap();
    assert_eq!(texts(&running), ["answer", "other"]);
    running.stop().await;
}

fn texts(running: &Running) -> Vec<String> {
    let sent = running.fake.sent().into_iter();
    let sent = sent.filter(|sent| sent.kind == "m.room.message");
    sent.map(|sent| sent.text).collect()
}

#[tokio::test]
async fn html_accompanies_text_with_marks() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let mut rich = reply(&inbound, "bold");
    rich.text = "<strong>bold</strong>".to_owned();
    running.channel.send(&rich).await.unwrap();
    running
        .channel
        .send(&part(&inbound, 1, "a < b"))
        .await
        .unwrap();
    let forms: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .filter(|sent| sent.kind == "m.room.message")
        .map(|sent| (sent.text, sent.html, sent.content["m.mentions"].clone()))
        .collect();
    assert_eq!(
        forms,
        [
            (
                "bold".to_owned(),
                Some("<strong>bold</strong>".to_owned()),
                json!({})
            ),
            ("a < b".to_owned(), None, json!({})),
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn only_the_first_part_quotes_the_question() {
    let running = Running::start(json!({})).await;
    let inbound = Incoming::to(ROOM, &ann(), "question").mentioning_bot();
    let inbound = running.receive(inbound).await;
    for index in 0..2 {
        let mut part = reply(&inbound, "answer");
        (part.index, part.count) = (index, 2);
        running.channel.send(&part).await.unwrap();
    }
    let quotes: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .filter(|sent| sent.kind == "m.room.message")
        .map(|sent| sent.reply_to)
        .collect();
    assert_eq!(quotes, [inbound.id.map(|id| id.to_string()), None]);
    running.stop().await;
}

#[tokio::test]
async fn file_above_the_limit_of_the_homeserver_is_a_note() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    running.fake.limit_upload(4);
    let folder = tempfile::tempdir().unwrap();
    let [small, large] = ["a.png", "b.png"].map(|name| folder.path().join(name));
    std::fs::write(&small, b"1234").unwrap();
    std::fs::write(&large, b"12345").unwrap();
    let media = [small, large].map(|path| MediaRef::new(path.to_string_lossy()));
    let part = with(reply(&inbound, "text"), |message| {
        message.media = media.to_vec();
    });
    running.channel.send(&part).await.unwrap();
    let sent = running.fake.sent();
    let sent: Vec<_> = sent
        .iter()
        .filter(|sent| sent.kind == "m.room.message")
        .map(|sent| (sent.msgtype.as_str(), sent.text.as_str(), sent.files.len()))
        .collect();
    assert_eq!(
        sent,
        [
            ("m.image", "a.png", 1),
            ("m.text", "[attachment: b.png - send failed]", 0),
            ("m.text", "text", 0),
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn draft_grows_by_edits_and_becomes_the_reply() {
    let running = Running::start(json!({"reactEmoji": ""})).await;
    let inbound = running.hello().await;
    let stream = StreamId::from("s1");
    let drafts = running.channel.drafts().unwrap();
    let delta = |text: &str| OutboundMessage {
        kind: OutboundKind::Delta {
            stream: stream.clone(),
        },
        content: text.to_owned(),
        ..(*reply(&inbound, text).message).clone()
    };
    drafts.append(&delta("one ")).await.unwrap();
    let shown = |text: &'static str| {
        move |sent: &[nanobot_channel_matrix_fake::SentMessage]| {
            sent.iter().any(|sent| sent.text == text).then_some(())
        }
    };
    running
        .fake
        .wait_for("the draft", shown("one "))
        .await
        .unwrap();
    drafts.append(&delta("two")).await.unwrap();
    running
        .fake
        .wait_for("the edit", shown("one two"))
        .await
        .unwrap();
    let last = with(reply(&inbound, "one two three"), |message| {
        message.completes = Some(stream.clone());
    });
    running.fake.fail_next("send", Fault::DropAfterEffect);
    assert!(running.channel.send(&last).await.is_err());
    running.channel.send(&last).await.unwrap();
    assert_eq!(texts(&running), ["one two three"]);
    running.stop().await;
}

#[tokio::test]
async fn typing_and_reaction_end_with_the_turn() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let typing = running.channel.typing().unwrap();
    assert!(typing.lasts() >= Duration::from_secs(10));
    typing
        .show(&inbound.chat_id, &inbound.delivery)
        .await
        .unwrap();
    assert!(running.fake.is_typing(&ann().direct()));
    let has_reaction = |is_redacted: bool| {
        move |sent: &[nanobot_channel_matrix_fake::SentMessage]| {
            let is = |sent: &nanobot_channel_matrix_fake::SentMessage| {
                sent.kind == "m.reaction" && sent.is_redacted == is_redacted
            };
            sent.iter().any(is).then_some(())
        }
    };
    running
        .fake
        .wait_for("a reaction", has_reaction(false))
        .await
        .unwrap();
    let end = with(reply(&inbound, ""), |message| {
        message.kind = OutboundKind::TurnEnd { unfinished: 0 };
    });
    let ends = running.channel.turn_ends().unwrap();
    ends.ended(&end.message).await.unwrap();
    running
        .fake
        .wait_for("its removal", has_reaction(true))
        .await
        .unwrap();
    running
        .fake
        .wait_for_typing(&ann().direct(), false)
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn pause_of_the_homeserver_is_passed_on() {
    let running = Running::start(json!({"reactEmoji": ""})).await;
    let inbound = running.hello().await;
    running.fake.fail_next("send", Fault::RateLimitedFor(7));
    let error = running
        .channel
        .send(&reply(&inbound, "x"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ChannelError::RateLimited { retry_after } if retry_after.as_secs() == 7),
        "{error:?}"
    );
    running.stop().await;
}
