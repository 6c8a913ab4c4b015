//! Text that is shown while it is being written.

use nanobot_channel::{OutboundKind, StreamId};
use nanobot_channel_discord_fake::Fault;
use serde_json::json;

use crate::support::{Running, event, reply, with};

fn delta(stream: &str) -> OutboundKind {
    OutboundKind::Delta {
        stream: StreamId::from(stream),
    }
}

#[tokio::test]
async fn draft_grows_and_becomes_the_reply() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    drafts
        .append(&event(&inbound, delta("s"), "Once"))
        .await
        .unwrap();
    let first = running.fake.wait_for_sent(1).await.unwrap().remove(0);
    assert_eq!(
        (first.text.as_str(), first.reply_to.is_some()),
        ("Once", true)
    );
    drafts
        .append(&event(&inbound, delta("s"), " upon a time"))
        .await
        .unwrap();
    let grown = |sent: &[nanobot_channel_discord_fake::SentMessage]| {
        (sent[0].text == "Once upon a time").then_some(())
    };
    running
        .fake
        .wait_for("the text to grow", grown)
        .await
        .unwrap();
    let end = OutboundKind::StreamEnd {
        stream: "s".into(),
        resuming: false,
    };
    drafts.close(&event(&inbound, end, "")).await.unwrap();
    let part = with(reply(&inbound, "**Once** for all"), |message| {
        message.completes = Some("s".into());
    });
    running.channel.send(&part).await.unwrap();
    running.channel.send(&part).await.unwrap();
    let shown = running.fake.sent();
    assert_eq!(
        (shown.len(), shown[0].text.as_str()),
        (1, "**Once** for all")
    );
    running.stop().await;
}

#[tokio::test]
async fn edits_respect_the_interval() {
    let running = Running::start(json!({"streamEditInterval": 3600})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    for text in ["a", "b", "c", "d"] {
        drafts
            .append(&event(&inbound, delta("s"), text))
            .await
            .unwrap();
        running.fake.wait_for_sent(1).await.unwrap();
    }
    let part = with(reply(&inbound, "abcde"), |message| {
        message.completes = Some("s".into());
    });
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.fake.sent()[0].text, "abcde");
    assert_eq!(running.fake.calls_of("editMessage").len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn missing_draft_is_replaced_by_a_new_message() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    drafts
        .append(&event(&inbound, delta("gone"), "draft"))
        .await
        .unwrap();
    let draft = running.fake.wait_for_sent(1).await.unwrap().remove(0);
    running.fake.delete(draft.channel_id, draft.message_id);
    let part = with(reply(&inbound, "first"), |message| {
        message.completes = Some("gone".into());
    });
    running.channel.send(&part).await.unwrap();
    running
        .fake
        .fail_next("createMessage", Fault::unavailable());
    drafts
        .append(&event(&inbound, delta("never"), "draft"))
        .await
        .unwrap();
    running
        .fake
        .wait_for_calls("createMessage", 3)
        .await
        .unwrap();
    let part = with(reply(&inbound, "second"), |message| {
        message.completes = Some("never".into());
    });
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.fake.texts_in(draft.channel_id), ["first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn draft_is_truncated_to_the_limit() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    drafts
        .append(&event(&inbound, delta("s"), &"語".repeat(3000)))
        .await
        .unwrap();
    let draft = running.fake.wait_for_sent(1).await.unwrap().remove(0);
    assert_eq!(draft.text.chars().count(), 2000);
    running.stop().await;
    let running = Running::start(json!({"streaming": false})).await;
    assert!(running.channel.drafts().is_none());
    running.stop().await;
}
