//! Reactions to messages that are worked on, and the typing indicator.

use nanobot_channel::{Admission, OutboundKind};
use nanobot_channel_discord_fake::{CHANNELS, Fault, Incoming};
use serde_json::json;

use crate::support::{Running, ann, event, mallory, reply};

#[tokio::test]
async fn message_has_reactions_until_its_turn_ends() {
    let running = Running::start(
        json!({"readReceiptEmoji": "👀", "workingEmoji": "🔧", "workingEmojiDelay": 0.05}),
    )
    .await;
    let pushed = running.fake.push(Incoming::direct(&ann(), "think"));
    running
        .fake
        .wait_for_reactions(pushed.message_id, &["👀", "🔧"])
        .await
        .unwrap();
    let inbound = running.assistant.message(1).await.unwrap();
    let end = event(&inbound, OutboundKind::TurnEnd { unfinished: 0 }, "");
    running
        .channel
        .turn_ends()
        .unwrap()
        .ended(&end)
        .await
        .unwrap();
    running
        .fake
        .wait_for_reactions(pushed.message_id, &[])
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn last_part_of_a_reply_removes_reactions() {
    let running = Running::start(json!({"readReceiptEmoji": "👀", "workingEmojiDelay": 600})).await;
    let pushed = running
        .fake
        .push(Incoming::in_channel(CHANNELS[0], &ann(), "quick"));
    running
        .fake
        .wait_for_reactions(pushed.message_id, &["👀"])
        .await
        .unwrap();
    let inbound = running.assistant.message(1).await.unwrap();
    let first = nanobot_channel::OutboundPart {
        count: 2,
        ..reply(&inbound, "one")
    };
    running.channel.send(&first).await.unwrap();
    running
        .fake
        .wait_for_reactions(pushed.message_id, &["👀"])
        .await
        .unwrap();
    let last = nanobot_channel::OutboundPart { index: 1, ..first };
    running.channel.send(&last).await.unwrap();
    running
        .fake
        .wait_for_reactions(pushed.message_id, &[])
        .await
        .unwrap();
    assert_eq!(running.fake.calls_of("createReaction").len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn strangers_and_duplicates_get_no_reaction() {
    let running = Running::start(json!({"readReceiptEmoji": "👀", "workingEmoji": ""})).await;
    running.assistant.will_answer([Admission::Duplicate]);
    running.fake.push(Incoming::direct(&ann(), "known"));
    running.fake.push(Incoming::direct(&mallory(), "let me in"));
    running.fake.fail_next(
        "createReaction",
        Fault::Status(403, 50_013, "Missing Permissions".to_owned()),
    );
    running.fake.push(Incoming::direct(&ann(), "new"));
    running
        .fake
        .wait_for_calls("createReaction", 1)
        .await
        .unwrap();
    let inbound = running.assistant.message(2).await.unwrap();
    running
        .channel
        .send(&reply(&inbound, "there"))
        .await
        .unwrap();
    running
        .fake
        .wait_for_calls("deleteReaction", 1)
        .await
        .unwrap();
    assert_eq!(running.fake.calls_of("createReaction").len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn typing_is_shown_in_the_thread() {
    let running = Running::start(json!({})).await;
    let thread = running.fake.start_thread(CHANNELS[0]);
    running
        .fake
        .push(Incoming::in_channel(thread, &ann(), "hello"));
    let inbound = running.assistant.message(1).await.unwrap();
    let typing = running.channel.typing().unwrap();
    typing
        .show(&inbound.chat_id, &inbound.delivery)
        .await
        .unwrap();
    assert_eq!(
        running.fake.calls_of("typing")[0].path,
        format!("channels/{thread}/typing")
    );
    running.stop().await;
}
