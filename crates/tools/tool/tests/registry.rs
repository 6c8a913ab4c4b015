//! The promises of the registry: a stable order, and a result for every call.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_tool::{
    CallReview, ERROR_HINT, Registry, RegistryError, Tool, ToolContext, ToolError, ToolFeed,
    ToolRun, ToolWatch, Typed, TypedTool,
};
use nanobot_types::{Effect, ToolCall, ToolResult, ToolSource, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Behaviour of a [`Probe`] when it runs.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Echo,
    Fail(&'static str),
    SayError,
    Panic,
    PanicInReview,
    Hang,
    EndWhenCancelled,
}

#[derive(Debug)]
struct Probe {
    spec: ToolSpec,
    behaviour: Behaviour,
    runs: AtomicU32,
}

impl Probe {
    fn new(name: &str, source: ToolSource, behaviour: Behaviour) -> Arc<Self> {
        let parameters = json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
            "required": ["path"],
        });
        let spec = ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters,
            effect: Effect::Irreversible,
            source,
        };
        Arc::new(Self {
            spec,
            behaviour,
            runs: AtomicU32::new(0),
        })
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult {
        self.runs.fetch_add(1, Ordering::SeqCst);
        match self.behaviour {
            Behaviour::Echo | Behaviour::PanicInReview => ToolResult::ok(arguments.to_string()),
            Behaviour::Fail(output) => ToolResult::error(output),
            Behaviour::SayError => ToolResult::ok("Error codes are listed below"),
            Behaviour::Panic => panic!("out of {}", "cheese"),
            Behaviour::Hang => std::future::pending().await,
            Behaviour::EndWhenCancelled => {
                context.cancel.cancelled().await;
                ToolResult::ok("half done")
            }
        }
    }

    async fn review(&self, _: &Value, _: &ToolContext) -> CallReview {
        match self.behaviour {
            Behaviour::PanicInReview => panic!("out of {}", "cheese"),
            _ => CallReview::of_effect(self.spec.effect),
        }
    }
}

fn registry_with(behaviour: Behaviour) -> (Registry, Arc<Probe>) {
    let registry = Registry::new();
    let probe = Probe::new("probe", ToolSource::BuiltIn, behaviour);
    registry.register(probe.clone()).unwrap();
    (registry, probe)
}

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall::new("1", name, arguments)
}

fn names(registry: &Registry) -> Vec<String> {
    registry
        .specs()
        .iter()
        .map(|spec| spec.name.to_string())
        .collect()
}

async fn run(registry: &Registry, call: &ToolCall) -> ToolResult {
    registry
        .run(call, &ToolContext::detached("cli:direct"))
        .await
}

#[test]
fn sorts_built_ins_before_external_tools_in_arrival_order() {
    let registry = Registry::new();
    let arrivals = [
        ("zoom", ToolSource::External),
        ("write_file", ToolSource::BuiltIn),
        ("alpha", ToolSource::External),
        ("exec", ToolSource::BuiltIn),
    ];
    for (name, source) in arrivals {
        registry
            .register(Probe::new(name, source, Behaviour::Echo))
            .unwrap();
    }
    assert_eq!(names(&registry), ["exec", "write_file", "zoom", "alpha"]);
    assert!(Arc::ptr_eq(&registry.specs(), &registry.specs()));

    let taken = registry.register(Probe::new("exec", ToolSource::External, Behaviour::Panic));
    assert!(matches!(taken, Err(RegistryError::NameTaken { name }) if name.as_str() == "exec"));

    assert!(registry.remove(&"zoom".into()).is_some());
    assert!(registry.remove(&"zoom".into()).is_none());
    assert_eq!(names(&registry), ["exec", "write_file", "alpha"]);
    assert_eq!(
        registry.effect(&call("exec", "{}")),
        Some(Effect::Irreversible)
    );
    assert_eq!(registry.effect(&call("zoom", "{}")), None);
}

#[tokio::test]
async fn unknown_tool_error_lists_available_tools() {
    let (registry, _) = registry_with(Behaviour::Echo);
    registry
        .register(Probe::new("exec", ToolSource::BuiltIn, Behaviour::Echo))
        .unwrap();
    for name in ["no_such_tool", ""] {
        let result = run(&registry, &call(name, "{}")).await;
        let expected = format!("Error: Tool '{name}' not found. Available: exec, probe");
        assert_eq!(result, ToolResult::error(expected));
    }
}

#[tokio::test]
async fn arguments_are_cast_before_the_tool_sees_them() {
    let table = [
        (r#"{"path":"a","limit":"5"}"#, r#"{"limit":5,"path":"a"}"#),
        (r#"{"path":5,"other":"5"}"#, r#"{"other":"5","path":"5"}"#),
        (r#""{\"path\":\"a\"}""#, r#"{"path":"a"}"#),
    ];
    let (registry, _) = registry_with(Behaviour::Echo);
    for (arguments, seen) in table {
        assert_eq!(
            run(&registry, &call("probe", arguments)).await,
            ToolResult::ok(seen),
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn malformed_or_invalid_calls_never_run() {
    let (registry, probe) = registry_with(Behaviour::Echo);
    let table = [
        (call("probe", "{}"), "missing required path"),
        (
            call("probe", r#"{"path":{"a":5}}"#),
            "path should be string",
        ),
        (
            call("probe", r#"{"path":"a","limit":0}"#),
            "limit must be >= 1",
        ),
        (
            call("probe", r#"{"limit":"x"}"#),
            "missing required path; limit should be integer",
        ),
        (
            call("probe", r#""[\"a\"]""#),
            r#"arguments must be a JSON object, got "[\"a\"]""#,
        ),
        (
            call("probe", r#"["a"]"#),
            r#"arguments must be a JSON object, got ["a"]"#,
        ),
        (
            ToolCall::malformed("1", "probe", "{\"path\":\"a", "cut off by the token limit"),
            "cut off by the token limit",
        ),
    ];
    for (call, problem) in table {
        let expected = format!("Error: Invalid parameters for tool 'probe': {problem}{ERROR_HINT}");
        assert_eq!(run(&registry, &call).await, ToolResult::error(expected));
    }
    let cut = run(&registry, &call("probe", r#"{"path":"a"}{"path":"b"}"#)).await;
    assert!(
        cut.output
            .starts_with("Error: Invalid parameters for tool 'probe': arguments are not JSON"),
        "{cut:?}"
    );
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn hint_is_appended_to_errors_only() {
    let hinted = format!("Error: no such file{ERROR_HINT}");
    let table = [
        (
            Behaviour::Fail("Error: no such file"),
            ToolResult::error(hinted),
        ),
        (
            Behaviour::Fail("Warning: two matches"),
            ToolResult::error("Warning: two matches"),
        ),
        (
            Behaviour::Fail("(MCP tool timed out)"),
            ToolResult::error("(MCP tool timed out)"),
        ),
        (
            Behaviour::Fail(r#"{"error":"x"}"#),
            ToolResult::error(r#"{"error":"x"}"#),
        ),
        (
            Behaviour::SayError,
            ToolResult::ok("Error codes are listed below"),
        ),
    ];
    for (behaviour, expected) in table {
        let (registry, _) = registry_with(behaviour);
        assert_eq!(
            run(&registry, &call("probe", r#"{"path":"a"}"#)).await,
            expected
        );
    }
}

#[tokio::test]
async fn panic_becomes_an_error_result() {
    let (registry, _) = registry_with(Behaviour::Panic);
    let expected = format!("Error executing probe: internal failure: out of cheese{ERROR_HINT}");
    for _ in 0..2 {
        assert_eq!(
            run(&registry, &call("probe", r#"{"path":"a"}"#)).await,
            ToolResult::error(expected.clone())
        );
    }
}

#[tokio::test]
async fn panic_in_a_review_becomes_an_error_result() {
    let (registry, probe) = registry_with(Behaviour::PanicInReview);
    let call = call("probe", r#"{"path":"a"}"#);
    let review = registry
        .review(&call, &ToolContext::detached("cli:direct"))
        .await;
    let expected = "Error executing probe: internal failure: out of cheese";
    assert_eq!(review, Err(ToolResult::error(expected)));
    assert_eq!(probe.runs(), 0);
    let (registry, _) = registry_with(Behaviour::Echo);
    let review = registry
        .review(&call, &ToolContext::detached("cli:direct"))
        .await;
    assert_eq!(
        review,
        Ok(Some(CallReview::of_effect(Effect::Irreversible)))
    );
    let unknown = ToolCall::new("1", "none", "{}");
    let review = registry
        .review(&unknown, &ToolContext::detached("cli:direct"))
        .await;
    assert_eq!(review, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn cancelled_tool_gets_time_to_end_and_is_then_dropped() {
    let table = [
        (Behaviour::Hang, ToolResult::error("Error: cancelled")),
        (Behaviour::EndWhenCancelled, ToolResult::ok("half done")),
    ];
    for (behaviour, expected) in table {
        let (registry, probe) = registry_with(behaviour);
        let context = ToolContext::detached("cli:direct");
        let call = call("probe", r#"{"path":"a"}"#);
        let stop = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            context.cancel.cancel();
        };
        let (result, ()) = tokio::join!(registry.run(&call, &context), stop);
        assert_eq!(result, expected);
        // A stopped turn starts nothing.
        assert_eq!(
            registry.run(&call, &context).await,
            ToolResult::error("Error: cancelled")
        );
        assert_eq!(probe.runs(), 1);
    }
}

#[tokio::test]
async fn alias_runs_the_tool_but_is_not_listed() {
    let registry = Registry::new();
    registry
        .register(Probe::new("message", ToolSource::BuiltIn, Behaviour::Echo))
        .unwrap();
    assert_eq!(
        run(&registry, &call("message_user", r#"{"path":"a"}"#)).await,
        ToolResult::ok(r#"{"path":"a"}"#)
    );
    assert_eq!(
        registry.effect(&call("message_user", "{}")),
        Some(Effect::Irreversible)
    );
    assert_eq!(names(&registry), ["message"]);
}

/// Arguments, effect, success and session of a run.
type Note = (String, Option<Effect>, bool, String);

/// Records every run.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<Note>>);

#[async_trait]
impl ToolWatch for Notes {
    async fn ran(&self, run: ToolRun<'_>) {
        let note = (
            run.call.arguments.clone(),
            run.effect,
            run.result.success,
            run.context.session.to_string(),
        );
        self.0.lock().unwrap().push(note);
    }
}

#[tokio::test]
async fn watch_sees_every_call_even_rejected_ones() {
    let notes = Arc::new(Notes::default());
    let registry = Registry::watched(Arc::<Notes>::clone(&notes));
    registry
        .register(Probe::new("probe", ToolSource::BuiltIn, Behaviour::Echo))
        .unwrap();
    for (name, arguments) in [
        ("probe", r#"{"path":"a"}"#),
        ("probe", r#"{"path":{}}"#),
        ("fly", "{}"),
    ] {
        run(&registry, &call(name, arguments)).await;
    }
    let note = |arguments: &str, effect, success| {
        (
            arguments.to_owned(),
            effect,
            success,
            "cli:direct".to_owned(),
        )
    };
    assert_eq!(
        *notes.0.lock().unwrap(),
        [
            note(r#"{"path":"a"}"#, Some(Effect::Irreversible), true),
            note(r#"{"path":{}}"#, Some(Effect::Irreversible), false),
            note("{}", None, false),
        ]
    );
}

struct Repeat;

#[derive(Deserialize, JsonSchema)]
struct RepeatArguments {
    /// Text to say.
    text: String,
    /// Number of repetitions.
    #[schemars(range(min = 1, max = 3))]
    times: Option<u8>,
}

impl TypedTool for Repeat {
    type Args = RepeatArguments;
    const NAME: &'static str = "repeat";
    const DESCRIPTION: &'static str = "Says something again.";
    const EFFECT: Effect = Effect::Pure;

    async fn call(
        &self,
        arguments: RepeatArguments,
        _context: &ToolContext,
    ) -> Result<String, ToolError> {
        if arguments.text.is_empty() {
            return Err(ToolError::new("nothing to say").with_remedy("pass some text"));
        }
        Ok(arguments.text.repeat(arguments.times.unwrap_or(1).into()))
    }
}

#[test]
fn derived_schema_is_minimal() {
    let spec = Typed::new(Repeat).spec().clone();
    let expected = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "Text to say."},
            "times": {"type": "integer", "description": "Number of repetitions.", "minimum": 1, "maximum": 3},
        },
        "required": ["text"],
    });
    assert_eq!(spec.parameters, expected);
}

#[tokio::test]
async fn a_typed_tool_is_checked_by_its_derived_schema() {
    let registry = Registry::new();
    registry.register(Arc::new(Typed::new(Repeat))).unwrap();
    let invalid = |problem: &str| {
        ToolResult::error(format!(
            "Error: Invalid parameters for tool 'repeat': {problem}{ERROR_HINT}"
        ))
    };
    let table = [
        (r#"{"text":"a","times":"2"}"#, ToolResult::ok("aa")),
        (r#"{"text":"a","times":null}"#, ToolResult::ok("a")),
        (r#"{"text":"a","times":4}"#, invalid("times must be <= 3")),
        (
            r#"{"times":"x"}"#,
            invalid("missing required text; times should be integer"),
        ),
        (
            r#"{"text":""}"#,
            ToolResult::error(format!("Error: nothing to say{ERROR_HINT}"))
                .with_remedy("pass some text"),
        ),
    ];
    for (arguments, expected) in table {
        assert_eq!(
            run(&registry, &call("repeat", arguments)).await,
            expected,
            "{arguments}"
        );
    }
}

/// A feed whose tools a test replaces.
#[derive(Debug, Default)]
struct Feed(Mutex<Vec<Arc<dyn Tool>>>);

impl Feed {
    fn set(&self, tools: &[&Arc<Probe>]) {
        let tools = tools.iter().map(|tool| Arc::clone(*tool) as Arc<dyn Tool>);
        *self.0.lock().unwrap() = tools.collect();
    }
}

#[async_trait]
impl ToolFeed for Feed {
    async fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn tools_of_a_feed_come_and_go() {
    let probe = |name: &str| Probe::new(name, ToolSource::External, Behaviour::Echo);
    let (feed, [a, b]) = (Arc::new(Feed::default()), [probe("a"), probe("b")]);
    let registry = Registry::new().fed_by(feed.clone());
    let built_in = Probe::new("exec", ToolSource::BuiltIn, Behaviour::Echo);
    registry.register(built_in).unwrap();
    registry.register(probe("server")).unwrap();
    feed.set(&[&b, &a]);
    assert_eq!(names(&registry), ["exec", "server"]);
    registry.refresh().await;
    assert_eq!(names(&registry), ["exec", "server", "b", "a"]);

    let before = registry.specs();
    registry.refresh().await;
    assert!(Arc::ptr_eq(&before, &registry.specs()));

    // It takes no name of others, and takes none of them away.
    feed.set(&[&a, &probe("exec"), &probe("server")]);
    registry.refresh().await;
    assert_eq!(names(&registry), ["exec", "server", "a"]);
    feed.set(&[]);
    registry.refresh().await;
    assert_eq!(names(&registry), ["exec", "server"]);
}

#[tokio::test]
async fn a_call_sees_what_the_feed_has_now() {
    let probe = || Probe::new("late", ToolSource::External, Behaviour::Echo);
    let (feed, [first, second]) = (Arc::new(Feed::default()), [probe(), probe()]);
    let registry = Registry::new().fed_by(feed.clone());
    let late = call("late", r#"{"path": "x"}"#);
    feed.set(&[&first]);
    assert!(run(&registry, &late).await.success);
    feed.set(&[&second]);
    assert!(run(&registry, &late).await.success);
    assert_eq!((first.runs(), second.runs()), (1, 1));
    feed.set(&[]);
    assert!(!run(&registry, &late).await.success);
}
