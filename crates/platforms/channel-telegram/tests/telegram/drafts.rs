//! Text shown while it is being written, in a message that is edited.

use std::time::Duration;

use nanobot_channel::{
    Channel, InboundMessage, OutboundKey, OutboundKind, OutboundMessage, StreamId,
};
use nanobot_channel_telegram_fake::{Fault, Incoming, SentMessage};
use nanobot_testkit::WAIT_LIMIT;
use serde_json::{Value, json};

use crate::support::{GROUP, Running, ann, part, reply, with};

/// Settings of a channel that shows drafts in messages in private chats, too.
fn editing() -> Value {
    json!({"nativeDrafts": false})
}

pub(crate) fn stream(name: &str) -> StreamId {
    StreamId::from(name)
}

pub(crate) fn event(inbound: &InboundMessage, kind: OutboundKind, text: &str) -> OutboundMessage {
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    OutboundMessage::in_reply_to(inbound, key, kind, text.to_owned())
}

pub(crate) async fn delta(channel: &dyn Channel, inbound: &InboundMessage, name: &str, text: &str) {
    let kind = OutboundKind::Delta {
        stream: stream(name),
    };
    channel
        .drafts()
        .unwrap()
        .append(&event(inbound, kind, text))
        .await
        .unwrap();
}

pub(crate) async fn end(
    channel: &dyn Channel,
    inbound: &InboundMessage,
    name: &str,
    resuming: bool,
) {
    let kind = OutboundKind::StreamEnd {
        stream: stream(name),
        resuming,
    };
    channel
        .drafts()
        .unwrap()
        .close(&event(inbound, kind, ""))
        .await
        .unwrap();
}

pub(crate) fn completing(
    inbound: &InboundMessage,
    name: &str,
    text: &str,
) -> nanobot_channel::OutboundPart {
    with(reply(inbound, text), |message| {
        message.completes = Some(stream(name));
        message.key.turn = name.into();
    })
}

pub(crate) async fn shown(running: &Running, text: &str) -> SentMessage {
    let is_it = |sent: &&SentMessage| sent.text == text;
    running
        .fake
        .wait_for(text, |sent| sent.iter().find(is_it).cloned())
        .await
        .unwrap()
}

/// Waits until so many drafts are noted, which a kill would leave.
pub(crate) async fn noted(running: &Running, count: usize) {
    let is_so = async {
        loop {
            let note = running.assistant.notes().all().get("drafts").cloned();
            let note: Value = note.map_or(Value::Null, |note| serde_json::from_str(&note).unwrap());
            if note["drafts"].as_array().map_or(0, Vec::len) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT_LIMIT, is_so).await.unwrap();
}

#[tokio::test]
async fn draft_grows_and_becomes_the_reply() {
    let running = Running::start(json!({"replyToMessage": true, "nativeDrafts": false})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", "  ").await;
    delta(channel, &inbound, "s", "**One**").await;
    shown(&running, "**One**").await;
    for word in [" two", " three", " four"] {
        delta(channel, &inbound, "s", word).await;
    }
    shown(&running, "**One** two three four").await;
    end(channel, &inbound, "s", false).await;
    let sent = channel
        .send(&completing(&inbound, "s", "<b>One</b> two three four five"))
        .await
        .unwrap();
    delta(channel, &inbound, "s", "late").await;
    let messages = running.fake.sent();
    assert_eq!(messages.len(), 1);
    assert_eq!(
        sent.message_id,
        Some(messages[0].message_id.to_string().as_str().into())
    );
    assert_eq!(
        (messages[0].text.as_str(), messages[0].reply_to),
        ("One two three four five", Some(1))
    );
    assert!(
        messages[0].history.len() <= 3,
        "deltas are joined: {:?}",
        messages[0].history
    );
    running.stop().await;
}

#[tokio::test]
async fn unmodified_draft_counts_as_sent() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", "all of it").await;
    shown(&running, "all of it").await;
    for _ in 0..2 {
        channel
            .send(&completing(&inbound, "s", "all of it"))
            .await
            .unwrap();
    }
    assert_eq!(running.fake.texts_in(7), ["all of it"]);
    running.stop().await;
}

#[tokio::test]
async fn failed_edit_is_retried_on_the_same_message() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", "begun").await;
    shown(&running, "begun").await;
    for fault in [
        Fault::RetryAfter(3),
        Fault::bad_gateway(),
        Fault::DropAfterEffect,
    ] {
        running.fake.fail_next("editMessageText", fault);
        let error = channel
            .send(&completing(&inbound, "s", "<b>done</b>"))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error.recovery(),
                nanobot_channel::SendRecovery::Retry { .. }
            ),
            "{error}"
        );
    }
    channel
        .send(&completing(&inbound, "s", "<b>done</b>"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(7), ["done"]);
    running.stop().await;
}

#[tokio::test]
async fn refused_markup_is_plain_and_a_missing_draft_is_replaced() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "a", "begun").await;
    shown(&running, "begun").await;
    let refused = with(reply(&inbound, "<h1>done</h1>"), |message| {
        message.completes = Some(stream("a"));
    });
    channel.send(&refused).await.unwrap();
    assert_eq!(running.fake.texts_in(7), ["<h1>done</h1>"]);
    delta(channel, &inbound, "b", "begun again").await;
    shown(&running, "begun again").await;
    let gone = "Bad Request: message to edit not found";
    running
        .fake
        .fail_next("editMessageText", Fault::Status(400, gone.to_owned()));
    channel
        .send(&completing(&inbound, "b", "anew"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(7).last().unwrap(), "anew");
    running.stop().await;
}

#[tokio::test]
async fn draft_before_tool_calls_stays() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "a", "Let me").await;
    delta(channel, &inbound, "a", " look.").await;
    end(channel, &inbound, "a", true).await;
    shown(&running, "Let me look.").await;
    delta(channel, &inbound, "b", "There it is.").await;
    shown(&running, "There it is.").await;
    channel
        .send(&completing(&inbound, "b", "There <i>it</i> is."))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(7), ["Let me look.", "There it is."]);
    running.stop().await;
}

#[tokio::test]
async fn long_draft_stops_at_the_limit() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", &"😀".repeat(1999)).await;
    delta(channel, &inbound, "s", &"😀".repeat(500)).await;
    delta(channel, &inbound, "s", "and more").await;
    shown(&running, &"😀".repeat(2000)).await;
    let first = nanobot_channel::OutboundPart {
        count: 2,
        ..completing(&inbound, "s", "part one")
    };
    let second = nanobot_channel::OutboundPart {
        index: 1,
        count: 2,
        ..completing(&inbound, "s", "part two")
    };
    channel.send(&first).await.unwrap();
    channel.send(&second).await.unwrap();
    assert_eq!(running.fake.texts_in(7), ["part one", "part two"]);
    running.stop().await;
}

#[tokio::test]
async fn failed_draft_leaves_the_reply_intact() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    running.fake.fail_next("sendMessage", Fault::bad_gateway());
    delta(channel, &inbound, "s", "lost").await;
    running.fake.wait_for_calls("sendMessage", 1).await.unwrap();
    delta(channel, &inbound, "s", " for good").await;
    channel
        .send(&completing(&inbound, "s", "the reply"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(7), ["the reply"]);
    running.stop().await;
}

#[tokio::test]
async fn late_delta_starts_no_draft() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    channel
        .send(&completing(&inbound, "s", "the reply"))
        .await
        .unwrap();
    delta(channel, &inbound, "s", "late").await;
    end(channel, &inbound, "s", false).await;
    channel
        .send(&part(event(&inbound, OutboundKind::Notice, "a notice")))
        .await
        .unwrap();
    let fake = running.stop().await;
    assert_eq!(fake.texts_in(7), ["the reply", "a notice"]);
}

#[tokio::test]
async fn stopped_channel_shows_no_draft() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = std::sync::Arc::clone(&running.channel);
    let fake = running.stop().await;
    delta(channel.as_ref(), &inbound, "s", "begun").await;
    channel
        .send(&completing(&inbound, "s", "the reply"))
        .await
        .unwrap();
    assert_eq!(fake.texts_in(7), ["the reply"]);
}

#[tokio::test]
async fn draft_in_a_group_is_a_message_in_its_topic() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::group(GROUP, &ann(), "hello").in_topic(5));
    let inbound = running.assistant.message(1).await.unwrap();
    delta(running.channel.as_ref(), &inbound, "s", "begun").await;
    let draft = shown(&running, "begun").await;
    assert_eq!(draft.thread_id, Some(5));
    running
        .channel
        .send(&completing(&inbound, "s", "done"))
        .await
        .unwrap();
    let fake = running.stop().await;
    let sent = fake.sent();
    assert_eq!(
        (sent.len(), &sent[0].history),
        (1, &vec!["begun".to_owned()])
    );
    assert!(fake.calls_of("sendMessageDraft").is_empty());
}

#[tokio::test]
async fn orphaned_draft_is_deleted_and_replies_are_not() {
    let running = Running::start(editing()).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "a", "begun").await;
    shown(&running, "begun").await;
    channel
        .send(&completing(&inbound, "a", "the first reply"))
        .await
        .unwrap();
    delta(channel, &inbound, "b", "Let me look.").await;
    shown(&running, "Let me look.").await;
    end(channel, &inbound, "b", true).await;
    noted(&running, 0).await;
    delta(channel, &inbound, "c", "half").await;
    shown(&running, "half").await;
    delta(channel, &inbound, "c", " a text").await;
    let left = shown(&running, "half a text").await;
    noted(&running, 1).await;
    let running = running.restart(&editing()).await;
    let is_gone = |sent: &[SentMessage]| sent.iter().any(|sent| sent.is_deleted).then_some(());
    running
        .fake
        .wait_for("the draft to go", is_gone)
        .await
        .unwrap();
    let channel = running.channel.as_ref();
    channel
        .send(&completing(&inbound, "c", "the second reply"))
        .await
        .unwrap();
    assert_eq!(
        running.fake.texts_in(7),
        ["the first reply", "Let me look.", "the second reply"]
    );
    let running = running.restart(&editing()).await;
    running.fake.push(Incoming::private(&ann(), "still there?"));
    running.assistant.message(2).await.unwrap();
    let deleted: Vec<_> = running
        .fake
        .calls_of("deleteMessage")
        .into_iter()
        .map(|call| call.params)
        .collect();
    assert_eq!(
        deleted,
        [json!({"chat_id": 7, "message_id": left.message_id})]
    );
    running.stop().await;
}
