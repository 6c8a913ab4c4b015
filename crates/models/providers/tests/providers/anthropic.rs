//! Requests to Anthropic-shaped servers, and the handling of their responses.

use std::sync::Arc;

use nanobot_provider::{ChatRequest, Generation, ToolChoice};
use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, FinishReason, ImageUrl, LlmResponse,
    ToolCall, ToolSource, Usage, UserMessage,
};
use serde_json::{Value, json};

use super::support::{
    answered, context, hello, impatient, looked, quick, request, router, tool, watched, words,
};

async fn sent(request: ChatRequest) -> Value {
    let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    let response = router("anthropic", &server, quick())
        .chat_with_failover(request, &context())
        .await;
    assert_eq!(words(&response), "ok", "{response:?}");
    assert_eq!(server.violations(), Vec::<String>::new());
    server.requests()[0].json.clone()
}

#[tokio::test]
async fn pictures_of_results_are_in_them() {
    let [call, result] = looked();
    let body = sent(request([ChatMessage::user("look"), call, result])).await;
    let result = &body["messages"][2]["content"][0];
    assert_eq!(result["type"], "tool_result", "{body}");
    assert_eq!(result["content"][0]["type"], "image", "{body}");
    assert_eq!(result["content"][1]["text"], "(a picture)");
}

#[tokio::test]
async fn request_has_cache_marks_and_alternating_roles() {
    let call = ToolCall::new("c1", "exec", "{\"command\":\"date\"}");
    let picture = ContentBlock::ImageUrl {
        image_url: ImageUrl {
            url: "data:image/png;base64,AA==".into(),
        },
    };
    let history = [
        ChatMessage::user("a"),
        ChatMessage::user("b"),
        ChatMessage::Assistant(AssistantMessage {
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        }),
        ChatMessage::tool(&call, "Saturday"),
        ChatMessage::User(UserMessage {
            content: Content::Blocks(vec![picture]),
            media: Vec::new(),
        }),
    ];
    let tools = Arc::new([
        tool("exec", ToolSource::BuiltIn),
        tool("read_file", ToolSource::BuiltIn),
        tool("mcp_x", ToolSource::External),
    ]);
    let body = sent(ChatRequest {
        tools,
        ..request(history)
    })
    .await;
    let mark = json!({ "type": "ephemeral" });
    assert_eq!(
        body["system"],
        json!([{ "type": "text", "text": "Be brief.", "cache_control": mark }])
    );
    assert_eq!(
        body["messages"],
        json!([
            { "role": "user", "content": [
                { "type": "text", "text": "a" },
                { "type": "text", "text": "b", "cache_control": mark },
            ] },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "c1", "name": "exec", "input": { "command": "date" } }] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c1", "content": [{ "type": "text", "text": "Saturday" }] },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" }, "cache_control": mark },
            ] },
        ])
    );
    let marked: Vec<bool> = body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool.get("cache_control").is_some())
        .collect();
    assert_eq!(marked, [false, true, false], "external tools come and go");
    assert_eq!(
        (&body["max_tokens"], &body["temperature"]),
        (&json!(8192), &json!(0.1))
    );
    assert_eq!(
        (&body["tool_choice"], body.get("thinking")),
        (&json!({ "type": "auto" }), None)
    );
}

#[tokio::test]
async fn effort_becomes_a_thinking_budget_within_limits() {
    let asked = |effort: &str, max_tokens: u32| ChatRequest {
        generation: Generation {
            max_tokens,
            reasoning_effort: Some(effort.to_owned()),
            ..Generation::default()
        },
        ..hello()
    };
    let table = [
        (
            "low",
            8192,
            json!({ "type": "enabled", "budget_tokens": 1024 }),
            8192,
        ),
        (
            "medium",
            8192,
            json!({ "type": "enabled", "budget_tokens": 2048 }),
            8192,
        ),
        (
            "high",
            1000,
            json!({ "type": "enabled", "budget_tokens": 4096 }),
            5096,
        ),
        ("adaptive", 1000, json!({ "type": "adaptive" }), 1000),
        ("none", 1000, Value::Null, 1000),
    ];
    for (effort, limit, thinking, expected) in table {
        let body = sent(asked(effort, limit)).await;
        assert_eq!(
            body.get("thinking").unwrap_or(&Value::Null),
            &thinking,
            "{effort}"
        );
        assert_eq!(body["max_tokens"], expected, "{effort}");
        assert_eq!(
            body.get("temperature").is_some(),
            thinking.is_null(),
            "{effort}"
        );
    }
    let forced = ChatRequest {
        tool_choice: ToolChoice::Tool("exec".into()),
        ..asked("high", 8192)
    };
    assert_eq!(sent(forced).await.get("thinking"), None);
}

#[tokio::test]
async fn signed_thinking_is_sent_back_and_may_be_missing() {
    let calls = [ScriptedCall::new("exec", &json!({ "command": "date" })).with_id("c1")];
    let usage = Usage {
        prompt_tokens: 30,
        completion_tokens: 9,
        cached_tokens: 20,
        cache_write_tokens: 4,
        reasoning_tokens: 0,
    };
    let reply = Reply::text("let me see")
        .and_calls(calls)
        .with_reasoning("hm", "signed")
        .with_usage(usage);
    let server = ModelServer::scripted([reply, Reply::text("done")])
        .await
        .unwrap();
    let router = router("anthropic", &server, quick());
    let generation = Generation {
        reasoning_effort: Some("low".into()),
        ..Generation::default()
    };
    let first = ChatRequest {
        generation,
        ..hello()
    };
    let response = router.chat_with_failover(first.clone(), &context()).await;
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "signed" });
    assert_eq!(
        response,
        LlmResponse {
            content: Some("let me see".into()),
            tool_calls: vec![ToolCall::new("c1", "exec", r#"{"command":"date"}"#)],
            finish_reason: FinishReason::ToolCalls,
            usage: Some(usage),
            reasoning_content: Some("hm".into()),
            thinking_blocks: vec![thought.clone()],
            provider: Some("anthropic".into()),
            model: Some("model".into()),
        }
    );
    let next = answered(&first, &response);
    assert_eq!(
        words(&router.chat_with_failover(next.clone(), &context()).await),
        "done"
    );
    let body = &server.requests()[1].json;
    assert_eq!(body["messages"][1]["content"][0], thought);
    assert_eq!(body["thinking"]["budget_tokens"], 1024);
    assert_eq!(server.violations(), Vec::<String>::new());

    // The same turn, begun by another provider: there are no thinking blocks to send back, so
    // thinking is not requested.
    let foreign = answered(
        &first,
        &LlmResponse {
            provider: Some("openai".into()),
            ..response
        },
    );
    let body = sent(foreign).await;
    assert_eq!(
        (
            body.get("thinking"),
            body["messages"][1]["content"][0]["type"].as_str()
        ),
        (None, Some("text"))
    );
}

#[tokio::test]
async fn retries_without_a_refused_temperature() {
    let server = ModelServer::answering(|request| match request.json.get("temperature") {
        Some(_) => Reply::error(400, "`temperature` is deprecated for this model."),
        None => Reply::text("ok"),
    })
    .await
    .unwrap();
    let router = router("anthropic", &server, quick());
    for total in [2, 3] {
        assert_eq!(
            words(&router.chat_with_failover(hello(), &context()).await),
            "ok"
        );
        assert_eq!(server.requests().len(), total);
    }
}

#[tokio::test]
async fn broken_answers_are_not_accepted() {
    let table = [
        ("cut", Reply::text("half").then_cut()),
        (
            "failed",
            Reply::text("half").then_fail("overloaded_error", "Overloaded"),
        ),
        ("html", Reply::status(200, "text/html", "<html>502</html>")),
        ("empty", Reply::status(200, "text/event-stream", "")),
        ("overloaded", Reply::error(529, "Overloaded")),
        (
            "other",
            Reply::status(
                200,
                "application/json",
                "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"x\"}}",
            ),
        ),
    ];
    let stalled = ("stalled", Reply::text("half").then_stall(), impatient());
    for (case, reply, policy) in table
        .map(|(case, reply)| (case, reply, quick()))
        .into_iter()
        .chain([stalled])
    {
        let server = ModelServer::scripted([reply.clone(), Reply::text("whole")])
            .await
            .unwrap();
        let response = router("anthropic", &server, policy.clone())
            .chat_with_failover(hello(), &context())
            .await;
        assert_eq!(words(&response), "whole", "{case}: {response:?}");
        let server = ModelServer::answering(move |_| reply.clone())
            .await
            .unwrap();
        let response = router("anthropic", &server, policy)
            .chat_with_failover(hello(), &watched())
            .await;
        assert_eq!(
            response.finish_reason,
            FinishReason::Error,
            "{case}: {response:?}"
        );
    }
}

#[tokio::test]
async fn accepts_a_whole_message_instead_of_a_stream() {
    let message = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            { "type": "text", "text": "see" },
            { "type": "tool_use", "id": "t1", "name": "exec", "input": { "command": "date" } },
        ],
        "usage": { "input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1 },
    });
    let server =
        ModelServer::scripted([Reply::status(200, "application/json", message.to_string())])
            .await
            .unwrap();
    let response = router("anthropic", &server, quick())
        .chat_with_failover(hello(), &context())
        .await;
    assert_eq!(
        (words(&response), &response.finish_reason),
        ("see", &FinishReason::ToolCalls)
    );
    assert_eq!(
        response.tool_calls,
        [ToolCall::new("t1", "exec", r#"{"command":"date"}"#)]
    );
    assert_eq!(
        response
            .usage
            .map(|usage| (usage.prompt_tokens, usage.cached_tokens)),
        Some((4, 1))
    );
}
