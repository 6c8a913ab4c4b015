//! Subagents: each result arrives once, in the session and thread that asked for it, whatever
//! happens meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_agent_core::{
    Agent, AgentLoop, AgentSettings, BusSpawner, DirectRequest, DirectSpawner, LoopSettings,
    SpawnTool, SubagentSettings, SubagentState, Subagents,
};
use nanobot_bus::{
    Accepted, Bus, BusError, Ledger, LedgerFilter, MemoryBus, Queue, SettleOutcome, Subscription,
};
use nanobot_context::Purpose;
use nanobot_provider::{CallPurpose, ChatRequest};
use nanobot_session::{
    Entry, InMemoryStore, ReadFrom, Seq, SessionError, SessionInfo, SessionStore, SessionView,
};
use nanobot_state::{SqliteBus, StateDb};
use nanobot_testkit::{Gate, Reply, ScriptedProvider};
use nanobot_tool::{Registry, Tool, ToolContext, Typed};
use nanobot_types::{
    ChannelName, ChatMessage, DeliveryContext, Effect, InboundMessage, OutboundKind,
    OutboundMessage, SessionKey, ToolResult, ToolSource, ToolSpec,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::{World, line};

/// A topic of a group, whose session key is not the chat's default one.
const SESSION: &str = "telegram:1:topic:7";
const NO_GRACE: LoopSettings = LoopSettings {
    lane_bound: 8,
    redelivery_delay: Duration::from_millis(1),
    grace: Duration::ZERO,
    max_attempts: 3,
};

/// An assistant that runs on a bus.
struct Running {
    bus: Arc<dyn Bus>,
    ledger: Arc<dyn Ledger>,
    out: Subscription<OutboundMessage>,
    subagents: Arc<Subagents>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(world: &World) -> Self {
        let bus = Arc::new(MemoryBus::new());
        Self::on(
            world,
            bus.clone(),
            bus,
            LoopSettings::default(),
            SubagentSettings::default(),
        )
        .await
    }

    async fn on(
        world: &World,
        bus: Arc<dyn Bus>,
        ledger: Arc<dyn Ledger>,
        settings: LoopSettings,
        bounds: SubagentSettings,
    ) -> Self {
        let out = bus.outbound(&"telegram".into()).await.unwrap();
        let subagents = subagents(world, bounds);
        let spawner = Arc::new(BusSpawner::new(bus.clone(), subagents.clone()));
        let agent = assistant(world, SpawnTool::new(spawner), subagents.clone());
        let agent_loop = AgentLoop::new(agent, bus.clone(), ledger.clone(), settings);
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
        Self {
            bus,
            ledger,
            out,
            subagents,
            cancel,
            task,
        }
    }

    async fn send(&self, id: &str, text: &str) {
        self.bus.publish_inbound(message(id, text)).await.unwrap();
    }

    /// Waits for the next complete message.
    async fn reply(&mut self) -> OutboundMessage {
        loop {
            let delivery = self.out.next().await.unwrap();
            delivery.settle(SettleOutcome::Ack).await.unwrap();
            if matches!(
                delivery.message.kind,
                OutboundKind::Final | OutboundKind::Notice
            ) {
                return delivery.message;
            }
        }
    }

    async fn text(&mut self) -> String {
        self.reply().await.content
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

fn message(id: &str, text: &str) -> InboundMessage {
    InboundMessage {
        id: Some(id.into()),
        session_key_override: Some(SESSION.into()),
        delivery: DeliveryContext {
            thread: Some("7".to_owned()),
            ..DeliveryContext::default()
        },
        ..InboundMessage::text("telegram", "u", "1", text)
    }
}

/// Returns the subagents of a world. Their only tools are one that looks and one that panics.
fn subagents(world: &World, bounds: SubagentSettings) -> Arc<Subagents> {
    let registry = Registry::new();
    registry
        .register(world.registry().get(&"look".into()).unwrap())
        .unwrap();
    registry.register(Arc::new(Panicking::new())).unwrap();
    Arc::new(Subagents::new(
        world.parts(registry, Purpose::Subagent),
        world.settings(),
        bounds,
    ))
}

fn assistant(world: &World, spawn: SpawnTool, subagents: Arc<Subagents>) -> Arc<Agent> {
    let registry = world.registry();
    registry.register(Arc::new(Typed::new(spawn))).unwrap();
    Arc::new(
        Agent::new(world.parts(registry, Purpose::Assistant), world.settings())
            .with_subagents(subagents),
    )
}

#[derive(Debug)]
struct Panicking(ToolSpec);

impl Panicking {
    fn new() -> Self {
        Self(ToolSpec {
            name: "panic".into(),
            description: "Panics.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
            effect: Effect::Pure,
            source: ToolSource::BuiltIn,
        })
    }
}

#[async_trait]
impl Tool for Panicking {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, _: Value, _: &ToolContext) -> ToolResult {
        panic!("this tool always does")
    }
}

fn is_subagent(request: &ChatRequest) -> bool {
    request.system.starts_with("# Subagent")
}

fn results(request: &ChatRequest) -> usize {
    request
        .transcript
        .messages()
        .iter()
        .filter(|message| matches!(***message, ChatMessage::Tool(_)))
        .count()
}

fn last(request: &ChatRequest) -> String {
    request
        .transcript
        .messages()
        .last()
        .map(|message| line(message))
        .unwrap()
}

/// Returns the assistant's answer after `spawn` was called with `arguments`: it starts a subagent,
/// says so, and passes the result on.
fn parent(request: &ChatRequest, arguments: &Value) -> Reply {
    let last = last(request);
    if last.starts_with("user: [Subagent") {
        return Reply::text(format!(
            "Passed on: {}",
            last.lines().next().unwrap().trim_start_matches("user: ")
        ));
    }
    match results(request) {
        0 => Reply::call("spawn", arguments),
        _ if last.starts_with("tool: ") => {
            Reply::text(last.trim_start_matches("tool: ").to_owned())
        }
        _ => Reply::text("nothing new"),
    }
}

/// Returns a model whose subagent looks once and then answers.
fn model(arguments: Value) -> ScriptedProvider {
    ScriptedProvider::answering(
        move |request| match (is_subagent(request), results(request)) {
            (true, 0) => Reply::call("look", &json!({})),
            (true, _) => Reply::text("It is 42."),
            (false, _) => parent(request, &arguments),
        },
    )
}

async fn subagent_session(world: &World) -> SessionKey {
    let listed = world.sessions.list().await.unwrap();
    let mut keys = listed
        .into_iter()
        .map(|info| info.key)
        .filter(nanobot_agent_core::is_subagent_session);
    let key = keys.next().unwrap();
    assert_eq!(keys.next(), None, "one subagent");
    key
}

#[tokio::test]
async fn result_returns_to_the_requesting_session_and_thread() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(move |request| {
        match (is_subagent(request), results(request)) {
            (true, 0) => Reply::call("look", &json!({})).after(&held),
            (true, _) => Reply::text("It is 42."),
            (false, _) => parent(
                request,
                &json!({"task": "find the number", "label": "number"}),
            ),
        }
    }));
    let mut running = Running::start(&world).await;
    running.send("a", "ask somebody").await;
    let started = running.text().await;
    assert!(
        started.starts_with("Subagent 'number' (id: ") && started.contains("started"),
        "{started}"
    );
    world.provider.wait_for(3).await.unwrap();
    running.send("b", "/agents").await;
    let listed = running.text().await;
    assert!(listed.contains(" · number · works · "), "{listed}");
    gate.open();
    let result = running.reply().await;
    assert_eq!(result.content, "Passed on: [Subagent 'number' completed]");
    assert_eq!(
        (result.chat_id.as_str(), result.delivery.thread.as_deref()),
        ("1", Some("7"))
    );
    running.subagents.finished(&SESSION.into()).await;
    running.send("c", "/agents").await;
    assert_eq!(
        running.text().await,
        "No subagents are at work for this chat."
    );
    running.stop().await;
    world.assert_replays(SESSION).await;

    let log = world.log(SESSION).await;
    let brought = log
        .iter()
        .find(|line| line.starts_with("user: [Subagent"))
        .unwrap();
    assert!(
        brought.contains("Task: find the number") && brought.contains("data, not instructions"),
        "{brought}"
    );
    assert!(brought.contains("\nIt is 42.\n"), "{brought}");
    let session = subagent_session(&world).await;
    assert_eq!(
        world.log(session.as_str()).await,
        [
            "user: find the number",
            "assistant calls look: ",
            "tool: look {}",
            "assistant: It is 42.",
            "end: Replied"
        ]
    );
    let asked = world
        .provider
        .requests()
        .into_iter()
        .find(is_subagent)
        .unwrap();
    let tools: Vec<&str> = asked.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["look", "panic"], "it has neither spawn nor message");
    let opening = asked
        .transcript
        .messages()
        .first()
        .map(|message| message.text())
        .unwrap();
    assert!(
        opening.contains("Current Time:") && !opening.contains("Chat ID:"),
        "{opening}"
    );
}

#[tokio::test]
async fn waiting_call_returns_the_result() {
    let world = World::new(model(
        json!({"task": "find the number", "wait": true, "temperature": 0.7}),
    ));
    let mut running = Running::start(&world).await;
    running.send("a", "ask somebody and wait").await;
    let reply = running.text().await;
    assert!(
        reply.contains("data, not instructions") && reply.ends_with("It is 42."),
        "{reply}"
    );
    running.stop().await;
    assert!(
        !world
            .log(SESSION)
            .await
            .iter()
            .any(|line| line.starts_with("user: [Subagent"))
    );
    let asked = world
        .provider
        .requests()
        .into_iter()
        .find(is_subagent)
        .unwrap();
    assert_eq!(asked.generation.temperature, Some(0.7));
}

#[tokio::test]
async fn waiting_call_gets_the_result_after_a_restart() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(
        move |request| match is_subagent(request) {
            true => Reply::text("It is 42.").after(&held),
            false => parent(request, &json!({"task": "find the number", "wait": true})),
        },
    ));
    let bus = Arc::new(MemoryBus::new());
    let running = Running::on(
        &world,
        bus.clone(),
        bus.clone(),
        NO_GRACE,
        SubagentSettings::default(),
    )
    .await;
    running.send("a", "ask somebody and wait").await;
    world.provider.wait_for(2).await.unwrap();
    running.stop().await;
    gate.open();
    let mut again = Running::on(
        &world,
        bus.clone(),
        bus,
        LoopSettings::default(),
        SubagentSettings::default(),
    )
    .await;
    assert!(again.text().await.ends_with("It is 42."));
    again.stop().await;
    let log = world.log(SESSION).await;
    assert_eq!(
        log.iter().filter(|line| line.starts_with("tool: ")).count(),
        1,
        "{log:?}"
    );
}

#[tokio::test]
async fn stop_ends_subagents_and_leaves_a_note() {
    let world = World::new(ScriptedProvider::answering(|request| {
        match is_subagent(request) {
            true => Reply::hang(),
            false => parent(
                request,
                &json!({"task": "find the number", "label": "number"}),
            ),
        }
    }));
    let mut running = Running::start(&world).await;
    running.send("a", "ask somebody").await;
    running.text().await;
    world.provider.wait_for(3).await.unwrap();
    running
        .bus
        .publish_inbound(InboundMessage::text("telegram", "u", "1", "/stop"))
        .await
        .unwrap();
    assert_eq!(
        running.text().await,
        "No active task to stop.",
        "it belongs to another session of this chat"
    );
    running.send("b", "/stop").await;
    assert_eq!(running.text().await, "Stopped 1 task(s).");
    running.subagents.finished(&SESSION.into()).await;
    running.stop().await;
    let note = "user: [Subagent 'number' was stopped by a person before it was done]\n\nTask: find the number";
    let log = world.log(SESSION).await;
    assert_eq!(
        log.iter().rev().take(2).collect::<Vec<_>>(),
        ["end: Stopped", note],
        "{log:?}"
    );
    let session = subagent_session(&world).await;
    assert_eq!(
        world.log(session.as_str()).await,
        ["user: find the number", "end: Stopped"]
    );
    assert_eq!(
        world.provider.requests().len(),
        3,
        "no model is asked about it"
    );
}

#[tokio::test]
async fn stops_one_subagent_by_id() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(ScriptedProvider::answering(move |request| {
        if is_subagent(request) {
            return Reply::text("done").after(&held);
        }
        match results(request) {
            0 => Reply::call("spawn", &json!({"task": "one"})),
            1 => Reply::call("spawn", &json!({"task": "two"})),
            _ => Reply::text(last(request).lines().next().unwrap().to_owned()),
        }
    }));
    let bounds = SubagentSettings {
        max_concurrent: 1,
        ..SubagentSettings::default()
    };
    let bus = Arc::new(MemoryBus::new());
    let mut running = Running::on(&world, bus.clone(), bus, LoopSettings::default(), bounds).await;
    running.send("a", "ask two").await;
    let text = running.text().await;
    assert!(
        text.contains("'two'") && text.contains("waits"),
        "beyond the bound it waits: {text}"
    );
    let infos = running.subagents.of_session(&SESSION.into());
    let states: Vec<_> = infos
        .iter()
        .map(|info| (info.label.as_str(), info.state))
        .collect();
    assert_eq!(states.last(), Some(&("two", SubagentState::Waiting)));
    running
        .send("b", &format!("/agents stop {}", infos.last().unwrap().id))
        .await;
    assert!(running.text().await.ends_with("is stopped."));
    // Its note is recorded before anything else happens.
    while running.subagents.of_session(&SESSION.into()).len() > 1 {
        tokio::task::yield_now().await;
    }
    gate.open();
    assert_eq!(running.text().await, "user: [Subagent 'one' completed]");
    running.subagents.finished(&SESSION.into()).await;
    running.stop().await;
    let asked = world
        .provider
        .requests()
        .into_iter()
        .filter(is_subagent)
        .count();
    assert_eq!(asked, 1, "the other subagent never began");
}

#[tokio::test]
async fn new_conversation_gets_no_results_of_earlier_subagents() {
    let world = World::new(ScriptedProvider::answering(|request| {
        match is_subagent(request) {
            true => Reply::hang(),
            false => parent(request, &json!({"task": "find the number"})),
        }
    }));
    let mut running = Running::start(&world).await;
    running.send("a", "ask somebody").await;
    running.text().await;
    world.provider.wait_for(3).await.unwrap();
    running.send("b", "/new").await;
    assert_eq!(running.text().await, "New session started.");
    running.subagents.finished(&SESSION.into()).await;
    running.stop().await;
    let log = world.log(SESSION).await;
    assert!(
        !log.iter().any(|line| line.starts_with("user: [Subagent")),
        "{log:?}"
    );
}

#[tokio::test]
async fn a_limit_is_reported() {
    let mut world = World::new(ScriptedProvider::answering(|request| {
        match is_subagent(request) {
            true => Reply::call("look", &json!({"n": results(request)})),
            false => parent(
                request,
                &json!({"task": "find the number", "label": "number"}),
            ),
        }
    }));
    world.options.max_iterations = 3;
    let mut running = Running::start(&world).await;
    running.send("a", "ask somebody").await;
    let text = loop {
        let text = running.text().await;
        if text.starts_with("Passed on") {
            break text;
        }
    };
    assert_eq!(
        text,
        "Passed on: [Subagent 'number' failed: it reached its limit before it was done]"
    );
    running.stop().await;
    let log = world.log(SESSION).await;
    assert!(
        log.iter()
            .any(|line| line.contains("agents.defaults.maxSubagentIterations")),
        "{log:?}"
    );
}

#[tokio::test]
async fn a_tool_that_panics_fails_alone() {
    let world = World::new(ScriptedProvider::answering(|request| {
        match (is_subagent(request), results(request)) {
            (true, 0) => Reply::call("panic", &json!({})),
            (true, _) => Reply::text(last(request)),
            (false, _) => parent(request, &json!({"task": "find the number", "wait": true})),
        }
    }));
    let mut running = Running::start(&world).await;
    running.send("a", "ask somebody").await;
    let text = running.text().await;
    assert!(
        text.contains("internal failure: this tool always does"),
        "{text}"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn task_that_panics_three_times_is_reported() {
    let world = World::new(ScriptedProvider::answering(|request| {
        match is_subagent(request) {
            true => panic!("the model is broken"),
            false => parent(
                request,
                &json!({"task": "find the number", "label": "number"}),
            ),
        }
    }));
    let mut running = Running::start(&world).await;
    running.send("a", "ask somebody").await;
    let text = loop {
        let text = running.text().await;
        if text.starts_with("Passed on") {
            break text;
        }
    };
    assert_eq!(text, "Passed on: [Subagent 'number' failed]");
    running.stop().await;
    let log = world.log(SESSION).await;
    assert!(
        log.iter().any(|line| line.contains("tried 3 times")),
        "{log:?}"
    );
}

#[tokio::test]
async fn direct_spawner_waits_for_its_subagents() {
    let world = World::new(model(json!({"task": "find the number", "label": "number"})));
    let subagents = subagents(&world, SubagentSettings::default());
    let spawner = Arc::new(DirectSpawner::new(subagents.clone()));
    let agent = assistant(&world, SpawnTool::new(spawner.clone()), subagents);
    let session = SessionKey::from("cli:direct");
    let first = agent
        .process_direct(DirectRequest::new("ask somebody"))
        .await
        .unwrap();
    assert!(first.visible.unwrap().starts_with("Subagent 'number'"));
    let result = spawner.next_result(&session).await.unwrap();
    let request = DirectRequest {
        origin: result.origin,
        ..DirectRequest::new(result.content)
    };
    let second = agent.process_direct(request).await.unwrap();
    assert_eq!(
        second.visible.as_deref(),
        Some("Passed on: [Subagent 'number' completed]")
    );
    assert_eq!(spawner.next_result(&session).await, None);

    let report = agent.usage_report(&session).await;
    let requests = CallPurpose::ALL.map(|purpose| report.session.of(purpose).requests);
    let sent = world.provider.requests();
    let of_subagent = sent.iter().filter(|request| is_subagent(request)).count();
    let [all, of_subagent] = [sent.len(), of_subagent].map(|count| u64::try_from(count).unwrap());
    assert_eq!(requests, [all - of_subagent, 0, of_subagent, 0]);
    assert!(of_subagent > 0);
}

#[tokio::test]
async fn long_result_is_stored_in_a_file() {
    let whole = "a line of the result\n".repeat(100);
    let said = whole.clone();
    let world = World::new(ScriptedProvider::answering(move |_| {
        Reply::text(said.trim_end().to_owned())
    }));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = AgentSettings {
        results_folder: Some(folder.path().to_owned()),
        ..world.settings()
    };
    settings.options.max_result_chars = 210;
    let parts = world.parts(Registry::new(), Purpose::Subagent);
    let spawner = Arc::new(DirectSpawner::new(Arc::new(Subagents::new(
        parts,
        settings,
        SubagentSettings::default(),
    ))));
    let tool = Typed::new(SpawnTool::new(spawner.clone()));
    let context = ToolContext::detached("cli:direct");
    assert!(
        tool.execute(json!({"task": "write a lot"}), &context)
            .await
            .success
    );
    let result = spawner
        .next_result(&"cli:direct".into())
        .await
        .unwrap()
        .content;
    assert_eq!(
        result.matches("a line of the result").count(),
        10,
        "{result}"
    );
    assert!(
        result.contains("read_file") && result.contains("Tell the person"),
        "{result}"
    );
    let files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(
        std::fs::read_to_string(&files[0]).unwrap(),
        whole.trim_end()
    );
    assert!(result.contains(&files[0].display().to_string()), "{result}");
}

#[tokio::test]
async fn chain_of_tasks_is_bounded() {
    let world = World::new(model(json!({})));
    let spawner = Arc::new(DirectSpawner::new(subagents(
        &world,
        SubagentSettings::default(),
    )));
    let tool = Typed::new(SpawnTool::new(spawner));
    let mut context = ToolContext::detached("cli:direct");
    for (chain, expected) in [(4, "Subagent 'go on'"), (5, "Error: 5 tasks in a row")] {
        context
            .metadata
            .insert("_subagent".to_owned(), json!({"chain": chain}));
        let text = tool
            .execute(json!({"task": "go on"}), &context)
            .await
            .output;
        assert!(text.starts_with(expected), "{text}");
    }
}

#[tokio::test]
async fn rejects_invalid_tasks() {
    let world = World::new(ScriptedProvider::answering(|_| Reply::hang()));
    let bounds = SubagentSettings {
        max_unfinished: 1,
        ..SubagentSettings::default()
    };
    let spawner = Arc::new(DirectSpawner::new(subagents(&world, bounds)));
    let tool = Typed::new(SpawnTool::new(spawner));
    let parent = ToolContext::detached("cli:direct");
    for (context, arguments, expected) in [
        (
            ToolContext::detached("subagent:0123"),
            json!({"task": "go on"}),
            "Error: a subagent cannot start another",
        ),
        (
            parent.clone(),
            json!({"task": " \n"}),
            "Error: the task is empty",
        ),
        (
            parent.clone(),
            json!({"task": "x", "temperature": 3}),
            "Error: temperature must be between",
        ),
        (parent.clone(), json!({"task": "x"}), "Subagent 'x'"),
        (
            ToolContext {
                position: 2,
                ..parent
            },
            json!({"task": "y"}),
            "Error: 1 subagents are at work or waiting",
        ),
    ] {
        let text = tool.execute(arguments, &context).await.output;
        assert!(text.starts_with(expected), "{text}");
    }
}

/// The power of a machine. After it goes off, nothing is stored.
#[derive(Debug, Default)]
struct Power {
    off: AtomicBool,
    went_off: CancellationToken,
}

impl Power {
    fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    fn go_off(&self) {
        self.off.store(true, Ordering::SeqCst);
        self.went_off.cancel();
    }
}

/// A store whose machine loses power at its k-th append, before or after it takes effect.
#[derive(Debug)]
struct PoweredStore {
    inner: Arc<InMemoryStore>,
    power: Arc<Power>,
    appends: AtomicUsize,
    dies_at: usize,
    after: bool,
}

fn dead(key: &SessionKey) -> SessionError {
    let source = std::io::Error::other("the machine is off");
    SessionError::Io {
        key: key.clone(),
        action: "append to",
        path: "nowhere".into(),
        source,
    }
}

#[async_trait]
impl SessionStore for PoweredStore {
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        if self.power.is_off() {
            return Err(dead(key));
        }
        if self.appends.fetch_add(1, Ordering::SeqCst) == self.dies_at {
            if self.after {
                self.inner.append(key, head, entries).await?;
            }
            self.power.go_off();
            return Err(dead(key));
        }
        self.inner.append(key, head, entries).await
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        self.inner.read(key, from).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        self.inner.list().await
    }
}

/// A bus that accepts nothing while the power is off.
#[derive(Debug)]
struct PoweredBus {
    inner: Arc<dyn Bus>,
    power: Arc<Power>,
}

#[async_trait]
impl Bus for PoweredBus {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<Accepted, BusError> {
        if self.power.is_off() {
            Err(BusError::Closed)
        } else {
            self.inner.publish_inbound(message).await
        }
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<Accepted, BusError> {
        if self.power.is_off() {
            Err(BusError::Closed)
        } else {
            self.inner.publish_outbound(message).await
        }
    }

    async fn inbound(&self) -> Result<Subscription<InboundMessage>, BusError> {
        self.inner.inbound().await
    }

    async fn outbound(
        &self,
        channel: &ChannelName,
    ) -> Result<Subscription<OutboundMessage>, BusError> {
        self.inner.outbound(channel).await
    }

    fn offer(&self, message: OutboundMessage) {
        self.inner.offer(message);
    }
}

/// Number of appends of a whole exchange: four of the parent turn, four of the subagent, two of the
/// turn that passes the result on.
const APPENDS: usize = 10;

async fn survives(bus: Arc<dyn Bus>, ledger: Arc<dyn Ledger>, dies_at: usize, after: bool) {
    let place = format!("append {dies_at}, after: {after}");
    let mut world = World::new(model(json!({"task": "find the number", "label": "number"})));
    let inner = Arc::new(InMemoryStore::new());
    let power = Arc::new(Power::default());
    let appends = AtomicUsize::new(0);
    world.sessions = Arc::new(PoweredStore {
        inner: inner.clone(),
        power: power.clone(),
        appends,
        dies_at,
        after,
    });
    let mortal = Arc::new(PoweredBus {
        inner: bus.clone(),
        power: power.clone(),
    });
    let mut first = Running::on(
        &world,
        mortal,
        ledger.clone(),
        NO_GRACE,
        SubagentSettings::default(),
    )
    .await;
    first.send("a", "ask somebody").await;
    let mut texts = Vec::new();
    loop {
        tokio::select! {
            () = power.went_off.cancelled() => break,
            text = first.text() => texts.push(text),
        }
        if texts.iter().any(|text| text.starts_with("Passed on")) {
            break;
        }
    }
    first.stop().await;

    world.sessions = inner;
    let mut second = Running::on(
        &world,
        bus,
        ledger,
        LoopSettings::default(),
        SubagentSettings::default(),
    )
    .await;
    while !texts.iter().any(|text| text.starts_with("Passed on")) {
        texts.push(second.text().await);
    }
    // The newest message waits after everything else in its session.
    second.send("b", "anything else?").await;
    loop {
        match second.text().await {
            text if text == "nothing new" => break,
            text => texts.push(text),
        }
    }
    second.subagents.finished(&SESSION.into()).await;
    let ledger = second.ledger.clone();
    second.stop().await;
    texts.retain(|text| !text.starts_with("I cannot record"));
    let passed_on = texts
        .iter()
        .filter(|text| text.starts_with("Passed on"))
        .count();
    assert_eq!(passed_on, 1, "{texts:?}; {place}");
    assert!(texts.len() <= 2, "{texts:?}; {place}");
    let open = ledger
        .list(Queue::Inbound, LedgerFilter::Open, 10)
        .await
        .unwrap();
    assert!(open.is_empty(), "{open:?}; {place}");
    let log = world.log(SESSION).await;
    let count = |start: &str| log.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(
        (
            count("user: [Subagent"),
            count("user: ask"),
            count("tool: ")
        ),
        (1, 1, 1),
        "{log:?}; {place}"
    );
    let session = subagent_session(&world).await;
    let own = world.log(session.as_str()).await;
    assert_eq!(
        own.iter()
            .filter(|line| line.starts_with("end:"))
            .collect::<Vec<_>>(),
        ["end: Replied"],
        "{place}"
    );
    assert_eq!(own.len(), 5, "{own:?}; {place}");
}

/// Tests a call that waits for its subagent: three appends, four of the subagent, and one of the
/// end.
async fn survives_waiting(dies_at: usize, after: bool) {
    let place = format!("append {dies_at}, after: {after}");
    let mut world = World::new(model(json!({"task": "find the number", "wait": true})));
    let inner = Arc::new(InMemoryStore::new());
    let power = Arc::new(Power::default());
    let appends = AtomicUsize::new(0);
    world.sessions = Arc::new(PoweredStore {
        inner: inner.clone(),
        power: power.clone(),
        appends,
        dies_at,
        after,
    });
    let bus = Arc::new(MemoryBus::new());
    let mortal = Arc::new(PoweredBus {
        inner: bus.clone(),
        power: power.clone(),
    });
    let first = Running::on(
        &world,
        mortal,
        bus.clone(),
        NO_GRACE,
        SubagentSettings::default(),
    )
    .await;
    first.send("a", "ask somebody and wait").await;
    power.went_off.cancelled().await;
    first.stop().await;

    world.sessions = inner;
    let mut second = Running::on(
        &world,
        bus.clone(),
        bus,
        LoopSettings::default(),
        SubagentSettings::default(),
    )
    .await;
    let text = second.text().await;
    assert!(text.ends_with("It is 42."), "{text}; {place}");
    second.subagents.finished(&SESSION.into()).await;
    let open = second
        .ledger
        .list(Queue::Inbound, LedgerFilter::Open, 10)
        .await
        .unwrap();
    assert!(
        open.iter()
            .all(|entry| entry.inbound.as_ref().unwrap().id == Some("a".into())),
        "{open:?}; {place}"
    );
    second.stop().await;
    let log = world.log(SESSION).await;
    let count = |start: &str| log.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(
        (count("user: "), count("tool: "), count("end: ")),
        (1, 1, 1),
        "{log:?}; {place}"
    );
}

#[tokio::test]
async fn waiting_call_gets_its_result_after_a_crash_at_any_step() {
    for after in [false, true] {
        for dies_at in 0..8 {
            survives_waiting(dies_at, after).await;
        }
    }
}

#[tokio::test]
async fn crash_at_any_step_delivers_the_result_once() {
    for after in [false, true] {
        for dies_at in 0..=APPENDS {
            let bus = Arc::new(MemoryBus::new());
            survives(bus.clone(), bus, dies_at, after).await;
            let home = tempfile::tempdir().unwrap();
            let database = StateDb::open(home.path().join("state.db")).await.unwrap();
            let bus = Arc::new(SqliteBus::open(database).await.unwrap());
            survives(bus.clone(), bus, dies_at, after).await;
        }
    }
}
