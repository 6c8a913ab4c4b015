//! Text that is shown while it is being written.

use std::time::Duration;

use nanobot_channel::{
    Block, Button, OutboundKind, OutboundMessage, OutboundPart, SendRecovery, StreamId, Table,
};
use nanobot_channel_feishu_fake::{Fault, Incoming, SentMessage};
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, completing, delta, with};

#[tokio::test]
async fn draft_grows_and_becomes_the_reply() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "tell me").mentioning_bot());
    let inbound = running.assistant.message(1).await.unwrap();
    let drafts = running.channel.drafts().unwrap();
    for text in ["Once <at id=all></at>", " upon", " a **time**"] {
        drafts.append(&delta(&inbound, "s", text)).await.unwrap();
    }
    running
        .shown("Once <\u{200b}at id=all><\u{200b}/at> upon a **time**")
        .await;
    let [growing] = running.visible().try_into().unwrap();
    assert!(
        growing.is_streaming && growing.thread_id.is_some(),
        "{growing:#?}"
    );
    let part = OutboundPart {
        plain: "The end".to_owned(),
        ..completing(&inbound, "s", "**The end**")
    };
    let sent = running.channel.send(&part).await.unwrap();
    let [message] = running.visible().try_into().unwrap();
    assert_eq!(
        (
            message.text.as_str(),
            message.is_streaming,
            &message.message_id
        ),
        ("**The end**", false, &growing.message_id)
    );
    assert_eq!(
        sent.message_id.map(|id| id.to_string()),
        Some(message.message_id)
    );
    // The numbers of the changes rise.
    let calls = running.fake.calls().into_iter();
    let numbers: Vec<_> = calls
        .filter_map(|call| call.body["sequence"].as_u64())
        .collect();
    assert!(
        numbers.len() >= 2 && numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "{numbers:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn table_takes_a_draft_over_and_is_text_if_it_is_refused() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    let table = Block::Table(Table {
        rows: vec![vec!["a".to_owned()], vec!["1".to_owned()]],
        right: vec![false],
    });
    let text =
        "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit; ";
    for (stream, is_refused, expected) in [("s", false, "a\n1"), ("t", true, "```\na\n```")] {
        drafts
            .append(&delta(&inbound, stream, "Soon"))
            .await
            .unwrap();
        running.shown("Soon").await;
        if is_refused {
            let fault = Fault::ErrorWith(230_099, text.to_owned());
            running.fake.fail_next("card.update", fault);
        }
        let part = OutboundPart {
            plain: "a\n1".to_owned(),
            blocks: vec![table.clone()],
            ..completing(&inbound, stream, "```\na\n```")
        };
        running.channel.send(&part).await.unwrap();
        running.shown(expected).await;
    }
    assert_eq!(running.fake.sent().len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn lost_update_is_retried() {
    for method in ["card.settings", "card.update"] {
        let running = Running::start(json!({})).await;
        let inbound = running.hello().await;
        let drafts = running.channel.drafts().unwrap();
        drafts.append(&delta(&inbound, "s", "Once")).await.unwrap();
        running.shown("Once").await;
        running.fake.fail_next(method, Fault::DropAfterEffect);
        let part = completing(&inbound, "s", "Once for all");
        let error = running.channel.send(&part).await.unwrap_err();
        let retry = SendRecovery::Retry { after: None };
        assert_eq!(error.recovery(), retry, "{error}");
        running.channel.send(&part).await.unwrap();
        assert_eq!(running.fake.texts_in(&ann().direct()), ["Once for all"]);
        running.stop().await;
    }
}

#[tokio::test]
async fn draft_that_cannot_be_changed_is_replaced() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    drafts.append(&delta(&inbound, "s", "Once")).await.unwrap();
    running.shown("Once").await;
    running
        .fake
        .fail_next("card.settings", Fault::Error(200_740));
    running.fake.fail_next("card.update", Fault::Error(200_740));
    running
        .channel
        .send(&completing(&inbound, "s", "Never"))
        .await
        .unwrap();
    let is_alone = |sent: &[SentMessage]| {
        let visible = sent.iter().filter(|sent| !sent.is_deleted);
        visible
            .map(|sent| sent.text.as_str())
            .eq(["Never"])
            .then_some(())
    };
    running
        .fake
        .wait_for("the draft to go", is_alone)
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn ended_stream_is_reopened() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    drafts.append(&delta(&inbound, "s", "Once")).await.unwrap();
    running.shown("Once").await;
    // Feishu ends a stream after ten minutes.
    running.fake.advance(Duration::from_mins(11));
    drafts.append(&delta(&inbound, "s", " upon")).await.unwrap();
    running.shown("Once upon").await;
    running
        .channel
        .send(&completing(&inbound, "s", "The end"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(&ann().direct()), ["The end"]);
    running.stop().await;
}

#[tokio::test]
async fn without_the_permission_replies_arrive_whole() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    let refusal = Fault::Error(99_991_672);
    running.fake.fail_next("card.create", refusal);
    for (position, stream) in [(0, "s"), (1, "t")] {
        drafts
            .append(&delta(&inbound, stream, "Once"))
            .await
            .unwrap();
        // The permission is not asked for again at once.
        running.fake.wait_for_calls("card.create", 1).await.unwrap();
        let part = with(completing(&inbound, stream, "Whole"), |message| {
            message.key.position = position;
        });
        running.channel.send(&part).await.unwrap();
    }
    assert_eq!(running.fake.texts_in(&ann().direct()), ["Whole", "Whole"]);
    assert_eq!(running.fake.calls_of("card.create").len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn streaming_can_be_disabled() {
    let fake = nanobot_channel_feishu_fake::FeishuFake::start()
        .await
        .unwrap();
    assert!(
        channel(&fake, &json!({"streaming": false}))
            .drafts()
            .is_none()
    );
}

#[tokio::test]
async fn draft_before_tools_stays_as_a_message() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    drafts
        .append(&delta(&inbound, "s", "I look"))
        .await
        .unwrap();
    running.shown("I look").await;
    let kind = OutboundKind::StreamEnd {
        stream: StreamId::from("s"),
        resuming: true,
    };
    let end = OutboundMessage {
        kind,
        ..delta(&inbound, "s", "")
    };
    drafts.close(&end).await.unwrap();
    let is_complete = |sent: &[SentMessage]| {
        let [message] = sent else { return None };
        (message.text == "I look" && !message.is_streaming).then_some(())
    };
    running
        .fake
        .wait_for("a complete card", is_complete)
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn lost_answer_to_a_draft_leaves_no_second_one() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    running
        .fake
        .fail_next("message.create", Fault::DropAfterEffect);
    drafts.append(&delta(&inbound, "s", "Once")).await.unwrap();
    running.shown("Once").await;
    running
        .channel
        .send(&completing(&inbound, "s", "The end"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(&ann().direct()), ["The end"]);
    assert_eq!(running.fake.sent().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn buttons_of_a_draft_are_replaced_by_the_choice() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let drafts = running.channel.drafts().unwrap();
    drafts.append(&delta(&inbound, "s", "Shall")).await.unwrap();
    running.shown("Shall").await;
    let part = with(completing(&inbound, "s", "Shall I?"), |message| {
        message.buttons = vec![vec![Button {
            label: "Do".to_owned(),
        }]];
    });
    running.channel.send(&part).await.unwrap();
    let [card] = running.visible().try_into().unwrap();
    running.fake.press(&card.message_id, &ann(), "Do").unwrap();
    running.shown("Shall I?\n✓ Do").await;
    assert_eq!(running.assistant.message(2).await.unwrap().content, "Do");
    assert!(running.fake.calls_of("message.patch").is_empty());
    running.stop().await;
}
