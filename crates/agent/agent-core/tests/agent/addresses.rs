//! Delivery of the replies of jobs.

use std::sync::Arc;

use nanobot_agent_core::{AgentLoop, CommandTable, LoopSettings};
use nanobot_bus::{Bus as _, MemoryBus, SettleOutcome};
use nanobot_testkit::{Reply, ScriptedProvider};
use nanobot_types::{
    ChatKind, DeliveryContext, InboundMessage, Origin, OutboundKind, OutboundMessage, PLACED_KEY,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::World;

/// Runs a message with a newly started assistant and returns the reply.
async fn answer(world: &World, message: InboundMessage) -> OutboundMessage {
    let bus = Arc::new(MemoryBus::new());
    let parts = (
        world.agent(),
        bus.clone(),
        bus.clone(),
        LoopSettings::default(),
    );
    let turns = AgentLoop::with_commands(
        parts.0,
        parts.1,
        parts.2,
        parts.3,
        CommandTable::built_in(),
        None,
    );
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let task = TaskTracker::new().spawn(async move { turns.run(stop).await.unwrap() });
    let mut out = bus.outbound(&"mail".into()).await.unwrap();
    bus.publish_inbound(message).await.unwrap();
    let answer = loop {
        let delivery = out.next().await.unwrap();
        delivery.settle(SettleOutcome::Ack).await.unwrap();
        if delivery.message.kind == OutboundKind::Final {
            break OutboundMessage::clone(&delivery.message);
        }
    };
    cancel.cancel();
    task.await.unwrap();
    answer
}

#[tokio::test]
async fn job_uses_its_own_thread_or_the_chats_last_one() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::text("ok")));
    let thread = |name: &str| {
        let extra = [("subject".to_owned(), "Plants".into())]
            .into_iter()
            .collect();
        DeliveryContext {
            thread: Some(name.to_owned()),
            reply_to: None,
            extra,
        }
    };
    let said = InboundMessage {
        id: Some("1".into()),
        delivery: DeliveryContext {
            reply_to: Some("1".into()),
            ..thread("<a@x>")
        },
        chat: Some(ChatKind::Direct),
        ..InboundMessage::text("mail", "ann@x", "ann@x", "hi")
    };
    assert_eq!(answer(&world, said.clone()).await.delivery, said.delivery);
    let job = |number: u32, chat: &str, delivery: DeliveryContext| InboundMessage {
        id: Some(format!("cron-j-{number}").into()),
        session_key_override: Some("cron:j".into()),
        origin: Origin::Cron { job: "j".into() },
        delivery,
        ..InboundMessage::text("mail", "cron", chat, "water them")
    };
    let nowhere = DeliveryContext::default;
    let mut placed = job(4, "ann@x", nowhere());
    placed.metadata.insert(PLACED_KEY.to_owned(), true.into());
    assert_eq!(answer(&world, placed).await.delivery, nowhere());
    for (number, chat, delivery, expected) in [
        (1, "ann@x", nowhere(), thread("<a@x>")),
        (2, "ann@x", thread("<b@x>"), thread("<b@x>")),
        (3, "bob@x", nowhere(), nowhere()),
    ] {
        assert_eq!(
            answer(&world, job(number, chat, delivery)).await.delivery,
            expected,
            "{number}"
        );
    }
}
