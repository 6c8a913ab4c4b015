//! Attempts of a message, counted across restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nanobot_agent_core::{AgentLoop, LoopSettings};
use nanobot_bus::{
    Bus as _, EntryState, Ledger as _, LedgerFilter, MemoryBus, Queue, SettleOutcome,
};
use nanobot_testkit::{Reply, ScriptedProvider};
use nanobot_types::{ChatMessage, InboundMessage};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::World;

const SETTINGS: LoopSettings = LoopSettings {
    lane_bound: 8,
    redelivery_delay: std::time::Duration::from_millis(1),
    grace: std::time::Duration::ZERO,
    max_attempts: 1,
};

/// Returns a model that answers once per life with another tool call, up to `calls` of them, and
/// then hangs.
fn one_answer_per_life(calls: usize) -> (ScriptedProvider, Arc<AtomicBool>) {
    let alive = Arc::new(AtomicBool::new(true));
    let may_answer = alive.clone();
    let provider = ScriptedProvider::answering(move |request| {
        let results = request
            .transcript
            .messages()
            .iter()
            .filter(|m| matches!(***m, ChatMessage::Tool(_)))
            .count();
        if results >= calls {
            return Reply::text("done");
        }
        if may_answer.swap(false, Ordering::SeqCst) {
            Reply::call("look", &json!({"n": results}))
        } else {
            Reply::hang()
        }
    });
    (provider, alive)
}

/// Runs the loop until the model was called `requests` times in all, then drops everything as a
/// crash does.
async fn live(world: &World, bus: &Arc<MemoryBus>, requests: usize) {
    let agent_loop = AgentLoop::new(world.agent(), bus.clone(), bus.clone(), SETTINGS);
    let task =
        TaskTracker::new().spawn(async move { agent_loop.run(CancellationToken::new()).await });
    world.provider.wait_for(requests).await.unwrap();
    task.abort();
    drop(task.await);
}

fn hello() -> InboundMessage {
    hello_of("a", "hello")
}

fn hello_of(id: &str, text: &str) -> InboundMessage {
    InboundMessage {
        id: Some(id.into()),
        ..InboundMessage::text("telegram", "u", "1", text)
    }
}

#[tokio::test]
async fn turn_with_progress_survives_more_restarts_than_attempts() {
    let (provider, alive) = one_answer_per_life(4);
    let world = World::new(provider);
    let bus = Arc::new(MemoryBus::new());
    let mut out = bus.outbound(&"telegram".into()).await.unwrap();
    bus.publish_inbound(hello()).await.unwrap();
    for life in 1..=3 {
        alive.store(true, Ordering::SeqCst);
        live(&world, &bus, life * 2).await;
    }
    alive.store(true, Ordering::SeqCst);
    let agent_loop = AgentLoop::new(world.agent(), bus.clone(), bus.clone(), SETTINGS);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
    let reply = loop {
        let delivery = out.next().await.unwrap();
        delivery.settle(SettleOutcome::Ack).await.unwrap();
        if delivery.message.kind.is_durable() {
            break delivery.message.content;
        }
    };
    assert_eq!(reply, "done");
    assert_eq!(world.runs.of("look"), 4);
    cancel.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn turn_without_progress_is_given_up() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::hang()));
    let bus = Arc::new(MemoryBus::new());
    let mut out = bus.outbound(&"telegram".into()).await.unwrap();
    bus.publish_inbound(hello()).await.unwrap();
    live(&world, &bus, 1).await;
    let agent_loop = AgentLoop::new(world.agent(), bus.clone(), bus.clone(), SETTINGS);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
    let notice = out.next().await.unwrap();
    assert!(
        notice.message.content.starts_with("I tried 1 times"),
        "{}",
        notice.message.content
    );
    cancel.cancel();
    task.await.unwrap();
    let failed = bus
        .list(Queue::Inbound, LedgerFilter::All, 9)
        .await
        .unwrap();
    assert_eq!(
        failed.iter().map(|entry| entry.state).collect::<Vec<_>>(),
        [EntryState::Failed]
    );
}

#[tokio::test]
async fn messages_queued_after_a_crashing_one_lose_no_attempts() {
    let world = World::new(ScriptedProvider::answering(|request| {
        let poison = request
            .transcript
            .messages()
            .iter()
            .any(|message| message.text().contains("poison"));
        if poison {
            Reply::hang()
        } else {
            Reply::text("fine")
        }
    }));
    let bus = Arc::new(MemoryBus::new());
    bus.publish_inbound(hello_of("a", "poison")).await.unwrap();
    bus.publish_inbound(hello_of("b", "/branch")).await.unwrap();
    bus.publish_inbound(hello_of("c", "hello")).await.unwrap();
    for life in 1..=SETTINGS.max_attempts as usize {
        live(&world, &bus, life).await;
    }
    let attempts: Vec<u32> = bus
        .list(Queue::Inbound, LedgerFilter::Open, 9)
        .await
        .unwrap()
        .iter()
        .rev()
        .map(|e| e.attempts)
        .collect();
    assert_eq!(attempts, [SETTINGS.max_attempts, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn panicking_message_is_parked_and_not_overtaken() {
    let world = World::new(ScriptedProvider::answering(|request| {
        let said = request
            .transcript
            .messages()
            .iter()
            .rev()
            .find(|message| message.role() == "user")
            .unwrap()
            .text();
        assert!(!said.contains("poison"), "as wanted");
        Reply::text(format!("re: {}", said.lines().next().unwrap()))
    }));
    let bus = Arc::new(MemoryBus::new());
    let mut out = bus.outbound(&"telegram".into()).await.unwrap();
    for (id, text) in [("a", "poison"), ("b", "/branch"), ("c", "hello")] {
        bus.publish_inbound(hello_of(id, text)).await.unwrap();
    }
    let settings = LoopSettings {
        max_attempts: 3,
        ..SETTINGS
    };
    let agent_loop = AgentLoop::new(world.agent(), bus.clone(), bus.clone(), settings);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
    let mut texts = Vec::new();
    while texts.len() < 3 {
        let delivery = out.next().await.unwrap();
        delivery.settle(SettleOutcome::Ack).await.unwrap();
        if delivery.message.kind.is_durable() {
            texts.push(
                delivery
                    .message
                    .content
                    .split('.')
                    .next()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
    let parked = "I tried 3 times to handle this message and failed each time, so I put it aside";
    assert_eq!(texts[0], parked);
    assert_eq!(texts[2], "re: hello");
    cancel.cancel();
    task.await.unwrap();
    let entries = bus
        .list(Queue::Inbound, LedgerFilter::All, 9)
        .await
        .unwrap();
    let ends: Vec<_> = entries
        .iter()
        .rev()
        .map(|entry| (entry.state, entry.attempts))
        .collect();
    assert_eq!(
        ends,
        [
            (EntryState::Failed, 3),
            (EntryState::Answered, 1),
            (EntryState::Answered, 1)
        ]
    );
}
