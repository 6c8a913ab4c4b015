//! Slash commands, before and during a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use nanobot_agent_core::{
    AgentError, AgentLoop, Command, CommandContext, CommandReply, CommandTable, CommandTiming,
    LoopSettings,
};
use nanobot_bus::{Bus as _, Ledger as _, LedgerFilter, MemoryBus, Queue, SettleOutcome};
use nanobot_testkit::{Gate, Reply, ScriptedProvider};
use nanobot_types::{CommandInfo, InboundMessage, Origin, OutboundKind};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::lanes::Running;
use crate::world::World;

/// Commands that run during a turn, each with a text that its reply contains.
const IMMEDIATE: [(&str, &str); 12] = [
    ("/help", "/compact — "),
    ("/HELP branch", "/branch — Copy this conversation"),
    ("/status@my_bot", "Context: about "),
    ("/usage", "Tokens since start: "),
    ("/context", "Context of "),
    ("/memory", "emory"),
    ("/skill", "kills"),
    ("/skill nothing", "There is no skill nothing."),
    ("/agents", "subagent"),
    ("/pending retry nothing", "This chat has no entry nothing."),
    ("/start", "Hi, I am nanobot."),
    ("/new please", "/new takes no arguments."),
];

#[tokio::test]
async fn every_command_answers_before_and_during_a_turn() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(move |_| {
        Reply::text("done").after(&held)
    }));
    let mut running = Running::start(&world).await;
    for (number, (command, expected)) in IMMEDIATE.iter().enumerate() {
        running
            .send("1", &format!("before {number}"), command)
            .await;
        let answer = running.reply().await;
        assert!(answer.contains(expected), "{command}: {answer}");
    }
    running.send("1", "work", "work").await;
    world.provider.wait_for(1).await.unwrap();
    for (number, (command, expected)) in IMMEDIATE.iter().enumerate() {
        running
            .send("1", &format!("during {number}"), command)
            .await;
        let answer = running.reply().await;
        assert!(answer.contains(expected), "{command}: {answer}");
    }
    // These wait for the turn.
    for command in ["/compact", "/branch"] {
        running.send("1", command, command).await;
    }
    gate.open();
    assert_eq!(running.reply().await, "done");
    let compacted = running.reply().await;
    assert!(compacted.contains("nothing to summarise"), "{compacted}");
    assert!(
        running
            .reply()
            .await
            .contains("A copy of it is telegram:1:branch:1")
    );
    // This one does not wait.
    running.send("1", "new", "/new").await;
    assert_eq!(running.reply().await, "New session started.");
    running.stop().await;
}

#[tokio::test]
async fn new_stops_the_running_turn_and_waits_for_its_end() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::hang()));
    let mut running = Running::start(&world).await;
    running.send("1", "a", "work").await;
    world.provider.wait_for(1).await.unwrap();
    running.send("1", "b", "/reset").await;
    assert_eq!(running.reply().await, "New session started.");
    running.stop().await;
    let standing = world.log("telegram:1").await;
    assert!(
        standing.iter().all(|line| !line.starts_with("user")),
        "{standing:?}"
    );
}

#[tokio::test]
async fn only_text_that_cannot_be_a_command_reaches_the_model() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::text("model")));
    let mut running = Running::start(&world).await;
    for (id, text, reply) in [
        ("a", "/etc/hosts is a file", "model"),
        ("b", "what is /new for?", "model"),
        (
            "c",
            "/stpo",
            "There is no command /stpo. Did you mean /stop? /help lists the commands.",
        ),
        (
            "d",
            "/frobnicate the widget",
            "There is no command /frobnicate. /help lists the commands.",
        ),
        ("e", "/2", "model"),
    ] {
        running.send("1", id, text).await;
        assert_eq!(running.reply().await, reply, "{text}");
    }
    running.stop().await;
    assert_eq!(world.provider.requests().len(), 3);
}

/// A command that fails in one of several ways.
#[derive(Debug)]
struct Faulty(&'static str);

#[async_trait]
impl Command for Faulty {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: self.0,
            aliases: &[],
            about: "Fail",
            usage: "",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, _: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        match self.0 {
            "panics" => panic!("as it should"),
            _ => Err(AgentError::Interrupted),
        }
    }
}

/// A command with a follow-up after its reply is stored.
#[derive(Debug)]
struct Follows(Arc<AtomicBool>);

#[async_trait]
impl Command for Follows {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: "follow",
            aliases: &["f"],
            about: "Follow",
            usage: "[WHAT]",
        }
    }

    fn timing(&self) -> CommandTiming {
        CommandTiming::Now
    }

    async fn run(&self, context: &CommandContext<'_>) -> Result<CommandReply, AgentError> {
        let done = self.0.clone();
        let reply = CommandReply::from(format!("{} in {}", context.arguments, context.session));
        Ok(reply.then(move || done.store(true, Ordering::SeqCst)))
    }
}

#[tokio::test]
async fn custom_commands_work_like_built_in_ones() {
    let world = World::new(ScriptedProvider::answering(|request| {
        Reply::text(format!("model: {}", request.transcript.messages().len()))
    }));
    let bus = Arc::new(MemoryBus::new());
    let mut out = bus.outbound(&"telegram".into()).await.unwrap();
    let followed = Arc::new(AtomicBool::new(false));
    let more: [Arc<dyn Command>; 3] = [
        Arc::new(Faulty("panics")),
        Arc::new(Faulty("fails")),
        Arc::new(Follows(followed.clone())),
    ];
    let table = CommandTable::built_in().with(more).unwrap();
    let agent_loop = AgentLoop::with_commands(
        world.agent(),
        bus.clone(),
        bus.clone(),
        LoopSettings::default(),
        table,
        None,
    );
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
    for (number, (origin, text, expected)) in [
        (Origin::User, "/help follow", "/follow [WHAT], /f — Follow"),
        (
            Origin::User,
            "/panics",
            "That command failed. The log says why.",
        ),
        (Origin::User, "/fails", "That does not work now: "),
        (Origin::Cron { job: "j".into() }, "/f x", "model: 1"),
        (Origin::User, "/F  this thing ", "this thing in telegram:1"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = Some(number.to_string().into());
        let message = InboundMessage {
            id,
            origin,
            ..InboundMessage::text("telegram", "u", "1", text)
        };
        bus.publish_inbound(message).await.unwrap();
        let answer = loop {
            let delivery = out.next().await.unwrap();
            delivery.settle(SettleOutcome::Ack).await.unwrap();
            if matches!(
                delivery.message.kind,
                OutboundKind::Final | OutboundKind::Notice
            ) {
                break delivery.message;
            }
        };
        let has_failed = matches!(text, "/panics" | "/fails");
        assert_eq!(answer.kind == OutboundKind::Notice, has_failed, "{text}");
        let answer = answer.content;
        assert!(answer.starts_with(expected), "{text}: {answer}");
    }
    cancel.cancel();
    task.await.unwrap();
    assert!(followed.load(Ordering::SeqCst));
    assert_eq!(
        bus.list(Queue::Inbound, LedgerFilter::Open, 9)
            .await
            .unwrap(),
        [],
        "every command is settled"
    );
}

#[tokio::test]
async fn turn_end_is_published_after_the_turns_messages() {
    let world = World::new(ScriptedProvider::scripted(vec![
        Reply::call("message", &serde_json::json!({"content": "by the tool"})),
        Reply::text("kept to myself"),
        Reply::text("hello"),
    ]));
    let bus = Arc::new(MemoryBus::new());
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
    // The tool of this world writes to another chat.
    for (id, said) in [("a", vec![]), ("b", vec!["hello".to_owned()])] {
        let message = InboundMessage {
            id: Some(id.into()),
            ..InboundMessage::text("telegram", "u", "1", "hi")
        };
        bus.publish_inbound(message).await.unwrap();
        let mut heard = Vec::new();
        let turn = loop {
            let delivery = out.next().await.unwrap();
            delivery.settle(SettleOutcome::Ack).await.unwrap();
            match delivery.message.kind {
                OutboundKind::Final => heard.push(delivery.message.content.clone()),
                OutboundKind::TurnEnd { .. } => break delivery.message.key.turn.clone(),
                _ => {}
            }
        };
        assert_eq!(
            (heard, turn.to_string()),
            (said, format!("telegram/1/{id}"))
        );
    }
    cancel.cancel();
    task.await.unwrap();
}
