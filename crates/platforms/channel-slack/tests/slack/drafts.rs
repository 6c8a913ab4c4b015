//! Text that is shown while it is being written.

use std::time::Duration;

use nanobot_channel::{
    InboundMessage, OutboundKey, OutboundKind, OutboundMessage, OutboundPart, StreamId,
};
use nanobot_channel_slack_fake::{BOT_USER, Fault, Incoming, SentMessage};
use serde_json::json;

use crate::support::{ROOM, Running, ann, reply, with};

fn delta(inbound: &InboundMessage, stream: &str, text: &str) -> OutboundMessage {
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    let kind = OutboundKind::Delta {
        stream: StreamId::from(stream),
    };
    OutboundMessage::in_reply_to(inbound, key, kind, text.to_owned())
}

fn completing(inbound: &InboundMessage, stream: &str, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.completes = Some(StreamId::from(stream));
    })
}

async fn shown(running: &Running, text: &str) {
    let is_shown = |sent: &[SentMessage]| sent.iter().any(|sent| sent.text == text).then_some(());
    running.fake.wait_for(text, is_shown).await.unwrap();
}

#[tokio::test]
async fn draft_is_edited_at_intervals_and_becomes_the_reply() {
    let running = Running::start(json!({})).await;
    running.fake.push(Incoming::to(
        ROOM,
        &ann(),
        &format!("<@{BOT_USER}> tell me"),
    ));
    let inbound = running.assistant.message(1).await.unwrap();
    let drafts = running.channel.drafts().unwrap();
    for text in ["Once <@U0ANN>", " upon", " a time", " there"] {
        drafts.append(&delta(&inbound, "s", text)).await.unwrap();
    }
    shown(&running, "Once &lt;@U0ANN&gt; upon a time there").await;
    drafts.append(&delta(&inbound, "s", " was")).await.unwrap();
    shown(&running, "Once &lt;@U0ANN&gt; upon a time there was").await;
    running
        .channel
        .send(&completing(&inbound, "s", "*The end*"))
        .await
        .unwrap();
    let sent = running.fake.sent();
    let [message] = sent.as_slice() else {
        panic!("{sent:#?}")
    };
    assert_eq!(
        (message.text.as_str(), message.thread.clone()),
        ("*The end*", inbound.delivery.thread.clone())
    );
    let key = json!({"event_type": "nanobot_part", "event_payload": {"key": "turn/0/0/0"}});
    assert_eq!(message.metadata, key);
    let mut times: Vec<_> = running
        .fake
        .calls_of("chat.postMessage")
        .into_iter()
        .map(|call| call.at)
        .collect();
    times.extend(
        running
            .fake
            .calls_of("chat.update")
            .into_iter()
            .map(|call| call.at),
    );
    times.pop();
    assert!(
        times
            .windows(2)
            .all(|pair| pair[1] - pair[0] >= Duration::from_secs(1)),
        "{times:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn reply_too_long_for_an_edit_replaces_the_draft() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    let long = "x".repeat(4001);
    drafts.append(&delta(&inbound, "s", &long)).await.unwrap();
    shown(&running, &"x".repeat(4000)).await;
    // The answer to the new message is lost: it is looked for.
    running
        .fake
        .fail_next("chat.postMessage", Fault::DropAfterEffect);
    running
        .channel
        .send(&completing(&inbound, "s", &long))
        .await
        .unwrap();
    let is_gone = |sent: &[SentMessage]| sent[0].is_deleted.then_some(());
    running
        .fake
        .wait_for("the draft to go", is_gone)
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(&ann().direct()), [long]);
    running.stop().await;
}

#[tokio::test]
async fn uneditable_draft_is_replaced_and_a_lost_edit_is_retried() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    drafts.append(&delta(&inbound, "s", "Once")).await.unwrap();
    shown(&running, "Once").await;
    running
        .fake
        .fail_next("chat.update", Fault::DropAfterEffect);
    let part = completing(&inbound, "s", "Once for all");
    let error = running.channel.send(&part).await.unwrap_err();
    assert_eq!(
        error.recovery(),
        nanobot_channel::SendRecovery::Retry { after: None },
        "{error}"
    );
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.fake.texts_in(&ann().direct()), ["Once for all"]);
    drafts.append(&delta(&inbound, "t", "Twice")).await.unwrap();
    shown(&running, "Twice").await;
    running
        .fake
        .fail_next("chat.update", Fault::error("cant_update_message"));
    running
        .channel
        .send(&completing(&inbound, "t", "Never"))
        .await
        .unwrap();
    let texts = ["Once for all", "Never"];
    let is_so = |sent: &[SentMessage]| {
        let visible = sent
            .iter()
            .filter(|sent| !sent.is_deleted)
            .map(|sent| sent.text.as_str());
        visible.eq(texts).then_some(())
    };
    running
        .fake
        .wait_for("the other draft to go", is_so)
        .await
        .unwrap();
    running.stop().await;
}
