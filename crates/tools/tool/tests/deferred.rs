//! The promises about deferred tools: the list of a request does not change by finding them, and a
//! wrapped call is treated as the call of the tool that runs.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of calls are literals"
)]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nanobot_tool::{
    ERROR_HINT, Registry, RegistryError, Tool, ToolContext, ToolRun, ToolWatch, resolve_call,
};
use nanobot_types::{Effect, ToolCall, ToolResult, ToolSource, ToolSpec};
use serde_json::{Value, json};

#[derive(Debug)]
struct Echo(ToolSpec);

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, arguments: Value, _context: &ToolContext) -> ToolResult {
        ToolResult::ok(format!("{} {arguments}", self.0.name))
    }
}

fn tool(name: &str, source: ToolSource, effect: Effect, description: &str) -> Arc<dyn Tool> {
    Arc::new(Echo(ToolSpec {
        name: name.into(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        }),
        effect,
        source,
    }))
}

fn external(name: &str, description: &str) -> Arc<dyn Tool> {
    tool(name, ToolSource::External, Effect::Pure, description)
}

fn names(registry: &Registry) -> Vec<String> {
    let specs = registry.specs();
    specs.iter().map(|spec| spec.name.to_string()).collect()
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall::new("1", name, arguments.to_string())
}

async fn run(registry: &Registry, call: &ToolCall) -> ToolResult {
    let context = ToolContext::detached("cli:direct");
    registry.run(call, &context).await
}

/// A registry with one listed tool of each source and two deferred tools.
fn registry() -> Registry {
    let registry = Registry::new();
    fill(&registry);
    registry
}

fn fill(registry: &Registry) {
    let exec = tool("exec", ToolSource::BuiltIn, Effect::Irreversible, "Run.");
    let zip = tool("zip", ToolSource::BuiltIn, Effect::Irreversible, "Pack.");
    for listed in [zip, external("alpha", "Listed."), exec] {
        registry.register(listed).unwrap();
    }
    for deferred in [
        external("mcp_w_forecast", "Weather of the next days."),
        external("mcp_w_history", "Weather of past days, no forecast."),
    ] {
        registry.register_deferred(deferred).unwrap();
    }
}

#[tokio::test]
async fn list_changes_only_with_the_first_and_the_last_deferred_tool() {
    let registry = registry();
    let expected = ["exec", "tool_call", "tool_search", "zip", "alpha"];
    assert_eq!(names(&registry), expected);
    let before = registry.specs();
    let late = external("late", "Came late.");
    registry.register_deferred(late).unwrap();
    let found = run(&registry, &call("tool_search", json!({"query": "late"}))).await;
    assert!(
        found.output.starts_with("## late\nCame late.\n{"),
        "{found:?}"
    );
    assert!(Arc::ptr_eq(&before, &registry.specs()));
    for name in ["late", "mcp_w_forecast", "mcp_w_history"] {
        assert!(registry.remove(&name.into()).is_some());
    }
    assert_eq!(names(&registry), ["exec", "zip", "alpha"]);
}

#[tokio::test]
async fn a_core_list_has_the_tools_for_files_shell_and_web_and_a_search_finds_the_others() {
    let registry = registry();
    let core = registry.core_specs();
    let names: Vec<_> = core.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["exec", "tool_call", "tool_search"]);
    assert!(Arc::ptr_eq(&core, &registry.core_specs()));
    for (query, expected) in [
        ("pack", "## zip\nPack.\n{"),
        ("listed", "## alpha\nListed.\n{"),
        ("forecast", "## mcp_w_forecast\n"),
    ] {
        let search = call("tool_search", json!({"query": query}));
        let found = run(&registry, &search).await.output;
        assert!(found.starts_with(expected), "{query}: {found}");
    }
    let arguments = json!({"name": "zip", "arguments": {"city": "Ulm"}});
    let packed = run(&registry, &call("tool_call", arguments)).await;
    assert_eq!(packed, ToolResult::ok("zip {\"city\":\"Ulm\"}"));

    let only_core = Registry::new();
    let exec = tool("exec", ToolSource::BuiltIn, Effect::Irreversible, "Run.");
    only_core.register(exec).unwrap();
    assert_eq!(*only_core.core_specs(), *only_core.specs());
}

#[test]
fn names_are_unique_across_listed_deferred_and_own_tools() {
    let registry = registry();
    for name in ["exec", "mcp_w_forecast", "tool_search", "tool_call"] {
        for result in [
            registry.register(external(name, "")),
            registry.register_deferred(external(name, "")),
        ] {
            assert!(
                matches!(&result, Err(RegistryError::NameTaken { name: taken }) if taken.as_str() == name),
                "{name}: {result:?}"
            );
        }
    }
}

#[tokio::test]
async fn search_orders_by_match_and_is_bounded() {
    let registry = registry();
    let search = async |query: &str| {
        let search = call("tool_search", json!({"query": query}));
        run(&registry, &search).await.output
    };
    let headings = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("## "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let both = ["## mcp_w_forecast", "## mcp_w_history"];
    assert_eq!(headings(&search("Forecast, please!").await), both);
    assert_eq!(headings(&search("PAST").await), ["## mcp_w_history"]);
    for query in ["", "nothing", "天気", "\u{202e}"] {
        let expected = "No tool matches. There are: mcp_w_forecast, mcp_w_history, zip, alpha";
        assert_eq!(search(query).await, expected, "{query:?}");
    }
    for number in 0..200 {
        let description = "weather ".repeat(500);
        let many = external(&format!("mcp_many_{number}"), &description);
        registry.register_deferred(many).unwrap();
    }
    let found = search("many").await;
    assert!(found.len() < 17_000, "{}", found.len());
    assert!(
        found.ends_with("more match: search with other words."),
        "{found}"
    );
    assert!(search("nothing").await.ends_with(", and 164 more"));
}

#[tokio::test]
async fn wrapped_and_direct_calls_run_the_same_tool() {
    let registry = registry();
    let done = |text: &str| ToolResult::ok(text);
    let wrap = |name: &str, arguments: Value| {
        call("tool_call", json!({"name": name, "arguments": arguments}))
    };
    let paris = "mcp_w_forecast {\"city\":\"Paris\",\"days\":2}";
    let invalid = |tool: &str, problem: &str| {
        let text = format!("Error: Invalid parameters for tool '{tool}': {problem}{ERROR_HINT}");
        ToolResult::error(text)
    };
    let given = json!({"city": "Paris", "days": "2"});
    for (call, expected) in [
        (call("mcp_w_forecast", given.clone()), done(paris)),
        (wrap("mcp_w_forecast", given.clone()), done(paris)),
        (
            wrap("mcp_w_forecast", given.to_string().into()),
            done(paris),
        ),
        (
            wrap("exec", json!({"city": "a"})),
            done("exec {\"city\":\"a\"}"),
        ),
        (
            wrap("mcp_w_forecast", Value::Null),
            invalid("mcp_w_forecast", "missing required city"),
        ),
        (
            wrap("mcp_w_forecast", json!([1])),
            invalid("mcp_w_forecast", "arguments must be a JSON object, got [1]"),
        ),
        (
            wrap("tool_call", given),
            invalid("tool_call", "name must be the name of another tool"),
        ),
        (
            call("tool_call", json!({"arguments": {}})),
            invalid("tool_call", "missing required name"),
        ),
        (
            ToolCall::malformed("1", "tool_call", "{\"na", "cut off"),
            invalid("tool_call", "cut off"),
        ),
        (
            wrap("nope", json!({})),
            ToolResult::error(
                "Error: Tool 'nope' not found. Available: exec, tool_call, tool_search, zip, alpha",
            ),
        ),
    ] {
        assert_eq!(run(&registry, &call).await, expected, "{call:?}");
    }
}

#[test]
fn effect_is_that_of_the_inner_call() {
    let registry = registry();
    for (call, effect) in [
        (
            call("tool_call", json!({"name": "exec"})),
            Some(Effect::Irreversible),
        ),
        (
            call("tool_call", json!({"name": "mcp_w_history"})),
            Some(Effect::Pure),
        ),
        (call("tool_call", json!({"name": "nope"})), None),
        (call("tool_call", json!({})), Some(Effect::Irreversible)),
        (
            call("tool_search", json!({"query": "x"})),
            Some(Effect::Pure),
        ),
    ] {
        assert_eq!(registry.effect(&call), effect, "{call:?}");
    }
}

#[test]
fn resolving_keeps_the_id_and_is_idempotent() {
    let wrapped = call(
        "tool_call",
        json!({"name": "exec", "arguments": {"a": [1, "x"]}}),
    );
    let inner = resolve_call(&wrapped).into_owned();
    assert_eq!(inner, call("exec", json!({"a": [1, "x"]})));
    assert_eq!(*resolve_call(&inner), inner);
    let nested = json!({"name": "tool_call", "arguments": {"name": "exec"}});
    let nested = call("tool_call", nested);
    assert_eq!(*resolve_call(&nested), nested);
}

/// Records the name, arguments and effect of every run.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<(String, String, Option<Effect>)>>);

#[async_trait]
impl ToolWatch for Notes {
    async fn ran(&self, run: ToolRun<'_>) {
        let (name, arguments) = (run.call.name.to_string(), run.call.arguments.clone());
        self.0.lock().unwrap().push((name, arguments, run.effect));
    }
}

#[tokio::test]
async fn watch_sees_the_inner_call() {
    let notes = Arc::new(Notes::default());
    let registry = Registry::watched(Arc::<Notes>::clone(&notes));
    fill(&registry);
    let wrapped = json!({"name": "exec", "arguments": {"city": "rm -rf"}});
    run(&registry, &call("tool_call", wrapped)).await;
    let seen = ("exec".to_owned(), "{\"city\":\"rm -rf\"}".to_owned());
    let expected = (seen.0, seen.1, Some(Effect::Irreversible));
    assert_eq!(*notes.0.lock().unwrap(), [expected]);
}
