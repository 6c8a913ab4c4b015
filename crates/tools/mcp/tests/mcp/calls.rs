//! Calls and their failures.

use std::time::Duration;

use nanobot_tool::{ERROR_HINT, ToolContext};
use nanobot_types::{ToolCall, ToolResult};
use serde_json::json;

use crate::fixture::{BANNER, Fixture, assert_answers, call, names, tool, until};

#[tokio::test]
async fn a_call_returns_labelled_text() {
    let fixture = Fixture::with(&json!({
        "before": "Starting server on port 3000...\n\n",
        "tools": [tool("echo"), tool("noisy")],
        "calls": {"echo": "got ", "noisy": "garbage"},
    }));
    let (servers, registry) = fixture.connected().await;
    assert_eq!(names(&registry), ["mcp_fake_echo", "mcp_fake_noisy"]);
    let result = call(&registry, "mcp_fake_echo", json!({"a": [1, "x"]})).await;
    assert_answers(&result, "got {\"a\":[1,\"x\"]}");
    let result = call(&registry, "mcp_fake_noisy", json!({})).await;
    assert_answers(&result, "after garbage");
    servers.close().await;
    assert_eq!(fixture.journal("fake").last().unwrap(), "end");
}

#[tokio::test]
async fn a_server_sees_only_safe_and_configured_variables() {
    let script = json!({"tools": [tool("env")], "calls": {"env": "env"}});
    let mut fixture = Fixture::with(&script);
    let config = fixture.servers.get_mut("fake").unwrap();
    config.env.insert("A_TOKEN".to_owned(), "t".to_owned());
    let (_servers, registry) = fixture.connected().await;
    let result = call(&registry, "mcp_fake_env", json!({})).await;
    let output = result.output.strip_prefix(BANNER).unwrap().to_owned();
    let safe = [
        "A_TOKEN", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER",
    ];
    assert!(output.contains("A_TOKEN"), "{output}");
    assert!(
        output.split(' ').all(|name| safe.contains(&name)),
        "{output}"
    );
}

#[tokio::test]
async fn arguments_with_a_secret_are_not_sent() {
    let fixture = Fixture::with(&json!({"tools": [tool("echo")], "calls": {"echo": "got "}}));
    let (_servers, registry) = fixture.connected().await;
    let result = call(
        &registry,
        "mcp_fake_echo",
        json!({"note": "open-sesame-1234"}),
    )
    .await;
    assert!(
        !result.success && result.output.contains("contains a secret"),
        "{result:?}"
    );
    assert_eq!(fixture.journal("fake"), ["start"]);
}

#[tokio::test]
async fn a_crash_during_a_call_is_an_error_and_the_next_call_reconnects() {
    let mut fixture = Fixture::with(&json!({
        "tools": [tool("crash"), tool("echo")], "calls": {"crash": "exit", "echo": "got "},
    }));
    fixture.server(
        "other",
        &json!({"tools": [tool("echo")], "calls": {"echo": "other "}}),
    );
    let (servers, registry) = fixture.connected().await;
    servers.connect("other").await.unwrap();
    let result = call(&registry, "mcp_fake_crash", json!({})).await;
    let lost = "(MCP tool call failed: ConnectionLost: it may have run)";
    assert_eq!(result, ToolResult::error(lost));
    let result = call(&registry, "mcp_other_echo", json!({})).await;
    assert_answers(&result, "other {}");
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert_answers(&result, "got {}");
    assert_eq!(
        fixture.journal("fake"),
        ["start", "call crash", "start", "call echo"]
    );
    // The second loss within a minute is followed by a pause.
    call(&registry, "mcp_fake_crash", json!({})).await;
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert!(
        result.output.contains("ServerUnavailable") && result.should_retry,
        "{result:?}"
    );
}

#[tokio::test]
async fn a_harmless_call_is_repeated_after_a_crash() {
    let crash = json!({
        "name": "crash", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
    });
    let fixture = Fixture::with(&json!({"tools": [crash], "calls": {"crash": "exit"}}));
    let (_servers, registry) = fixture.connected().await;
    call(&registry, "mcp_fake_crash", json!({})).await;
    let expected = ["start", "call crash", "start", "call crash"];
    assert_eq!(fixture.journal("fake"), expected);
}

#[tokio::test]
async fn an_oversized_message_ends_the_connection() {
    let fixture = Fixture::with(&json!({
        "tools": [tool("giant"), tool("echo")], "calls": {"giant": "giant", "echo": "got "},
    }));
    let (_servers, registry) = fixture.connected().await;
    let result = call(&registry, "mcp_fake_giant", json!({})).await;
    let lost = "(MCP tool call failed: ConnectionLost: it may have run)";
    assert_eq!(result, ToolResult::error(lost));
    let result = call(&registry, "mcp_fake_echo", json!({})).await;
    assert_answers(&result, "got {}");
}

#[tokio::test]
async fn a_call_times_out_and_is_cancelled_on_the_server() {
    let script = json!({"tools": [tool("hang")], "calls": {"hang": "hang"}});
    let mut fixture = Fixture::with(&script);
    fixture.servers.get_mut("fake").unwrap().tool_timeout = 1;
    let (_servers, registry) = fixture.connected().await;
    let result = call(&registry, "mcp_fake_hang", json!({})).await;
    assert_eq!(
        result,
        ToolResult::error("(MCP tool call timed out after 1s)")
    );
    let told = || {
        fixture
            .journal("fake")
            .last()
            .is_some_and(|last| last == "cancelled")
    };
    until("the server is told", told).await;
}

#[tokio::test]
async fn a_stopped_turn_cancels_the_call() {
    let script = json!({"tools": [tool("hang")], "calls": {"hang": "hang"}});
    let fixture = Fixture::with(&script);
    let (_servers, registry) = fixture.connected().await;
    let context = ToolContext::detached("cli:direct");
    let hang = ToolCall::new("1", "mcp_fake_hang", "{}");
    let journal = |last: &str| {
        fixture
            .journal("fake")
            .last()
            .is_some_and(|line| line == last)
    };
    let stop = async {
        until("the call arrived", || journal("call hang")).await;
        context.cancel.cancel();
    };
    let (result, ()) = tokio::join!(registry.run(&hang, &context), stop);
    assert_eq!(
        result,
        ToolResult::error(format!("Error: cancelled{ERROR_HINT}"))
    );
    until("the server is told", || journal("cancelled")).await;
}

#[tokio::test]
async fn a_dead_command_delays_nothing_and_is_named() {
    let mut fixture = Fixture::with(&json!({"tools": [tool("echo")], "calls": {"echo": "got "}}));
    let config = fixture.server("dead", &json!({}));
    config.command = "/nonexistent/program".to_owned();
    fixture.server("exits", &json!({"initialize": "exit"}));
    fixture.server("mute", &json!({"initialize": "never"}));
    fixture.server("unusable", &json!({})).kind = Some("pigeon".to_owned());
    let (servers, registry) = fixture.open();
    servers.start();
    until("the working server is there", || {
        names(&registry) == ["mcp_fake_echo"]
    })
    .await;
    let state = |name: &str| {
        let all = servers.status();
        let found = all.into_iter().find(|server| server.name == name).unwrap();
        (found.state, found.failure.unwrap_or_default())
    };
    until("the failures are known", || {
        state("dead").0 == "unavailable"
    })
    .await;
    until("the failures are known", || {
        state("exits").0 == "unavailable"
    })
    .await;
    assert!(
        state("dead").1.contains("/nonexistent/program"),
        "{:?}",
        state("dead")
    );
    assert!(
        state("exits").1.contains("cannot read the database"),
        "{:?}",
        state("exits")
    );
    assert_eq!(state("mute").0, "connecting");
    assert_eq!(
        state("unusable"),
        ("unusable", "type \"pigeon\" is unknown".to_owned())
    );
    assert_eq!(state("fake").0, "connected");
    // Another process sees the failure in the record.
    let (other, _) = fixture.open();
    let other = other.status();
    let dead = other.iter().find(|server| server.name == "dead").unwrap();
    assert!(
        dead.failure
            .as_deref()
            .is_some_and(|text| text.contains("/nonexistent/"))
    );
    let closed = tokio::time::timeout(Duration::from_secs(20), servers.close()).await;
    assert!(closed.is_ok());
}
