//! The loop between a bus and the agent.

use std::sync::Arc;

use nanobot_agent_core::{AgentLoop, LoopSettings};
use nanobot_bus::{
    Bus as _, EntryState, Ledger as _, LedgerFilter, MemoryBus, Queue, SettleOutcome, Subscription,
};
use nanobot_testkit::{Gate, Reply, ScriptedProvider};
use nanobot_types::{ChatMessage, InboundMessage, OutboundKind, OutboundMessage};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::World;

pub(crate) struct Running {
    bus: Arc<MemoryBus>,
    out: Subscription<OutboundMessage>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(world: &World) -> Self {
        Self::with(world, LoopSettings::default()).await
    }

    pub(crate) async fn with(world: &World, settings: LoopSettings) -> Self {
        let bus = Arc::new(MemoryBus::new());
        let out = bus.outbound(&"telegram".into()).await.unwrap();
        let cancel = CancellationToken::new();
        let agent_loop = AgentLoop::new(world.agent(), bus.clone(), bus.clone(), settings);
        let stop = cancel.clone();
        let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
        Self {
            bus,
            out,
            cancel,
            task,
        }
    }

    pub(crate) async fn send(&self, chat: &str, id: &str, text: &str) {
        let message = InboundMessage {
            id: Some(id.into()),
            ..InboundMessage::text("telegram", "u", chat, text)
        };
        self.bus.publish_inbound(message).await.unwrap();
    }

    /// Waits for the next complete message.
    pub(crate) async fn reply(&mut self) -> String {
        loop {
            let delivery = self.out.next().await.unwrap();
            delivery.settle(SettleOutcome::Ack).await.unwrap();
            if matches!(
                delivery.message.kind,
                OutboundKind::Final | OutboundKind::Notice
            ) {
                return delivery.message.content;
            }
        }
    }

    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

fn last_user(request: &nanobot_provider::ChatRequest) -> String {
    let text = request
        .transcript
        .messages()
        .iter()
        .rev()
        .find_map(|message| match &**message {
            ChatMessage::User(_) => Some(message.text()),
            _ => None,
        });
    text.unwrap().lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn chats_run_concurrently_and_each_in_order() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(move |request| {
        let said = last_user(request);
        if said == "slow" {
            Reply::text("slow done").after(&held)
        } else {
            Reply::text(format!("re: {said}"))
        }
    }));
    let mut running = Running::start(&world).await;
    running.send("1", "a", "slow").await;
    world.provider.wait_for(1).await.unwrap();
    running.send("2", "b", "quick").await;
    assert_eq!(running.reply().await, "re: quick");
    gate.open();
    assert_eq!(running.reply().await, "slow done");
    running.send("1", "a", "slow").await;
    running.send("1", "c", "next").await;
    assert_eq!(
        running.reply().await,
        "re: next",
        "a message delivered twice is answered once"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn messages_over_the_lane_bound_wait_in_order() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(move |request| {
        let said = last_user(request);
        if said == "0" {
            Reply::text("re: 0").after(&held)
        } else {
            Reply::text(format!("re: {said}"))
        }
    }));
    let settings = LoopSettings {
        lane_bound: 1,
        ..LoopSettings::default()
    };
    let mut running = Running::with(&world, settings).await;
    running.send("1", "0", "0").await;
    world.provider.wait_for(1).await.unwrap();
    for number in 1..6 {
        running
            .send("1", &number.to_string(), &number.to_string())
            .await;
    }
    let notice = loop {
        let delivery = running.out.next().await.unwrap();
        if delivery.message.kind == OutboundKind::Progress {
            break delivery.message.content;
        }
    };
    assert!(notice.contains("wait their turn"), "{notice}");
    gate.open();
    for number in 0..6 {
        assert_eq!(running.reply().await, format!("re: {number}"));
    }
    running.stop().await;
}

#[tokio::test]
async fn new_message_is_steered_into_the_running_turn() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(
        move |request| match last_user(request).as_str() {
            "begin" => Reply::call("look", &json!({})).after(&held),
            other => Reply::text(format!("heard {other}")),
        },
    ));
    let mut running = Running::start(&world).await;
    running.send("1", "a", "begin").await;
    world.provider.wait_for(1).await.unwrap();
    running.send("1", "b", "and mind the gap").await;
    // The command is answered at once, so the message before it has reached its lane.
    running.send("1", "c", "/help").await;
    assert!(running.reply().await.contains("/stop"));
    gate.open();
    assert_eq!(running.reply().await, "heard and mind the gap");
    running.stop().await;
    assert_eq!(
        world.log("telegram:1").await,
        [
            "user: begin",
            "assistant calls look: ",
            "tool: look {}",
            "user: and mind the gap",
            "assistant: heard and mind the gap",
            "end: Replied"
        ]
    );
    world.assert_replays("telegram:1").await;
}

#[tokio::test]
async fn steady_senders_get_replies_and_no_message_is_skipped() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(
        move |request| match last_user(request).as_str() {
            "0" => Reply::call("look", &json!({})).after(&held),
            other => Reply::text(format!("heard up to {other}")),
        },
    ));
    let mut running = Running::start(&world).await;
    running.send("1", "0", "0").await;
    world.provider.wait_for(1).await.unwrap();
    for number in 1..=20 {
        running
            .send("1", &number.to_string(), &number.to_string())
            .await;
    }
    // The command is answered at once, so the messages before it have reached their lane.
    running.send("1", "help", "/help").await;
    assert!(running.reply().await.contains("/stop"));
    gate.open();
    for last in [8, 17, 20] {
        assert_eq!(running.reply().await, format!("heard up to {last}"));
    }
    running.stop().await;
    let log = world.log("telegram:1").await;
    let said: Vec<_> = log
        .iter()
        .filter_map(|line| line.strip_prefix("user: "))
        .collect();
    let all: Vec<_> = (0..=20).map(|number| number.to_string()).collect();
    assert_eq!(said, all, "each once, in order");
    world.assert_replays("telegram:1").await;
}

#[tokio::test]
async fn stop_ends_the_turn_and_keeps_recorded_steps() {
    let world = World::new(ScriptedProvider::answering(|request| {
        match request.transcript.messages().len() {
            1 => Reply::call("look", &json!({})),
            _ => Reply::hang(),
        }
    }));
    let mut running = Running::start(&world).await;
    running.send("1", "x", "/stop").await;
    assert_eq!(running.reply().await, "No active task to stop.");
    running.send("1", "a", "work").await;
    world.provider.wait_for(2).await.unwrap();
    running.send("1", "b", "/STOP").await;
    assert_eq!(running.reply().await, "Stopped 1 task(s).");
    running.stop().await;
    assert_eq!(
        world.log("telegram:1").await,
        [
            "user: work",
            "assistant calls look: ",
            "tool: look {}",
            "end: Stopped"
        ]
    );
    world.assert_replays("telegram:1").await;
}

#[tokio::test]
async fn new_starts_an_empty_conversation() {
    let world = World::new(ScriptedProvider::answering(|request| {
        Reply::text(format!(
            "I see {} messages",
            request.transcript.messages().len()
        ))
    }));
    let mut running = Running::start(&world).await;
    for (id, text, reply) in [
        ("a", "one", "I see 1 messages"),
        ("b", "two", "I see 3 messages"),
        ("c", "/clear", "New session started."),
        ("d", "three", "I see 1 messages"),
        (
            "e",
            "/frobnicate",
            "There is no command /frobnicate. /help lists the commands.",
        ),
    ] {
        running.send("1", id, text).await;
        assert_eq!(running.reply().await, reply, "{text}");
    }
    running.send("1", "f", "/status").await;
    let status = running.reply().await;
    assert!(
        status.contains("Session telegram:1: 6 messages, 2 in context"),
        "{status}"
    );
    running.stop().await;
}

#[tokio::test]
async fn branch_copies_the_conversation_after_the_running_turn() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(move |_| {
        Reply::text("done").after(&held)
    }));
    let mut running = Running::start(&world).await;
    running.send("1", "a", "/branch").await;
    assert_eq!(running.reply().await, "There is nothing to copy yet.");
    running.send("1", "b", "hello").await;
    world.provider.wait_for(1).await.unwrap();
    running.send("1", "c", "/branch").await;
    gate.open();
    assert_eq!(running.reply().await, "done");
    let answer = running.reply().await;
    assert!(
        answer.contains("`/sessions telegram:1:branch:1`"),
        "{answer}"
    );
    assert_eq!(
        world.log("telegram:1:branch:1").await,
        world.log("telegram:1").await
    );
    running.stop().await;
}

#[tokio::test]
async fn a_shutdown_leaves_unfinished_messages_to_the_next_start() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::hang()));
    let bus = Arc::new(MemoryBus::new());
    let settings = LoopSettings {
        grace: std::time::Duration::ZERO,
        ..LoopSettings::default()
    };
    let agent_loop = AgentLoop::new(world.agent(), bus.clone(), bus.clone(), settings);
    let cancel = CancellationToken::new();
    let message = InboundMessage {
        id: Some("a".into()),
        ..InboundMessage::text("telegram", "u", "1", "hi")
    };
    bus.publish_inbound(message).await.unwrap();
    let stop = async {
        world.provider.wait_for(1).await.unwrap();
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(agent_loop.run(cancel.clone()), stop);
    outcome.unwrap();
    assert_eq!(world.log("telegram:1").await, ["user: hi"]);
    let again = bus.inbound().await.unwrap().next().await.unwrap();
    assert_eq!((again.message.content.as_str(), again.attempt), ("hi", 2));
}

#[tokio::test]
async fn pending_lists_and_settles_deliveries_of_the_chat() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::text("ok")));
    let mut running = Running::start(&world).await;
    running.send("1", "a", "hello").await;
    let reply = loop {
        let delivery = running.out.next().await.unwrap();
        if delivery.is_durable() {
            break delivery;
        }
    };
    reply
        .settle(SettleOutcome::Uncertain("no answer within 60 s".to_owned()))
        .await
        .unwrap();
    let id = running
        .bus
        .list(Queue::Outbound, LedgerFilter::Uncertain, 1)
        .await
        .unwrap()
        .remove(0)
        .id;

    running.send("1", "b", "/pending").await;
    let listed = running.reply().await;
    let expected = [
        &format!("{id} · mine, may not have arrived · "),
        " · ok — no answer within 60 s",
        "retry ID",
    ];
    assert!(
        expected.iter().all(|part| listed.contains(*part)),
        "{listed}"
    );
    assert!(
        !listed.contains("yours"),
        "neither the command nor what is answered: {listed}"
    );

    running.send("2", "c", "/pending").await;
    assert_eq!(running.reply().await, "Everything in this chat is settled.");
    running
        .send("2", "d", &format!("/pending retry {id}"))
        .await;
    assert_eq!(
        running.reply().await,
        format!("This chat has no entry {id}. /pending lists what there is.")
    );

    running.send("1", "e", &format!("/pending drop {id}")).await;
    assert_eq!(running.reply().await, format!("Entry {id} is given up."));
    assert_eq!(
        running.bus.show(&id).await.unwrap().state,
        EntryState::Expired
    );
    running.send("1", "f", &format!("/pending drop {id}")).await;
    assert_eq!(
        running.reply().await,
        format!("Entry {id} is expired; there is nothing to do about it.")
    );
    running
        .send("1", "g", &format!("/pending retry {id}"))
        .await;
    let mut replies = [running.reply().await, running.reply().await];
    replies.sort();
    assert_eq!(
        replies,
        [format!("Entry {id} is tried again."), "ok".to_owned()]
    );
    running.send("1", "h", "/pending please").await;
    assert!(running.reply().await.starts_with("/pending lists"));
    running.stop().await;
}

/// The `message` tool has answered the chat, so the model's later text is no reply.
#[tokio::test(start_paused = true)]
async fn a_suppressed_reply_withdraws_the_draft_that_showed_it() {
    let script = [
        Reply::call("message", &json!({"content": "by the tool"})),
        Reply::deltas(["I have ", "told you."]),
        Reply::text("As before."),
    ];
    let world = World::new(ScriptedProvider::scripted(script));
    let mut running = Running::start(&world).await;
    running.send("1", "a", "go").await;
    let (mut streams, mut withdrawn, mut finals) = (Vec::new(), Vec::new(), Vec::new());
    while finals.is_empty() {
        let next = tokio::time::timeout(std::time::Duration::from_mins(1), running.out.next());
        let delivery = next
            .await
            .expect("a stream that is withdrawn, and a reply after that")
            .unwrap();
        delivery.settle(SettleOutcome::Ack).await.unwrap();
        let message = &delivery.message;
        match &message.kind {
            OutboundKind::Delta { stream } => {
                streams.push((stream.clone(), message.content.clone()));
            }
            OutboundKind::Withdrawn { stream } => {
                withdrawn.push((stream.clone(), streams.len()));
                running.send("1", "b", "and on").await;
            }
            OutboundKind::Final | OutboundKind::Notice => finals.push(message.content.clone()),
            _ => {}
        }
    }
    running.stop().await;
    assert_eq!(finals, ["As before."], "a suppressed reply is not sent");
    assert_eq!(
        world.outbox.0.lock().unwrap().len(),
        1,
        "the tool has answered"
    );
    let text: String = streams
        .iter()
        .filter(|(stream, _)| *stream == streams[0].0)
        .map(|(_, text)| &**text)
        .collect();
    assert_eq!(text, "I have told you.");
    let [(stream, after)] = withdrawn.as_slice() else {
        panic!("{withdrawn:?}")
    };
    assert_eq!(*stream, streams[0].0, "the stream that showed it");
    assert!(*after >= 1, "after it was shown");
}

#[tokio::test(start_paused = true)]
async fn flood_waits_in_the_ledger_with_one_notice() {
    const MESSAGES: usize = 3_000;
    let world = World::new(ScriptedProvider::answering(|_| Reply::hang()));
    let bus = Arc::new(MemoryBus::bounded(MESSAGES));
    let mut out = bus.outbound(&"telegram".into()).await.unwrap();
    let agent_loop = AgentLoop::new(
        world.agent(),
        bus.clone(),
        bus.clone(),
        LoopSettings::default(),
    );
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
    for number in 0..MESSAGES {
        let text = number.to_string();
        let message = InboundMessage {
            id: Some(text.as_str().into()),
            ..InboundMessage::text("telegram", "u", "1", text.as_str())
        };
        bus.publish_inbound(message).await.unwrap();
    }
    let notice = out.next().await.unwrap().message.content;
    assert!(notice.contains("wait their turn"), "{notice}");
    // During a minute on the paused clock, the waiting messages are offered to the lane and refused
    // repeatedly.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    cancel.cancel();
    task.await.unwrap();
    let entries = bus
        .list(Queue::Inbound, LedgerFilter::All, usize::MAX)
        .await
        .unwrap();
    assert_eq!(entries.len(), MESSAGES);
    assert!(
        entries
            .iter()
            .all(|entry| entry.state == EntryState::Pending),
        "nothing is dropped"
    );
    let begun = entries.iter().filter(|entry| entry.attempts > 0).count();
    assert_eq!(begun, 1, "waiting messages have lost no attempt");
    // Notices are lossy and bounded, so only the end of the subscription shows whether there were
    // more.
    bus.close();
    assert!(out.next().await.is_none(), "the sender is notified once");
}
