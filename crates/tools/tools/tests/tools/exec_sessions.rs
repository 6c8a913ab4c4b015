//! Commands that go on after `exec` returned.
#![cfg(unix)]

use std::{sync::Arc, time::Duration};

use nanobot_guard::PathPolicy;
use nanobot_testkit::InProcess;
use nanobot_tool::{Registry, ToolContext};
use nanobot_tools::{DirectRunner, HttpClients, builtin};
use nanobot_types::{ToolCall, ToolResult};
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Longer than any test takes.
const LONG: u64 = 300_000;

/// One assistant, whose calls share their sessions.
struct Assistant {
    registry: Registry,
    context: ToolContext,
    _fixture: Fixture,
}

impl Assistant {
    fn new() -> Self {
        let fixture = Fixture::new();
        let policy = Arc::new(PathPolicy::new(fixture.rules()));
        let guard = Arc::new(fixture.config.url_guard().unwrap());
        let http = HttpClients::new(&fixture.config.web, guard, Arc::new(InProcess));
        let runner = Arc::new(DirectRunner);
        let tools = builtin(&fixture.config, &policy, &Arc::new(http), runner).unwrap();
        let registry = Registry::new();
        for tool in tools.all() {
            registry.register(tool).unwrap();
        }
        Self {
            registry,
            context: ToolContext::detached("cli:direct"),
            _fixture: fixture,
        }
    }

    async fn run(&self, tool: &str, arguments: Value) -> ToolResult {
        self.run_in(tool, arguments, &self.context).await
    }

    async fn run_in(&self, tool: &str, arguments: Value, context: &ToolContext) -> ToolResult {
        let call = ToolCall::new("call", tool, arguments.to_string());
        self.registry.run(&call, context).await
    }

    async fn start(&self, command: &str) -> ToolResult {
        self.run("exec", json!({"command": command, "yield_time_ms": 0}))
            .await
    }
}

#[tokio::test]
async fn a_command_goes_on_and_is_read_and_written() {
    let assistant = Assistant::new();
    let started = assistant
        .start("echo begin; read a; echo got $a; read b; exit 3")
        .await;
    assert!(started.success);
    assert!(
        started.output.contains("[Session 1 is still running"),
        "{}",
        started.output
    );
    let listed = assistant.run("list_exec_sessions", json!({})).await;
    assert!(listed.output.starts_with("1: running"), "{}", listed.output);

    let mut text = started.output;
    let input = json!({"session_id": 1, "chars": "one\n", "yield_time_ms": 10});
    text += &assistant.run("write_stdin", input).await.output;
    while !text.contains("got one") {
        let waiting = json!({"session_id": 1, "yield_time_ms": 10});
        text += &assistant.run("write_stdin", waiting).await.output;
    }
    assert!(text.contains("begin\n"), "{text}");
    let input = json!({"session_id": 1, "chars": "two\n", "yield_time_ms": LONG});
    let end = assistant.run("write_stdin", input).await;
    assert_eq!(
        (end.success, end.output.as_str()),
        (false, "\nExit code: 3")
    );
    let gone = assistant.run("write_stdin", json!({"session_id": 1})).await;
    assert!(
        gone.output.contains("no running command"),
        "{}",
        gone.output
    );
    let listed = assistant.run("list_exec_sessions", json!({})).await;
    assert_eq!(listed.output, "No command is running.");
}

#[tokio::test]
async fn a_command_that_ends_in_time_leaves_no_session() {
    let assistant = Assistant::new();
    let arguments = json!({"command": "echo hi", "yield_time_ms": LONG});
    let result = assistant.run("exec", arguments).await;
    assert_eq!(result.output, "hi\n\nExit code: 0");
    let listed = assistant.run("list_exec_sessions", json!({})).await;
    assert_eq!(listed.output, "No command is running.");
}

#[tokio::test]
async fn input_can_be_closed_and_a_command_ended() {
    let assistant = Assistant::new();
    assistant.start("cat; echo closed").await;
    let closing = json!({"session_id": 1, "close_stdin": true, "yield_time_ms": LONG});
    let closed = assistant.run("write_stdin", closing).await;
    assert!(closed.output.contains("closed\n"), "{}", closed.output);
    assistant.start("sleep 1000").await;
    let ending = json!({"session_id": 2, "terminate": true, "yield_time_ms": LONG});
    let ended = assistant.run("write_stdin", ending).await;
    assert!(
        ended.output.contains("[Session 2 was ended.]"),
        "{}",
        ended.output
    );
}

#[tokio::test]
async fn other_conversations_do_not_reach_a_session() {
    let assistant = Assistant::new();
    assistant.start("cat").await;
    let other = ToolContext::detached("telegram:7");
    let input = json!({"session_id": 1, "chars": "x"});
    let refused = assistant.run_in("write_stdin", input, &other).await;
    assert!(
        refused.output.contains("no running command"),
        "{}",
        refused.output
    );
    let listed = assistant
        .run_in("list_exec_sessions", json!({}), &other)
        .await;
    assert_eq!(listed.output, "No command is running.");
}

#[tokio::test]
async fn sessions_are_limited_in_number_and_output() {
    let assistant = Assistant::new();
    for _ in 0..8 {
        assert!(assistant.start("sleep 1000").await.success);
    }
    let refused = assistant.start("sleep 1000").await;
    assert!(
        refused.output.contains("8 commands are running"),
        "{}",
        refused.output
    );
    let ending = json!({"session_id": 3, "terminate": true, "yield_time_ms": LONG});
    assistant.run("write_stdin", ending).await;
    // Two megabytes that are not read while they are written.
    let command = json!({"command": "head -c 2000000 /dev/zero | tr '\\0' x; echo end", "yield_time_ms": LONG});
    let flood = assistant.run("exec", command).await;
    assert!(
        flood.output.contains("bytes were not kept"),
        "{:.200}",
        flood.output
    );
    assert!(flood.output.contains("xend\n"));
    assert!(flood.output.len() < 20_000);
}

#[tokio::test]
async fn stopping_a_call_ends_its_session() {
    let assistant = Assistant::new();
    let context = ToolContext::detached("cli:direct");
    let arguments = json!({"command": "sleep 1000", "yield_time_ms": LONG});
    let stopping = async {
        loop {
            let listed = assistant.run("list_exec_sessions", json!({})).await;
            if listed.output.starts_with("1: running") {
                break context.cancel.cancel();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (stopped, ()) = tokio::join!(assistant.run_in("exec", arguments, &context), stopping);
    assert!(stopped.output.contains("was ended"), "{}", stopped.output);
}

#[tokio::test]
async fn output_from_elsewhere_is_marked_in_each_part() {
    let assistant = Assistant::new();
    let command = "read line; echo $line https://example.com/";
    let first = assistant.start(command).await;
    assert_eq!(first.untrusted.as_deref(), Some("exec"));
    let rest = json!({"session_id": 1, "chars": "x\n", "yield_time_ms": LONG});
    let rest = assistant.run("write_stdin", rest).await;
    assert_eq!(rest.untrusted.as_deref(), Some("exec"), "{}", rest.output);
    assert!(rest.output.contains("x https"), "{}", rest.output);
}
