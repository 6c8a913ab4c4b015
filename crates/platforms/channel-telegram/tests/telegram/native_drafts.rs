//! Text shown while it is being written, in a preview that is no message.

use std::time::Duration;

use nanobot_channel::{InboundMessage, OutboundKind, OutboundPart, Value};
use nanobot_channel_telegram_fake::{Fault, Incoming, Person};
use serde_json::json;

use crate::drafts::{completing, delta, end, event, noted, shown, stream};
use crate::support::{Running, ann};

/// Returns the texts of the previews in Ann's chat.
fn previews(running: &Running) -> Vec<String> {
    let drafts = running.fake.drafts_in(7).into_iter();
    drafts.map(|draft| draft.text).collect()
}

/// Returns the number of calls of each method that shows or deletes text.
fn calls(running: &Running) -> [usize; 4] {
    [
        "sendMessageDraft",
        "sendMessage",
        "editMessageText",
        "deleteMessage",
    ]
    .map(|method| running.fake.calls_of(method).len())
}

/// Sends what no reply completes.
async fn withdraw(running: &Running, inbound: &InboundMessage, name: &str) {
    let kind = OutboundKind::Withdrawn {
        stream: stream(name),
    };
    let drafts = running.channel.drafts().unwrap();
    drafts
        .withdraw(&stream(name), &event(inbound, kind, ""))
        .await
        .unwrap();
}

#[tokio::test]
async fn native_draft_grows_and_ends_in_one_message() {
    let running = Running::start(json!({"replyToMessage": true})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", "  ").await;
    delta(channel, &inbound, "s", "**One**").await;
    running.fake.wait_for_draft(7, "**One**").await.unwrap();
    for word in [" two", " three", " four"] {
        delta(channel, &inbound, "s", word).await;
    }
    let all = "**One** two three four";
    running.fake.wait_for_draft(7, all).await.unwrap();
    noted(&running, 0).await;
    assert!(running.fake.sent().is_empty(), "a preview is no message");
    end(channel, &inbound, "s", false).await;
    let sent = channel
        .send(&completing(&inbound, "s", "<b>One</b> two three four five"))
        .await
        .unwrap();
    delta(channel, &inbound, "s", "late").await;
    let messages = running.fake.sent();
    assert_eq!(messages.len(), 1);
    let id = messages[0].message_id.to_string();
    assert_eq!(sent.message_id, Some(id.as_str().into()));
    assert_eq!(
        (messages[0].text.as_str(), messages[0].reply_to),
        ("One two three four five", Some(1))
    );
    assert!(!messages[0].entities.is_empty(), "it is formatted");
    assert!(previews(&running).is_empty());
    let [drafts, sent, edits, deletions] = calls(&running);
    assert_eq!((sent, edits, deletions), (1, 0, 0));
    assert!(drafts <= 4, "deltas are joined: {drafts}");
    let ids = running.fake.calls_of("sendMessageDraft");
    let id = &ids[0].params["draft_id"];
    assert!(ids.iter().all(|call| call.params["draft_id"] == *id));
    // The next reply has a preview of its own.
    delta(channel, &inbound, "t", "Next").await;
    let next = running.fake.wait_for_draft(7, "Next").await.unwrap();
    assert_ne!(json!(next.draft_id), *id);
    running.stop().await;
}

#[tokio::test]
async fn silent_draft_is_refreshed_before_it_vanishes() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    delta(running.channel.as_ref(), &inbound, "s", "thinking").await;
    let method = "sendMessageDraft";
    running.fake.wait_for_calls(method, 1).await.unwrap();
    for count in 2..5 {
        // The pause after the call has to be over, or else its end would be waited for here.
        tokio::time::sleep(Duration::from_millis(200)).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(21)).await;
        tokio::time::resume();
        running.fake.advance(Duration::from_secs(21));
        running.fake.wait_for_calls(method, count).await.unwrap();
        assert_eq!(previews(&running), ["thinking"]);
    }
    running
        .channel
        .send(&completing(&inbound, "s", "done"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(7), ["done"]);
    assert!(previews(&running).is_empty());
    running.stop().await;
}

#[tokio::test]
async fn chat_that_refuses_native_drafts_gets_messages() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    running
        .fake
        .fail_next("sendMessageDraft", Fault::peer_takes_no_drafts());
    delta(channel, &inbound, "a", "begun").await;
    shown(&running, "begun").await;
    noted(&running, 1).await;
    delta(channel, &inbound, "a", " well").await;
    shown(&running, "begun well").await;
    for (stream, text) in [("a", "first"), ("b", "second")] {
        delta(channel, &inbound, stream, "draft").await;
        let reply = completing(&inbound, stream, text);
        channel.send(&reply).await.unwrap();
    }
    noted(&running, 0).await;
    assert_eq!(running.fake.texts_in(7), ["first", "second"]);
    assert_eq!(calls(&running)[0], 1, "the refusal is remembered");
    running
        .fake
        .push(Incoming::private(&Person::new(8, "Bob", "bob_x"), "hello"));
    let other = running.assistant.message(2).await.unwrap();
    delta(channel, &other, "c", "for Bob").await;
    running.fake.wait_for_draft(8, "for Bob").await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn server_without_native_drafts_gets_messages_in_all_chats() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    running
        .fake
        .fail_next("sendMessageDraft", Fault::unknown_method());
    delta(channel, &inbound, "a", "begun").await;
    shown(&running, "begun").await;
    channel
        .send(&completing(&inbound, "a", "done"))
        .await
        .unwrap();
    running
        .fake
        .push(Incoming::private(&Person::new(8, "Bob", "bob_x"), "hello"));
    let other = running.assistant.message(2).await.unwrap();
    delta(channel, &other, "b", "for Bob").await;
    shown(&running, "for Bob").await;
    assert_eq!(running.fake.texts_in(7), ["done"]);
    assert_eq!(calls(&running)[0], 1);
    // The server may be a newer one at the next start.
    let running = running.restart(&json!({})).await;
    running.fake.push(Incoming::private(&ann(), "and now?"));
    running.assistant.message(3).await.unwrap();
    delta(running.channel.as_ref(), &inbound, "c", "again").await;
    running.fake.wait_for_draft(7, "again").await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn draft_that_is_refused_midway_continues_in_a_message() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", "One").await;
    running.fake.wait_for_draft(7, "One").await.unwrap();
    running
        .fake
        .fail_next("sendMessageDraft", Fault::peer_takes_no_drafts());
    delta(channel, &inbound, "s", " two").await;
    shown(&running, "One two").await;
    channel
        .send(&completing(&inbound, "s", "One two three"))
        .await
        .unwrap();
    let sent = running.fake.sent();
    assert_eq!((sent.len(), sent[0].text.as_str()), (1, "One two three"));
    assert_eq!(sent[0].history, ["One two"]);
    running.stop().await;
}

#[tokio::test]
async fn failing_native_draft_is_tried_again_and_delays_no_reply() {
    for fault in [
        Fault::bad_gateway(),
        Fault::Drop,
        Fault::DropAfterEffect,
        Fault::Status(500, "Internal Server Error".to_owned()),
    ] {
        let running = Running::start(json!({})).await;
        let inbound = running.hello().await;
        let channel = running.channel.as_ref();
        running.fake.fail_next("sendMessageDraft", fault.clone());
        delta(channel, &inbound, "s", "One").await;
        running
            .fake
            .wait_for_calls("sendMessageDraft", 1)
            .await
            .unwrap();
        delta(channel, &inbound, "s", " two").await;
        running.fake.wait_for_draft(7, "One two").await.unwrap();
        let calls_before = calls(&running)[0];
        // A flood limit pauses drafts for longer than any test waits.
        running
            .fake
            .fail_next("sendMessageDraft", Fault::RetryAfter(3600));
        delta(channel, &inbound, "s", " three").await;
        let all = calls_before + 1;
        running
            .fake
            .wait_for_calls("sendMessageDraft", all)
            .await
            .unwrap();
        delta(channel, &inbound, "s", " four").await;
        channel
            .send(&completing(&inbound, "s", "One two three four"))
            .await
            .unwrap();
        assert_eq!(
            running.fake.texts_in(7),
            ["One two three four"],
            "{fault:?}"
        );
        assert_eq!(calls(&running)[0], all, "the pause is kept");
        running.stop().await;
    }
}

#[tokio::test]
async fn long_native_draft_stops_at_the_limit_and_the_reply_has_parts() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", &"😀".repeat(1999)).await;
    delta(channel, &inbound, "s", &"😀".repeat(500)).await;
    delta(channel, &inbound, "s", "and more").await;
    let most = "😀".repeat(2000);
    running.fake.wait_for_draft(7, &most).await.unwrap();
    for (index, text) in (0..).zip(["part one", "part two"]) {
        let part = OutboundPart {
            index,
            count: 2,
            ..completing(&inbound, "s", text)
        };
        channel.send(&part).await.unwrap();
    }
    assert_eq!(running.fake.texts_in(7), ["part one", "part two"]);
    assert!(previews(&running).is_empty());
    running.stop().await;
}

#[tokio::test]
async fn native_draft_before_tool_calls_is_sent() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "a", "Let me").await;
    running.fake.wait_for_draft(7, "Let me").await.unwrap();
    delta(channel, &inbound, "a", " look.").await;
    end(channel, &inbound, "a", true).await;
    assert_eq!(
        running.fake.texts_in(7),
        ["Let me look."],
        "it precedes whatever the tools send"
    );
    // Nor does a failure end the turn.
    delta(channel, &inbound, "b", "And there.").await;
    running.fake.wait_for_draft(7, "And there.").await.unwrap();
    running.fake.fail_next("sendMessage", Fault::bad_gateway());
    end(channel, &inbound, "b", true).await;
    delta(channel, &inbound, "c", "There it is.").await;
    running
        .fake
        .wait_for_draft(7, "There it is.")
        .await
        .unwrap();
    channel
        .send(&completing(&inbound, "c", "There <i>it</i> is."))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(7), ["Let me look.", "There it is."]);
    noted(&running, 0).await;
    let [_, sent, edits, deletions] = calls(&running);
    assert_eq!((sent, edits, deletions), (3, 0, 0));
    running.stop().await;
}

#[tokio::test]
async fn withdrawn_native_draft_vanishes_by_itself() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", "I have told you.").await;
    let text = "I have told you.";
    running.fake.wait_for_draft(7, text).await.unwrap();
    withdraw(&running, &inbound, "s").await;
    delta(channel, &inbound, "s", " All of it.").await;
    running.fake.advance(Duration::from_secs(30));
    assert!(previews(&running).is_empty());
    let fake = running.stop().await;
    assert!(fake.sent().is_empty());
    assert_eq!(fake.calls_of("sendMessageDraft").len(), 1);
}

#[tokio::test]
async fn native_draft_is_shown_in_its_topic() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::private(&ann(), "hello").in_topic(5));
    let inbound = running.assistant.message(1).await.unwrap();
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", "begun").await;
    let draft = running.fake.wait_for_draft(7, "begun").await.unwrap();
    assert_eq!(draft.thread_id, Some(5));
    channel
        .send(&completing(&inbound, "s", "done"))
        .await
        .unwrap();
    assert_eq!(running.fake.sent()[0].thread_id, Some(5));
    assert!(previews(&running).is_empty());
    running.stop().await;
}

#[tokio::test]
async fn native_draft_leaves_nothing_to_the_next_start() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let channel = running.channel.as_ref();
    delta(channel, &inbound, "s", "half a text").await;
    running.fake.wait_for_draft(7, "half a text").await.unwrap();
    let notes = running.assistant.notes().all();
    assert_eq!(notes.get("drafts"), None::<&String>);
    let running = running.restart(&json!({})).await;
    let channel = running.channel.as_ref();
    channel
        .send(&completing(&inbound, "s", "the whole reply"))
        .await
        .unwrap();
    running.fake.push(Incoming::private(&ann(), "thank you"));
    running.assistant.message(2).await.unwrap();
    assert_eq!(running.fake.texts_in(7), ["the whole reply"]);
    assert!(previews(&running).is_empty());
    assert_eq!(calls(&running), [1, 1, 0, 0]);
    running.stop().await;
}

#[tokio::test]
async fn disabled_native_drafts_are_not_tried() {
    let running = Running::start(json!({"nativeDrafts": false})).await;
    let inbound = running.hello().await;
    delta(running.channel.as_ref(), &inbound, "s", "begun").await;
    let draft = shown(&running, "begun").await;
    assert_eq!(draft.entities, Vec::<Value>::new());
    assert_eq!(calls(&running), [0, 1, 0, 0]);
    running.stop().await;
}
