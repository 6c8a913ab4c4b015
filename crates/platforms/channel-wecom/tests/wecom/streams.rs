//! Streams: text that is shown while it is generated, its end, and its fallbacks.

use std::time::Duration;

use nanobot_channel::{InboundMessage, OutboundKind, SendRecovery, StreamId};
use nanobot_channel_wecom_fake::{Fault, Incoming};
use serde_json::json;

use crate::support::{ROOM, Running, ann, completing, delta, message, part};

const RETRY: SendRecovery = SendRecovery::Retry { after: None };

/// Begins a conversation and shows a draft.
async fn growing() -> (Running, InboundMessage) {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    running.grow(&inbound, "s", "Once").await;
    running.shown("Once").await;
    (running, inbound)
}

/// Ends a stream of the turn, which may go on.
async fn close(running: &Running, inbound: &InboundMessage, stream: &str, resuming: bool) {
    let stream = StreamId::from(stream);
    let end = message(inbound, OutboundKind::StreamEnd { stream, resuming }, "");
    running.channel.drafts().unwrap().close(&end).await.unwrap();
}

/// Withdraws a draft.
async fn withdraw(running: &Running, inbound: &InboundMessage, stream: &str) {
    let stream = StreamId::from(stream);
    let kind = OutboundKind::Withdrawn {
        stream: stream.clone(),
    };
    let drafts = running.channel.drafts().unwrap();
    let withdrawn = message(inbound, kind, "");
    drafts.withdraw(&stream, &withdrawn).await.unwrap();
}

#[tokio::test]
async fn stream_grows_and_becomes_the_reply() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello_in_room().await;
    for text in ["Once <b>", " upon ![x](http://x.test)", " a time"] {
        running.grow(&inbound, "s", text).await;
    }
    let whole = "Once <\u{200b}b> upon !\u{200b}[x](http://x.test) a time";
    running.shown(whole).await;
    let [draft] = running.fake.sent().try_into().unwrap();
    assert!(draft.is_streaming && draft.chat_id == ROOM, "{draft:#?}");
    let reply = completing(&inbound, "s", "The end");
    running.channel.send(&reply).await.unwrap();
    running.settled(&["The end"]).await;
    let [reply] = running.fake.sent().try_into().unwrap();
    assert_eq!(reply.stream, draft.stream);
    running.stop().await;
}

#[tokio::test]
async fn turn_with_tools_is_one_stream() {
    let (running, inbound) = growing().await;
    withdraw(&running, &inbound, "s").await;
    running.shown("…").await;
    running.grow(&inbound, "t", "Found it").await;
    running.shown("Found it").await;
    let reply = completing(&inbound, "t", "Found it.");
    running.channel.send(&reply).await.unwrap();
    running.end_turn(&inbound).await;
    running.settled(&["Found it."]).await;
    running.stop().await;
}

#[tokio::test]
async fn text_that_stays_ends_the_stream() {
    let (running, inbound) = growing().await;
    close(&running, &inbound, "s", true).await;
    running.settled(&["Once"]).await;
    // What follows arrives whole.
    running.grow(&inbound, "t", "The").await;
    let reply = completing(&inbound, "t", "The end");
    running.channel.send(&reply).await.unwrap();
    running.settled(&["Once", "The end"]).await;
    running.stop().await;
}

#[tokio::test]
async fn end_of_the_turn_finishes_a_stream_without_reply() {
    let (running, inbound) = growing().await;
    withdraw(&running, &inbound, "s").await;
    running.shown("…").await;
    running.end_turn(&inbound).await;
    running.settled(&["…"]).await;
    // Once is enough, and a turn without a stream has nothing to end.
    running.end_turn(&inbound).await;
    let next = running.receive(Incoming::direct(&ann(), "next"), 2).await;
    running.end_turn(&next).await;
    assert_eq!(running.fake.calls_of("aibot_respond_msg").len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn only_the_reply_is_in_the_stream() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    running
        .channel
        .send(&part(&inbound, 0, "by a tool"))
        .await
        .unwrap();
    running
        .channel
        .send(&completing(&inbound, "s", "the reply"))
        .await
        .unwrap();
    // A second reply to the same message is a message.
    let late = nanobot_testkit::channel::changed_part(
        completing(&inbound, "t", "and another"),
        |message| message.key.position = 7,
    );
    running.channel.send(&late).await.unwrap();
    let commands: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| sent.command)
        .collect();
    assert_eq!(
        commands,
        ["aibot_send_msg", "aibot_respond_msg", "aibot_send_msg"]
    );
    running.stop().await;
}

#[tokio::test]
async fn finish_is_repeated_without_harm() {
    for fault in [Fault::DropAfterEffect, Fault::Drop] {
        let (running, inbound) = growing().await;
        running.fake.fail_next("aibot_respond_msg", fault.clone());
        let reply = completing(&inbound, "s", "Once for all");
        let error = running.channel.send(&reply).await.unwrap_err();
        assert_eq!(error.recovery(), RETRY, "{fault:?}: {error}");
        running.receive(Incoming::direct(&ann(), "again"), 2).await;
        running.channel.send(&reply).await.unwrap();
        running.settled(&["Once for all"]).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn refused_repetition_leaves_the_outcome_unknown() {
    let (running, inbound) = growing().await;
    running
        .fake
        .fail_next("aibot_respond_msg", Fault::DropAfterEffect);
    let reply = completing(&inbound, "s", "Once for all");
    let error = running.channel.send(&reply).await.unwrap_err();
    assert_eq!(error.recovery(), RETRY, "{error}");
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    running
        .fake
        .fail_next("aibot_respond_msg", Fault::error(846_605));
    let error = running.channel.send(&reply).await.unwrap_err();
    assert_eq!(error.recovery(), SendRecovery::Uncertain, "{error}");
    // A part that is sent all the same has to go out.
    running.channel.send(&reply).await.unwrap();
    assert_eq!(running.texts(), ["Once for all", "Once for all"]);
    running.stop().await;
}

#[tokio::test]
async fn refused_stream_is_replaced_by_a_message() {
    for code in [846_605, 846_608, 40_058] {
        let (running, inbound) = growing().await;
        running
            .fake
            .fail_next("aibot_respond_msg", Fault::error(code));
        let reply = completing(&inbound, "s", "Whole");
        running.channel.send(&reply).await.unwrap();
        assert_eq!(running.texts(), ["Once", "Whole"], "{code}");
        running.stop().await;
    }
}

#[tokio::test]
async fn refused_draft_pauses_drafts() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    running
        .fake
        .fail_next("aibot_respond_msg", Fault::error(40_058));
    running.grow(&inbound, "s", "Once").await;
    running
        .fake
        .wait_for_calls("aibot_respond_msg", 1)
        .await
        .unwrap();
    let reply = completing(&inbound, "s", "Whole");
    running.channel.send(&reply).await.unwrap();
    let next = running.receive(Incoming::direct(&ann(), "next"), 2).await;
    let drafts = running.channel.drafts().unwrap();
    drafts.append(&delta(&next, "t", "more")).await.unwrap();
    running
        .channel
        .send(&completing(&next, "t", "Whole, too"))
        .await
        .unwrap();
    running.settled(&["Whole", "Whole, too"]).await;
    assert_eq!(running.fake.calls_of("aibot_respond_msg").len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn replies_of_an_earlier_connection_are_messages() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    running.fake.cut();
    let next = running.receive(Incoming::direct(&ann(), "again"), 2).await;
    running
        .channel
        .send(&completing(&inbound, "s", "late"))
        .await
        .unwrap();
    running
        .channel
        .send(&completing(&next, "t", "in time"))
        .await
        .unwrap();
    let commands: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| sent.command)
        .collect();
    assert_eq!(commands, ["aibot_send_msg", "aibot_respond_msg"]);
    running.stop().await;
}

#[tokio::test]
async fn draft_goes_on_over_a_new_connection_as_a_reply() {
    let (running, inbound) = growing().await;
    running.fake.cut();
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    running.grow(&inbound, "s", " upon").await;
    let reply = completing(&inbound, "s", "Once upon a time");
    running.channel.send(&reply).await.unwrap();
    running.settled(&["Once upon a time"]).await;
    running.stop().await;
}

#[tokio::test]
async fn old_stream_is_finished_before_wecom_ends_it() {
    let (running, inbound) = growing().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(301)).await;
    tokio::time::resume();
    running.settled(&["Once"]).await;
    let reply = completing(&inbound, "s", "Once upon a time");
    running.channel.send(&reply).await.unwrap();
    running.settled(&["Once", "Once upon a time"]).await;
    running.stop().await;
}
