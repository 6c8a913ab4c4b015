//! AI cards: text that is shown while it is generated, and its fallbacks.

use nanobot_channel::{InboundMessage, OutboundKind, OutboundMessage, SendRecovery, StreamId};
use nanobot_channel_dingtalk_fake::{CARD_KEY, CARD_TEMPLATE, Fault, Incoming, SentMessage};
use serde_json::{Value, json};

use crate::support::{ROOM, Running, ann, completing, delta, part, with};

fn keys() -> Value {
    json!({"cardTemplateId": CARD_TEMPLATE, "cardContentVariable": CARD_KEY})
}

/// Begins a conversation and shows a draft.
async fn growing(keys: Value) -> (Running, InboundMessage) {
    let running = Running::start(keys).await;
    let inbound = running.hello().await;
    grow(&running, &inbound, "s", "Once").await;
    running.shown("Once").await;
    (running, inbound)
}

async fn grow(running: &Running, inbound: &InboundMessage, stream: &str, text: &str) {
    let drafts = running.channel.drafts().unwrap();
    drafts.append(&delta(inbound, stream, text)).await.unwrap();
}

#[tokio::test]
async fn card_grows_and_becomes_the_reply() {
    let running = Running::start(keys()).await;
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "tell me").mentioning_robot());
    let inbound = running.assistant.message(1).await.unwrap();
    for text in ["Once <b>", " upon ![x](http://x.test)", " a time"] {
        grow(&running, &inbound, "s", text).await;
    }
    running
        .shown("Once <\u{200b}b> upon !\u{200b}[x](http://x.test) a time")
        .await;
    let [card] = running.fake.sent().try_into().unwrap();
    assert!(card.is_streaming && card.chat_id == ROOM, "{card:#?}");
    let sent = running
        .channel
        .send(&completing(&inbound, "s", "The end"))
        .await
        .unwrap();
    let [reply] = running.fake.sent().try_into().unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.is_streaming, &reply.card),
        ("The end", false, &card.card)
    );
    assert_eq!(sent.message_id.map(|id| id.to_string()), reply.card);
    running.stop().await;
}

#[tokio::test]
async fn completion_is_repeated_without_harm() {
    for fault in [
        Fault::DropAfterEffect,
        Fault::Drop,
        Fault::error("unknownError"),
    ] {
        let (running, inbound) = growing(keys()).await;
        running.fake.fail_next("card.stream", fault.clone());
        let part = completing(&inbound, "s", "Once for all");
        let error = running.channel.send(&part).await.unwrap_err();
        let retry = SendRecovery::Retry { after: None };
        assert_eq!(error.recovery(), retry, "{fault:?}: {error}");
        running.channel.send(&part).await.unwrap();
        assert_eq!(running.texts(), ["Once for all"], "{fault:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn lost_answer_to_a_card_leaves_no_second_one() {
    let running = Running::start(keys()).await;
    let inbound = running.hello().await;
    running
        .fake
        .fail_next("card.create", Fault::DropAfterEffect);
    grow(&running, &inbound, "s", "Once").await;
    running.shown("Once").await;
    running
        .channel
        .send(&completing(&inbound, "s", "The end"))
        .await
        .unwrap();
    assert_eq!(running.texts(), ["The end"]);
    running.stop().await;
}

#[tokio::test]
async fn card_that_was_never_confirmed_is_withdrawn_at_the_next_start() {
    let running = Running::start(keys()).await;
    let inbound = running.hello().await;
    for _ in 0..2 {
        let cut = Fault::DropAfterEffect;
        running.fake.fail_next("card.create", cut);
    }
    grow(&running, &inbound, "s", "Once").await;
    running.fake.wait_for_calls("card.create", 2).await.unwrap();
    assert_eq!(running.texts(), ["Once"]);
    let running = running.restart(&keys()).await;
    running.shown("…").await;
    assert_eq!(running.texts(), ["…"]);
    running.stop().await;
}

#[tokio::test]
async fn card_that_cannot_be_changed_is_replaced() {
    let (running, inbound) = growing(keys()).await;
    running
        .fake
        .fail_next("card.stream", Fault::error("param.outTrackIdNotExist"));
    running
        .channel
        .send(&completing(&inbound, "s", "Whole"))
        .await
        .unwrap();
    let is_replaced = |sent: &[SentMessage]| {
        let texts = sent.iter().map(|sent| sent.text.as_str());
        texts.eq(["…", "Whole"]).then_some(())
    };
    running
        .fake
        .wait_for("the end of the card", is_replaced)
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn without_the_permission_replies_arrive_whole() {
    let running = Running::start(keys()).await;
    let inbound = running.hello().await;
    let refusal = Fault::error("Forbidden.AccessDenied.AccessTokenPermissionDenied");
    running.fake.fail_next("card.create", refusal);
    for (position, stream) in [(0, "s"), (1, "t")] {
        grow(&running, &inbound, stream, "Once").await;
        // The permission is not asked for again at once.
        let create = running.fake.wait_for_calls("card.create", 1);
        create.await.unwrap();
        let part = with(completing(&inbound, stream, "Whole"), |message| {
            message.key.position = position;
        });
        running.channel.send(&part).await.unwrap();
    }
    assert_eq!(running.texts(), ["Whole", "Whole"]);
    assert_eq!(running.fake.calls_of("card.create").len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn unknown_template_is_no_obstacle() {
    let running = Running::start(json!({"cardTemplateId": "unknown.schema"})).await;
    let inbound = running.hello().await;
    grow(&running, &inbound, "s", "Once").await;
    let create = running.fake.wait_for_calls("card.create", 1);
    create.await.unwrap();
    running
        .channel
        .send(&completing(&inbound, "s", "Whole"))
        .await
        .unwrap();
    assert_eq!(running.texts(), ["Whole"]);
    running.stop().await;
}

#[tokio::test]
async fn further_parts_follow_the_card() {
    let (running, inbound) = growing(keys()).await;
    let mut first = completing(&inbound, "s", "first");
    first.count = 2;
    let mut second = completing(&inbound, "s", "second");
    (second.index, second.count) = (1, 2);
    running.channel.send(&first).await.unwrap();
    running.channel.send(&second).await.unwrap();
    let kinds: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.kind, sent.text))
        .collect();
    let expected = [("card", "first"), ("sampleMarkdown", "second")];
    assert_eq!(
        kinds,
        expected.map(|(kind, text)| (kind.to_owned(), text.to_owned()))
    );
    running.stop().await;
}

#[tokio::test]
async fn card_before_tools_stays_and_a_withdrawn_one_is_emptied() {
    let (running, inbound) = growing(keys()).await;
    let drafts = running.channel.drafts().unwrap();
    let end = |stream: &str, kind: OutboundKind| OutboundMessage {
        kind,
        ..delta(&inbound, stream, "")
    };
    let closed = |stream: &str, resuming| {
        let stream_id = StreamId::from(stream);
        let kind = OutboundKind::StreamEnd {
            stream: stream_id,
            resuming,
        };
        end(stream, kind)
    };
    drafts.close(&closed("s", true)).await.unwrap();
    let are = |expected: [&'static str; 2]| {
        move |sent: &[SentMessage]| {
            let texts = sent
                .iter()
                .map(|sent| (sent.text.as_str(), sent.is_streaming));
            texts.eq(expected.map(|text| (text, false))).then_some(())
        }
    };
    grow(&running, &inbound, "t", "I said so").await;
    running.shown("I said so").await;
    drafts.close(&closed("t", false)).await.unwrap();
    let stream = StreamId::from("t");
    let withdrawn = end(
        "t",
        OutboundKind::Withdrawn {
            stream: stream.clone(),
        },
    );
    drafts.withdraw(&stream, &withdrawn).await.unwrap();
    let expected = are(["Once", "…"]);
    running
        .fake
        .wait_for("two finished cards", expected)
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn later_replies_need_no_card() {
    let (running, inbound) = growing(keys()).await;
    running
        .channel
        .send(&completing(&inbound, "s", "The end"))
        .await
        .unwrap();
    grow(&running, &inbound, "s", " too late").await;
    running
        .channel
        .send(&part(&inbound, 1, "a notice"))
        .await
        .unwrap();
    assert_eq!(running.texts(), ["The end", "a notice"]);
    running.stop().await;
}
