//! One test per line of `docs/contracts.md`; page and test change in one commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use cargo_metadata::{DependencyKind, MetadataCommand};
use nanobot_agent_core::{
    AgentLoop, EngineReport, LoopSettings, TurnEngine, TurnIo, TurnOptions, TurnProgress,
};
use nanobot_bus::{Bus as _, EventFeed, MemoryBus, SettleOutcome};
use nanobot_config::{Environment, Paths};
use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_memory::MarkdownStore;
use nanobot_provider::{
    CallAccount, CallContext, Candidate, ChatRequest, Generation, ProviderRouter, RetryPolicy,
    ToolChoice, TurnMemo,
};
use nanobot_session::{InMemoryStore, MessageEntry, SessionError, SessionStore as _, TurnOutcome};
use nanobot_testkit::{Reply, ScriptedCall, ScriptedProvider};
use nanobot_tool::{Registry, Tool, ToolContext, ToolError, Typed, TypedTool};
use nanobot_types::{
    ChatMessage, DeliveryContext, Effect, FinishReason, InboundMessage, LlmResponse, Map, Origin,
    SessionKey, Severity, ToolCall, ToolResult, ToolSource, ToolSpec, Transcript,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::{World, candidate};

// 1. Session key.

#[tokio::test]
async fn session_key_ignores_metadata() {
    let plain = InboundMessage::text("telegram", "ann", "1", "one");
    assert_eq!(plain.session_key().as_str(), "telegram:1");
    let misled = InboundMessage {
        metadata: Map::from_iter([("session_key".to_owned(), json!("telegram:99"))]),
        ..InboundMessage::text("telegram", "ann", "1", "two")
    };
    assert_eq!(misled.session_key().as_str(), "telegram:1");
    let overridden = InboundMessage {
        session_key_override: Some(SessionKey::from("unified:ann")),
        ..misled.clone()
    };
    assert_eq!(overridden.session_key().as_str(), "unified:ann");

    // The same through the loop, which is where the messages are stored.
    let world = World::new();
    let sessions = Arc::new(InMemoryStore::new());
    let provider = Arc::new(ScriptedProvider::answering(|_| Reply::text("ok")));
    let agent = Arc::new(world.agent_over([candidate(provider)], sessions.clone()));
    let bus = Arc::new(MemoryBus::new());
    let mut replies = bus.outbound(&"telegram".into()).await.unwrap();
    let cancel = CancellationToken::new();
    let agent_loop = AgentLoop::new(agent, bus.clone(), bus.clone(), LoopSettings::default());
    let stop = cancel.clone();
    let running = TaskTracker::new().spawn(async move { agent_loop.run(stop).await });
    for message in [plain, misled, overridden] {
        bus.publish_inbound(message).await.unwrap();
        loop {
            let reply = replies.next().await.unwrap();
            reply.settle(SettleOutcome::Ack).await.unwrap();
            if reply.message.kind.is_durable() {
                break;
            }
        }
    }
    cancel.cancel();
    running.await.unwrap().unwrap();
    let mut kept: Vec<(String, u64)> = sessions
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|info| (info.key.to_string(), info.messages))
        .collect();
    kept.sort();
    assert_eq!(
        kept,
        [("telegram:1".to_owned(), 4), ("unified:ann".to_owned(), 2)]
    );
}

// 2. Tool result.

/// A tool that returns a fixed result.
#[derive(Debug)]
struct FixedTool {
    spec: ToolSpec,
    result: ToolResult,
}

impl FixedTool {
    fn tool(name: &str, result: ToolResult) -> Arc<dyn Tool> {
        let spec = ToolSpec {
            name: name.into(),
            description: "Does what it is told.".to_owned(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
            effect: Effect::Pure,
            source: ToolSource::BuiltIn,
        };
        Arc::new(Self { spec, result })
    }
}

#[async_trait]
impl Tool for FixedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, _: Value, _: &ToolContext) -> ToolResult {
        self.result.clone()
    }
}

struct Refusing;

impl TypedTool for Refusing {
    type Args = Map;
    const NAME: &'static str = "refuse";
    const DESCRIPTION: &'static str = "Refuses.";
    const EFFECT: Effect = Effect::Pure;

    async fn call(&self, _: Map, _: &ToolContext) -> Result<String, ToolError> {
        Err(ToolError::new("no").with_remedy("ask later"))
    }
}

fn rich() -> ToolResult {
    ToolResult {
        success: false,
        output: "Error: busy".to_owned(),
        remedy: Some("wait".to_owned()),
        severity: Some(Severity::Warning),
        should_retry: true,
        requires_user_confirmation: true,
        untrusted: Some("web_fetch".to_owned()),
        pictures: Vec::new(),
        whole: None,
        change: None,
    }
}

#[tokio::test]
async fn tool_failures_are_tool_results() {
    assert_eq!(
        serde_json::to_value(rich()).unwrap(),
        json!({"success": false, "output": "Error: busy", "remedy": "wait", "severity": "warning",
               "should_retry": true, "requires_user_confirmation": true, "untrusted": "web_fetch"})
    );
    let registry = Registry::new();
    registry.register(FixedTool::tool("busy", rich())).unwrap();
    registry.register(Arc::new(Typed::new(Refusing))).unwrap();
    let context = ToolContext::detached("cli:direct");
    let hint = nanobot_tool::ERROR_HINT;
    let observed = registry
        .run(&ToolCall::new("1", "busy", "{}"), &context)
        .await;
    assert_eq!(
        observed,
        ToolResult {
            output: format!("Error: busy{hint}"),
            ..rich()
        },
        "what a tool says survives"
    );
    let error = |output: &str| ToolResult::error(format!("{output}{hint}"));
    let table = [
        (
            ToolCall::new("2", "refuse", "{}"),
            error("Error: no").with_remedy("ask later"),
        ),
        (
            ToolCall::malformed("3", "busy", "{\"path\": \"a", "the text is cut off"),
            error("Error: Invalid parameters for tool 'busy': the text is cut off"),
        ),
        (
            ToolCall::new("4", "busy", "{\"path\": {}}"),
            error("Error: Invalid parameters for tool 'busy': path should be string"),
        ),
        (
            ToolCall::new("5", "fly", "{}"),
            ToolResult::error("Error: Tool 'fly' not found. Available: busy, refuse"),
        ),
    ];
    for (call, expected) in table {
        assert_eq!(registry.run(&call, &context).await, expected, "{call:?}");
    }
}

// 3. Turn engine.

/// Collects the records of the engine.
#[derive(Default)]
struct Journal(Vec<String>);

#[async_trait]
impl nanobot_agent_core::Journal for Journal {
    async fn record(&mut self, messages: Vec<MessageEntry>) -> Result<(), SessionError> {
        self.0.extend(
            messages
                .iter()
                .map(|entry| format!("{}: {}", entry.message.role(), entry.message.text())),
        );
        Ok(())
    }
}

struct NoSteering;

#[async_trait]
impl nanobot_agent_core::Steering for NoSteering {
    async fn take(&mut self) -> Vec<MessageEntry> {
        Vec::new()
    }
}

/// One run of an engine: its records, its outcome, and its requests to the model.
struct Ran {
    recorded: Vec<String>,
    report: EngineReport,
    requests: Vec<ChatRequest>,
}

async fn run(options: &TurnOptions, replies: Vec<Reply>) -> Ran {
    run_with(options, replies, []).await
}

async fn run_with(
    options: &TurnOptions,
    replies: Vec<Reply>,
    tools: impl IntoIterator<Item = Arc<dyn Tool>>,
) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let provider = Arc::new(ScriptedProvider::scripted(replies));
    let registry = Registry::new();
    registry.register(FixedTool::tool("busy", rich())).unwrap();
    registry
        .register(FixedTool::tool("look", ToolResult::ok("x".repeat(400))))
        .unwrap();
    for tool in tools {
        registry.register(tool).unwrap();
    }
    let registry = Arc::new(registry);
    let router = Arc::new(ProviderRouter::new(
        [candidate(provider.clone())],
        RetryPolicy::default(),
    ));
    let engine = TurnEngine::new(router, Arc::clone(&registry), EventFeed::new());
    let memory = Arc::new(MarkdownStore::new(folder.path()));
    let context = ContextBuilder::new(ContextSettings::new(folder.path()), memory);
    let facts = nanobot_agent_core::TurnFacts {
        session: "cli:direct".into(),
        channel: "cli".into(),
        chat_id: "direct".into(),
        message_id: None,
        sender: None,
        chat: None,
        delivery: DeliveryContext::default(),
        metadata: Map::new(),
        origin: Origin::User,
    };
    let mut journal = Journal::default();
    let io = TurnIo {
        facts: &facts,
        system: "You are brief.".into(),
        model: "".into(),
        tools: registry.specs(),
        context: &context,
        journal: &mut journal,
        steering: &mut NoSteering,
        observer: Arc::new(|_: nanobot_agent_core::Signal| {}),
        requests: &mut (),
        cancel: CancellationToken::new(),
    };
    let messages = vec![Arc::new(ChatMessage::user("go"))];
    let report = engine
        .run(
            messages,
            TurnProgress::default(),
            "trace".into(),
            options,
            io,
        )
        .await
        .unwrap();
    Ran {
        recorded: journal.0,
        report,
        requests: provider.requests(),
    }
}

#[tokio::test]
async fn engine_runs_a_turn_to_the_visible_reply() {
    let Ran {
        recorded,
        report,
        requests,
    } = run(
        &TurnOptions::default(),
        vec![
            Reply::call("busy", &json!({})),
            Reply::text("<think>hm</think>All done."),
        ],
    )
    .await;
    let visible: Option<String> = report.reply;
    assert_eq!(visible.as_deref(), Some("All done."));
    assert_eq!(
        (report.outcome, report.iterations, requests.len()),
        (TurnOutcome::Replied, 2, 2)
    );
    let result = format!(
        "tool: Error: busy{}\n\nWhat to try: wait\n\n[The same call may succeed later.]",
        nanobot_tool::ERROR_HINT
    );
    assert_eq!(
        recorded,
        ["assistant: ".to_owned(), result],
        "each step before the next, the reply with the end"
    );
}

#[expect(
    clippy::too_many_lines,
    reason = "one table or story, read from top to bottom"
)]
#[tokio::test]
async fn every_engine_option_takes_effect() {
    let defaults = TurnOptions::default();
    let TurnOptions {
        parse_calls_from_text,
        include_severity,
        parallel_tool_exec,
        compact_after_tools,
        ..
    } = defaults;
    assert_eq!(
        (
            parse_calls_from_text,
            include_severity,
            parallel_tool_exec,
            compact_after_tools
        ),
        (false, false, false, true)
    );

    let written = || {
        vec![
            Reply::text("<tool_call>{\"name\": \"look\"}</tool_call>"),
            Reply::text("seen"),
        ]
    };
    let ignored = run(&defaults, written()).await;
    assert!(
        ignored.recorded.is_empty() && ignored.requests.len() == 1,
        "text that looks like a call stays text"
    );
    let parsed = run(
        &TurnOptions {
            parse_calls_from_text: true,
            ..defaults.clone()
        },
        written(),
    )
    .await;
    assert_eq!(
        (parsed.recorded.len(), parsed.report.reply.as_deref()),
        (2, Some("seen"))
    );

    let busy = || vec![Reply::call("busy", &json!({})), Reply::text("ok")];
    let severe = run(
        &TurnOptions {
            include_severity: true,
            ..defaults.clone()
        },
        busy(),
    )
    .await;
    assert!(
        severe.recorded[1].starts_with("tool: [warning] Error: busy"),
        "{:?}",
        severe.recorded
    );

    let two = || {
        let calls = ["look", "busy"].map(|name| ScriptedCall::new(name, &json!({})));
        vec![Reply::calls(calls), Reply::text("ok")]
    };
    let beside = run(
        &TurnOptions {
            parallel_tool_exec: true,
            ..defaults.clone()
        },
        two(),
    )
    .await;
    assert_eq!(
        beside.recorded,
        run(&defaults, two()).await.recorded,
        "results stand in the order of the calls"
    );

    let long = || {
        (0..8)
            .map(|_| Reply::call("look", &json!({"path": "a"})))
            .chain([Reply::text("ok")])
            .collect()
    };
    let small = TurnOptions {
        token_budget: 400,
        ..defaults
    };
    let size = |ran: &Ran| {
        ran.requests
            .last()
            .unwrap()
            .transcript
            .messages()
            .iter()
            .map(|m| m.text().len())
            .sum::<usize>()
    };
    let compacted = run(&small, long()).await;
    let whole = run(
        &TurnOptions {
            compact_after_tools: false,
            ..small
        },
        long(),
    )
    .await;
    assert!(
        size(&compacted) < size(&whole),
        "{} {}",
        size(&compacted),
        size(&whole)
    );
    assert_eq!(
        compacted.recorded, whole.recorded,
        "what is recorded stays whole"
    );
}

#[tokio::test]
async fn engine_ends_loops_and_endless_turns() {
    let same = (0..20)
        .map(|_| Reply::call("look", &json!({"path": "a"})))
        .collect();
    let circle = run(&TurnOptions::default(), same).await;
    assert_eq!(circle.report.outcome, TurnOutcome::Limited);
    assert!(circle.requests.len() < 10 && circle.report.reply.unwrap().contains("look"));

    let options = TurnOptions {
        max_iterations: 3,
        ..TurnOptions::default()
    };
    let different = (0..9)
        .map(|number| Reply::call("look", &json!({"path": number.to_string()})))
        .collect();
    let endless = run(&options, different).await;
    assert_eq!(
        (endless.report.outcome, endless.requests.len()),
        (TurnOutcome::Limited, 3)
    );
}

/// A tool that fails a number of times, and counts its runs.
#[derive(Debug)]
struct Flaky(ToolSpec, AtomicU32, u32);

impl Flaky {
    fn tool(effect: Effect, failures: u32) -> Arc<Self> {
        let spec = ToolSpec {
            name: "flaky".into(),
            description: "Fails at first.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
            effect,
            source: ToolSource::BuiltIn,
        };
        Arc::new(Self(spec, AtomicU32::new(0), failures))
    }
}

#[async_trait]
impl Tool for Flaky {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, _: Value, _: &ToolContext) -> ToolResult {
        if self.1.fetch_add(1, Ordering::SeqCst) < self.2 {
            rich()
        } else {
            ToolResult::ok("done")
        }
    }
}

#[tokio::test]
async fn tool_result_controls_retry_and_turn_end() {
    let answers = || vec![Reply::call("flaky", &json!({})), Reply::text("ok")];
    for (effect, failures, runs, observed) in [
        (Effect::Pure, 1, 2, "tool: done"),
        (Effect::Idempotent, 1, 2, "tool: done"),
        (Effect::Pure, 2, 2, "tool: Error: busy"),
        (Effect::Irreversible, 1, 1, "tool: Error: busy"),
    ] {
        let flaky = Flaky::tool(effect, failures);
        let ran = run_with(
            &TurnOptions::default(),
            answers(),
            [flaky.clone() as Arc<dyn Tool>],
        )
        .await;
        assert_eq!(flaky.1.load(Ordering::SeqCst), runs, "{effect:?}");
        assert!(
            ran.recorded[1].starts_with(observed),
            "{effect:?}: {:?}",
            ran.recorded
        );
    }

    let fatal = ToolResult {
        severity: Some(Severity::Fatal),
        ..ToolResult::error("Error: the disk is gone")
    };
    let ran = run_with(
        &TurnOptions::default(),
        answers(),
        [FixedTool::tool("flaky", fatal)],
    )
    .await;
    assert_eq!(
        (ran.report.outcome, ran.requests.len()),
        (TurnOutcome::Limited, 1),
        "no model is asked again"
    );
    assert!(
        ran.recorded[1].ends_with("the turn ends here.]"),
        "{:?}",
        ran.recorded
    );
    let observed = ran.report.reply.unwrap();
    assert!(
        observed.contains("flaky") && observed.contains("the disk is gone"),
        "{observed}"
    );
}

// 4. Provider router.

fn request() -> ChatRequest {
    ChatRequest {
        model: "".into(),
        system: "".into(),
        transcript: Transcript::repair(vec![Arc::new(ChatMessage::user("hi"))]).transcript,
        tools: Arc::new([]),
        tool_choice: ToolChoice::Auto,
        generation: Generation::default(),
        cache_key: None,
        estimated_tokens: None,
        memo: TurnMemo::default(),
    }
}

fn down(name: &str, reply: Reply) -> Candidate {
    candidate(Arc::new(
        ScriptedProvider::answering(move |_| reply.clone()).named(name),
    ))
}

#[tokio::test(start_paused = true)]
async fn the_router_always_answers() {
    let context = CallContext {
        trace: "t".into(),
        deltas: None,
        cancel: CancellationToken::new(),
        account: CallAccount::default(),
    };
    let faults = || {
        [
            down("broken", Reply::error(500, "out of order")),
            down("locked", Reply::error(401, "the key is wrong")),
            down("silent", Reply::hang()),
        ]
    };
    let router = ProviderRouter::new(faults(), RetryPolicy::default());
    let response: LlmResponse = router.chat_with_failover(request(), &context).await;
    assert_eq!(response.finish_reason, FinishReason::Error);
    let said = response.content.unwrap();
    for part in [
        "broken",
        "out of order",
        "locked",
        "the key is wrong",
        "silent",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }

    let rescued = ProviderRouter::new(
        faults()
            .into_iter()
            .chain([down("good", Reply::text("hi"))]),
        RetryPolicy::default(),
    );
    let response = rescued.chat_with_failover(request(), &context).await;
    assert_eq!(
        (response.content.as_deref(), response.provider),
        (Some("hi"), Some("good".into()))
    );

    let nobody = ProviderRouter::new([], RetryPolicy::default())
        .chat_with_failover(request(), &context)
        .await;
    assert_eq!(nobody.finish_reason, FinishReason::Error);
    assert!(!nobody.content.unwrap().is_empty());
}

// 5. Agent loop.

#[test]
fn agent_core_depends_on_contracts_only() {
    let manifest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/agent/agent-core/Cargo.toml"
    );
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .exec()
        .unwrap();
    let package = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == "nanobot-agent-core")
        .unwrap();
    let normal = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal);
    let mut ours: Vec<&str> = normal
        .filter_map(|dependency| dependency.name.strip_prefix("nanobot-"))
        .collect();
    ours.sort_unstable();
    let expected = [
        "approvals",
        "bus",
        "context",
        "disk",
        "escape",
        "guard",
        "memory",
        "provider",
        "redact",
        "session",
        "skill",
        "tool",
        "types",
    ];
    assert_eq!(ours, expected);
}

/// The loop's own files mention neither the router nor tools, which belong to the agent's turn.
#[test]
fn agent_loop_mentions_neither_router_nor_tools() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/agent/agent-core/src/agent_loop");
    let mut paths = vec![folder];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for word in [
            "nanobot_provider",
            "nanobot_tool",
            "TurnEngine",
            "chat_with_failover",
        ] {
            assert!(!source.contains(word), "{} mentions {word}", path.display());
        }
    }
}

// 6. Slash commands.

#[test]
fn slash_commands_are_complete() {
    let infos = nanobot_runtime::command_infos();
    let mut names: Vec<&str> = infos.iter().flat_map(|info| info.names()).collect();
    names.sort_unstable();
    let expected = [
        "agents",
        "branch",
        "budget",
        "clear",
        "compact",
        "context",
        "help",
        "memory",
        "model",
        "new",
        "pairing",
        "pending",
        "redo",
        "reset",
        "restart",
        "retry",
        "skill",
        "skills",
        "start",
        "status",
        "stop",
        "summarise",
        "summarize",
        "undo",
        "usage",
    ];
    assert_eq!(names, expected);
}

// 7. The home.

#[test]
fn paths_of_a_home() {
    let environment = |variables: &[(&str, &str)]| {
        let variables: Vec<(String, String)> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Environment::new(variables, Some("/home/ann".into()), "/tmp".into())
    };
    let below = |home: &str, paths: &Paths| {
        let places = [
            (&paths.config_file, "config.json"),
            (&paths.default_workspace, "workspace"),
            (&paths.logs, "logs"),
            (&paths.media, "media"),
            (&paths.state_db, "state.db"),
            (&paths.history, "history/cli_history"),
            (&paths.cron_store, "cron/jobs.json"),
            (&paths.legacy_sessions, "sessions"),
        ];
        for (path, name) in places {
            assert_eq!(*path, PathBuf::from(home).join(name));
        }
    };
    below(
        "/home/ann/.nanobot",
        &Paths::resolve(&environment(&[]), None).unwrap(),
    );
    let moved = Paths::resolve(&environment(&[("NANOBOT_HOME", "/srv/bot")]), None).unwrap();
    below("/srv/bot", &moved);
    assert_eq!(
        moved.expand("~/.nanobot/workspace"),
        PathBuf::from("/srv/bot/workspace")
    );
    let second =
        Paths::resolve(&environment(&[]), Some(Path::new("/srv/two/config.json"))).unwrap();
    assert_eq!(
        (second.logs.as_path(), second.home.as_path()),
        (Path::new("/srv/two/logs"), Path::new("/home/ann/.nanobot"))
    );
}
