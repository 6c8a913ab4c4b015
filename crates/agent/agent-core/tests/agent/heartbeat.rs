//! Heartbeat turns: little context, and no messages that are not worth sending.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{AgentLoop, CommandTable, HeartbeatFilter, LoopSettings};
use nanobot_bus::{Bus as _, Ledger as _, LedgerFilter, MemoryBus, Queue, SettleOutcome};
use nanobot_testkit::{Reply, ScriptedProvider, WAIT_LIMIT};
use nanobot_types::{
    HEARTBEAT_SESSION, InboundMessage, Origin, OutboundKind, OutboundMessage, SessionKey,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::World;

/// A judge that sends only news.
#[derive(Debug)]
struct News;

#[async_trait]
impl HeartbeatFilter for News {
    async fn filter(&self, task: &str, answer: &str) -> Option<String> {
        assert!(task.starts_with("task "), "{task}");
        answer.strip_prefix("news: ").map(str::to_owned)
    }
}

fn beat(number: usize, channel: &str) -> InboundMessage {
    InboundMessage {
        id: Some(format!("heartbeat-{number}").into()),
        session_key_override: Some(SessionKey::from(HEARTBEAT_SESSION)),
        origin: Origin::Heartbeat,
        ..InboundMessage::text(channel, "heartbeat", "7", format!("task {number}"))
    }
}

/// Runs a loop over these messages in order, and returns everything that was sent.
async fn sent(world: &World, messages: Vec<InboundMessage>) -> Vec<OutboundMessage> {
    let bus = Arc::new(MemoryBus::new());
    let agent_loop = AgentLoop::with_commands(
        world.agent(),
        bus.clone(),
        bus.clone(),
        LoopSettings::default(),
        CommandTable::built_in(),
        Some(Arc::new(News)),
    );
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
    // The last message of a person is answered last.
    let mut out = bus.outbound(&"telegram".into()).await.unwrap();
    for message in messages {
        let began = tokio::time::Instant::now();
        bus.publish_inbound(message).await.unwrap();
        while !bus
            .list(Queue::Inbound, LedgerFilter::Open, 1)
            .await
            .unwrap()
            .is_empty()
        {
            assert!(began.elapsed() < WAIT_LIMIT, "a message is not settled");
            tokio::task::yield_now().await;
        }
    }
    bus.publish_inbound(InboundMessage::text("telegram", "u", "7", "the end"))
        .await
        .unwrap();
    let mut sent = Vec::new();
    loop {
        let delivery = out.next().await.unwrap();
        delivery.settle(SettleOutcome::Ack).await.unwrap();
        if delivery.message.kind == OutboundKind::Final && delivery.message.content == "end" {
            break;
        }
        let is_of_a_beat = delivery.message.key.turn.as_str().contains("heartbeat-");
        if is_of_a_beat && !matches!(delivery.message.kind, OutboundKind::TurnEnd { .. }) {
            sent.push(OutboundMessage::clone(&delivery.message));
        }
    }
    cancel.cancel();
    task.await.unwrap();
    sent
}

#[tokio::test]
async fn sends_only_notable_results_and_no_failures() {
    let answers = [
        Reply::text("all is well"),
        Reply::text("news: it rains"),
        Reply::error(401, "no"),
        Reply::text("end"),
    ];
    let world = World::new(ScriptedProvider::scripted(answers));
    let sent_messages = sent(
        &world,
        (0..3).map(|number| beat(number, "telegram")).collect(),
    )
    .await;
    let texts: Vec<(&str, &str)> = sent_messages
        .iter()
        .map(|message| (message.chat_id.as_str(), message.content.as_str()))
        .collect();
    assert_eq!(texts, [("7", "it rains")]);
}

#[tokio::test]
async fn without_a_chat_no_result_is_sent() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::text("news: it rains"),
        Reply::text("end"),
    ]));
    assert_eq!(sent(&world, vec![beat(0, "cli")]).await, []);
    assert!(
        world
            .log(HEARTBEAT_SESSION)
            .await
            .iter()
            .any(|line| line.contains("it rains")),
        "the work is on record"
    );
}

#[tokio::test]
async fn heartbeat_cannot_use_the_message_tool() {
    let world = World::new(ScriptedProvider::answering(|request| {
        match request.tool_results().as_slice() {
            [] if format!("{:?}", request.transcript).contains("the end") => Reply::text("end"),
            [] => Reply::call("message", &json!({"content": "hello"})),
            results => Reply::text(format!("news: {}", results.join("+"))),
        }
    }));
    let sent_messages = sent(&world, vec![beat(0, "telegram")]).await;
    let [message] = sent_messages.as_slice() else {
        panic!("{sent_messages:?}")
    };
    assert!(
        message.content.contains("A heartbeat cannot send messages"),
        "{}",
        message.content
    );
    assert!(world.outbox.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn heartbeat_sees_only_its_newest_predecessors() {
    let world = World::new(ScriptedProvider::answering(|request| {
        let last = request.last_user_text();
        if last.contains("the end") {
            return Reply::text("end");
        }
        Reply::text(format!("news: {}", request.transcript.messages().len()))
    }));
    let sent_messages = sent(
        &world,
        (0..12).map(|number| beat(number, "telegram")).collect(),
    )
    .await;
    let seen: Vec<&str> = sent_messages
        .iter()
        .map(|message| message.content.as_str())
        .collect();
    assert_eq!(
        seen,
        ["1", "3", "5", "7", "9", "9", "9", "9", "9", "9", "9", "9"]
    );
}
