//! Reports of jobs that fail again and again.

use std::sync::Arc;

use nanobot_agent_core::{DirectRequest, Signal, TurnFacts, TurnReport, TurnRequest};
use nanobot_session::{MessageEntry, TurnOutcome};
use nanobot_testkit::{Reply, ScriptedProvider};
use nanobot_types::{ChatMessage, DeliveryContext, Map, Origin};
use tokio_util::sync::CancellationToken;

use crate::crashes::Nothing;
use crate::world::World;

/// Starts a run of a job, or again the same run after a crash.
async fn run(world: &World, number: u32) -> TurnReport {
    let facts = TurnFacts {
        session: "cron:j".into(),
        channel: "telegram".into(),
        chat_id: "1".into(),
        message_id: None,
        sender: None,
        chat: None,
        delivery: DeliveryContext::default(),
        metadata: Map::new(),
        origin: Origin::Cron { job: "j".into() },
    };
    let mut entry = MessageEntry::new(ChatMessage::user("water them"));
    entry.inbound = Some(format!("j-{number}").into());
    let request = TurnRequest {
        facts,
        entry,
        trace: format!("t-{number}").into(),
        observer: Arc::new(|_: Signal| {}),
        cancel: CancellationToken::new(),
        interrupt: CancellationToken::new(),
        steering: &mut Nothing,
    };
    world.agent().run_turn(request).await.unwrap()
}

#[tokio::test]
async fn a_series_of_failures_is_reported_once() {
    let world = World::new(ScriptedProvider::scripted([
        Reply::error(400, "no"),
        Reply::error(400, "no"),
        Reply::text("watered"),
        Reply::error(400, "no"),
    ]));
    for number in [1, 2, 3, 4] {
        let report = run(&world, number).await;
        let visible = report.visible.clone().unwrap_or_default();
        match number {
            1 | 4 => assert!(visible.contains("until a run succeeds"), "{visible}"),
            2 => assert_eq!(visible, ""),
            _ => assert_eq!(visible, "watered"),
        }
        let is_failure = report.ended == TurnOutcome::Failed;
        assert_eq!(is_failure, number != 3, "{number}");
        // A crash between the record and the delivery changes nothing.
        assert_eq!(run(&world, number).await.visible, report.visible);
    }
}

#[tokio::test]
async fn each_failure_of_a_chat_is_reported() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::error(400, "no")));
    for _ in 0..2 {
        let report = world.agent().process_direct(DirectRequest::new("hi")).await;
        let visible = report.unwrap().visible.unwrap();
        assert!(!visible.contains("until a run succeeds"), "{visible}");
    }
}
