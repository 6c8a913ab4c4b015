//! Checks that the model server refuses exactly the requests that the vendors refuse.

use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::client;

/// Sends a body and returns the status and the recorded violations.
async fn verdict(path: &str, mut body: Value) -> (u16, Vec<String>) {
    let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    body["model"] = json!("m");
    let request = client()
        .post(format!("{}{path}", server.base_url()))
        .header("anthropic-version", "2023-06-01");
    let status = request.json(&body).send().await.unwrap().status().as_u16();
    (status, server.violations())
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "t", "input": {}})
}

#[tokio::test]
async fn openai_rules() {
    let user = json!({"role": "user", "content": "hi"});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let calls = |ids: &[&str]| json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(|id| call(id)).collect::<Vec<_>>()});
    let cut = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{\"x\":"}}]});
    let table = [
        (json!([user]), ""),
        (
            json!([{"role": "system", "content": "s"}, user, calls(&["a", "b"]), result("b"), result("a"), user]),
            "",
        ),
        (
            json!([user, calls(&["a"]), user]),
            "tool call \"a\" has no result",
        ),
        (
            json!([user, calls(&["a"])]),
            "tool call \"a\" has no result",
        ),
        (
            json!([user, calls(&["a"]), result("a"), result("a")]),
            "result for \"a\"",
        ),
        (json!([user, result("z")]), "result for \"z\""),
        (
            json!([user, calls(&["a"]), result("a"), calls(&["a"]), result("a")]),
            "used twice",
        ),
        (json!([user, cut, result("a")]), "arguments must be"),
        (
            json!([user, {"role": "system", "content": "s"}]),
            "must come first",
        ),
        (json!([{"role": "user", "content": ""}]), "content is empty"),
        (
            json!([{"role": "user", "content": [{"type": "text", "text": ""}]}]),
            "empty or unknown",
        ),
        (
            json!([user, {"role": "assistant", "content": null}, user]),
            "content must be",
        ),
        (
            json!([user, {"role": "assistant", "content": "x", "tool_calls": []}]),
            "must not be empty",
        ),
        (json!([]), "at least one"),
    ];
    for (messages, problem) in table {
        check("/chat/completions", json!({"messages": messages}), problem).await;
    }
    let options = [
        (json!({"max_tokens": 0}), "max_tokens"),
        (
            json!({"stream_options": {"include_usage": true}}),
            "stream_options",
        ),
        (json!({"tool_choice": "auto"}), "tool_choice"),
        (json!({"tools": []}), "tools: must not be empty"),
        (
            json!({"tools": [{"type": "function", "function": {"name": "a b", "parameters": {"type": "object"}}}]}),
            "no tool name",
        ),
    ];
    for (mut body, problem) in options {
        body["messages"] = json!([user]);
        check("/chat/completions", body, problem).await;
    }
}

#[tokio::test]
async fn anthropic_rules() {
    let user = json!({"role": "user", "content": "hi"});
    let uses = |id: &str| json!({"role": "assistant", "content": [tool_use(id)]});
    let result = |id: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "r"}]});
    let late = json!({"role": "user", "content": [
        {"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "a", "content": "r"}]});
    let thinking = json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}]});
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let table = [
        (json!([user]), ""),
        (json!([user, uses("a"), result("a")]), ""),
        (json!([user, user]), "alternate"),
        (
            json!([{"role": "assistant", "content": "x"}, user]),
            "alternate",
        ),
        (
            json!([user, uses("a"), user]),
            "tool use \"a\" has no result",
        ),
        (json!([user, uses("a"), late]), "must come first"),
        (json!([result("q")]), "result for \"q\""),
        (
            json!([user, uses("a"), result("a"), uses("a"), result("a")]),
            "used twice",
        ),
        (json!([user, thinking, user]), "without signature"),
        (
            json!([{"role": "user", "content": "  "}]),
            "content is empty",
        ),
        (
            json!([user, {"role": "assistant", "content": "x"}]),
            "must be the user's",
        ),
        (
            json!([{"role": "user", "content": [marked, marked, marked, marked, marked]}]),
            "at most four",
        ),
    ];
    for (messages, problem) in table {
        check(
            "/messages",
            json!({"max_tokens": 4000, "messages": messages}),
            problem,
        )
        .await;
    }
    let options = [
        (json!({}), "max_tokens"),
        (
            json!({"max_tokens": 5, "system": ""}),
            "system: content is empty",
        ),
        (
            json!({"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 2000}}),
            "budget_tokens",
        ),
        (
            json!({"max_tokens": 5, "tools": [{"name": "t", "input_schema": {}}]}),
            "type must be object",
        ),
        (
            json!({"max_tokens": 5, "tool_choice": "auto"}),
            "tool_choice",
        ),
    ];
    for (mut body, problem) in options {
        body["messages"] = json!([user]);
        check("/messages", body, problem).await;
    }
}

async fn check(path: &str, body: Value, problem: &str) {
    let (status, violations) = verdict(path, body.clone()).await;
    if problem.is_empty() {
        assert_eq!(
            (status, violations.as_slice()),
            (200, [].as_slice()),
            "{body}"
        );
    } else {
        assert_eq!(status, 400, "{body}");
        assert!(
            violations.iter().any(|found| found.contains(problem)),
            "{body}: {violations:?}"
        );
    }
}
