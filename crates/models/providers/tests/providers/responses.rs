//! Requests to OpenAI's Responses API, and the handling of its answers.

use std::sync::Arc;

use nanobot_provider::{ChatRequest, Folded, Generation, ProviderRouter, ToolChoice};
use nanobot_providers::fuzz::{AnswerForm, answer};
use nanobot_providers::{ApiType, ProviderSettings, ProviderSpec, Selection, build};
use nanobot_testkit::model_server::ModelApi;
use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use nanobot_types::{
    AssistantMessage, ChatMessage, FinishReason, LlmResponse, ToolCall, ToolSource, Usage,
};
use serde_json::{Value, json};

use super::support::{
    answered, candidate, clients, context, hello, looked, quick, request, settings, tool, watched,
    words,
};

fn responses(server: &ModelServer) -> ProviderSettings {
    ProviderSettings {
        api_type: ApiType::Responses,
        ..settings(&server.base_url())
    }
}

fn router(name: &str, server: &ModelServer, model: &str) -> ProviderRouter {
    ProviderRouter::new([candidate(name, &responses(server), model)], quick())
}

async fn sent(name: &str, model: &str, request: ChatRequest) -> Value {
    let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    let response = router(name, &server, model)
        .chat_with_failover(request, &context())
        .await;
    assert_eq!(words(&response), "ok", "{response:?}");
    assert_eq!(server.violations(), Vec::<String>::new());
    assert_eq!(server.requests()[0].http.path(), "/v1/responses");
    server.requests()[0].json.clone()
}

#[tokio::test]
async fn request_has_exactly_the_expected_members() {
    let call = ToolCall::new("call_1", "exec", "{\"command\":\"date\"}");
    let history = [
        ChatMessage::user("a"),
        ChatMessage::Assistant(AssistantMessage {
            content: Some("let me see".into()),
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        }),
        ChatMessage::tool(&call, "Saturday"),
    ];
    let body = sent(
        "openai",
        "gpt-5",
        ChatRequest {
            tools: Arc::new([tool("exec", ToolSource::BuiltIn)]),
            tool_choice: ToolChoice::Tool("exec".into()),
            cache_key: Some("s".into()),
            generation: Generation {
                max_tokens: 3,
                reasoning_effort: Some("high".into()),
                ..Generation::default()
            },
            ..request(history)
        },
    )
    .await;
    assert_eq!(
        body,
        json!({
            "model": "gpt-5",
            "instructions": "Be brief.",
            "input": [
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "a" }] },
                { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "let me see" }] },
                { "type": "function_call", "call_id": "call_1", "name": "exec", "arguments": "{\"command\":\"date\"}" },
                { "type": "function_call_output", "call_id": "call_1", "output": "Saturday" },
            ],
            "tools": [{
                "type": "function",
                "name": "exec",
                "description": "does exec",
                "parameters": { "type": "object", "properties": { "path": { "type": "string" } } },
                "strict": false,
            }],
            "tool_choice": { "type": "function", "name": "exec" },
            "parallel_tool_calls": true,
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 16,
            "reasoning": { "effort": "high" },
            // SHA-1 of `s`: the name of a chat is not sent to the vendor.
            "prompt_cache_key": "a0f1490a20d0211c997b44bc357e1972deab8ae3",
        })
    );
    let body = sent(
        "custom",
        "m",
        ChatRequest {
            tools: Arc::new([]),
            ..hello()
        },
    )
    .await;
    assert_eq!(
        (
            body.get("tools"),
            body.get("tool_choice"),
            &body["temperature"]
        ),
        (None, None, &json!(0.1))
    );
}

#[tokio::test]
async fn pictures_of_results_are_in_them() {
    let [call, result] = looked();
    let body = sent(
        "custom",
        "m",
        request([ChatMessage::user("look"), call, result]),
    )
    .await;
    assert_eq!(
        body["input"][2]["output"],
        json!([
            { "type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto" },
            { "type": "input_text", "text": "(a picture)" },
        ])
    );
}

#[tokio::test]
async fn the_model_decides_about_the_api_unless_it_is_configured() {
    let table = [
        ("openai", "gpt-4.1", ApiType::Auto, ModelApi::OpenAi),
        (
            "openai",
            "openai/gpt-5.3-codex",
            ApiType::Auto,
            ModelApi::Responses,
        ),
        (
            "openai",
            "codex-mini-latest",
            ApiType::Auto,
            ModelApi::Responses,
        ),
        (
            "openai",
            "o3-pro-2025-06-10",
            ApiType::Auto,
            ModelApi::Responses,
        ),
        (
            "openai",
            "gpt-5-pro",
            ApiType::ChatCompletions,
            ModelApi::OpenAi,
        ),
        ("openai", "gpt-4.1-product", ApiType::Auto, ModelApi::OpenAi),
        ("custom", "gpt-5-codex", ApiType::Auto, ModelApi::OpenAi),
        ("custom", "m", ApiType::Responses, ModelApi::Responses),
    ];
    for (name, model, api_type, expected) in table {
        let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
        let settings = ProviderSettings {
            api_type,
            ..settings(&server.base_url())
        };
        let router = ProviderRouter::new([candidate(name, &settings, model)], quick());
        let response = router.chat_with_failover(hello(), &context()).await;
        assert_eq!(words(&response), "ok", "{name} {model}: {response:?}");
        assert_eq!(server.requests()[0].api, expected, "{name} {model}");
        assert_eq!(server.violations(), Vec::<String>::new());
    }
    for (name, api_type) in [
        ("anthropic", ApiType::Responses),
        ("anthropic", ApiType::ChatCompletions),
        ("azure_openai", ApiType::Responses),
    ] {
        let selection = Selection {
            name: name.into(),
            spec: ProviderSpec::find(name).unwrap(),
        };
        let settings = ProviderSettings {
            api_type,
            ..settings("http://127.0.0.1:1")
        };
        let error = build(&selection, &settings, "m", clients()).unwrap_err();
        assert!(error.to_string().contains(".apiType"), "{name}: {error}");
    }
}

/// Two turns: the encrypted reasoning of the first one comes back in the second.
#[tokio::test]
async fn encrypted_reasoning_is_sent_back_to_its_provider_only() {
    let calls = [ScriptedCall::new("exec", &json!({ "command": "date" })).with_id("c1")];
    let usage = Usage {
        prompt_tokens: 30,
        completion_tokens: 9,
        cached_tokens: 20,
        cache_write_tokens: 0,
        reasoning_tokens: 6,
    };
    let reply = Reply::text("let me see")
        .and_calls(calls)
        .with_reasoning("hm", "secret form")
        .with_usage(usage);
    let server = ModelServer::scripted([reply, Reply::text("done")])
        .await
        .unwrap();
    let router = router("openai", &server, "gpt-5");
    let first = hello();
    let response = router.chat_with_failover(first.clone(), &context()).await;
    let item = json!({
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{ "type": "summary_text", "text": "hm" }],
        "encrypted_content": "secret form",
    });
    assert_eq!(
        response,
        LlmResponse {
            content: Some("let me see".into()),
            tool_calls: vec![ToolCall::new("c1", "exec", r#"{"command":"date"}"#)],
            finish_reason: FinishReason::ToolCalls,
            usage: Some(usage),
            reasoning_content: Some("hm".into()),
            thinking_blocks: vec![item.clone()],
            provider: Some("openai".into()),
            model: Some("gpt-5".into()),
        }
    );
    let next = answered(&first, &response);
    let answer = router.chat_with_failover(next.clone(), &context()).await;
    assert_eq!(words(&answer), "done");
    let input = server.requests()[1].json["input"].clone();
    let kinds: Vec<&str> = input
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "reasoning",
            "message",
            "function_call",
            "function_call_output"
        ]
    );
    assert_eq!(input[1], item);
    assert_eq!(server.violations(), Vec::<String>::new());
    // Another provider cannot read it.
    let body = sent("custom", "m", next).await;
    assert_eq!(body["input"][1]["type"], "message");
}

#[tokio::test]
async fn reasoning_that_cannot_be_read_any_more_is_left_out() {
    let server = ModelServer::answering(|request| {
        if request.json["input"][1]["type"] == "reasoning" {
            Reply::error(400, "The encrypted content rs_1 could not be verified.")
        } else {
            Reply::text("ok").with_reasoning("hm", "secret form")
        }
    })
    .await
    .unwrap();
    let router = router("openai", &server, "gpt-5");
    let response = router.chat_with_failover(hello(), &context()).await;
    let next = answered(&hello(), &response);
    let next = ChatRequest {
        transcript: request(
            next.transcript
                .messages()
                .iter()
                .map(|message| (**message).clone())
                .chain([ChatMessage::user("and?")]),
        )
        .transcript,
        ..next
    };
    let response = router.chat_with_failover(next, &context()).await;
    assert_eq!(words(&response), "ok", "{response:?}");
    assert_eq!(server.requests().len(), 3);

    let server = ModelServer::answering(|request| match request.json.get("include") {
        Some(_) => Reply::error(400, "Encrypted content is not supported with this model."),
        None => Reply::text("ok"),
    })
    .await
    .unwrap();
    let router = self::router("openai", &server, "gpt-4.1");
    for total in [2, 3] {
        let response = router.chat_with_failover(hello(), &context()).await;
        assert_eq!((words(&response), server.requests().len()), ("ok", total));
    }
}

fn frames(events: &[Value]) -> Vec<u8> {
    let frames = events.iter().map(|event| {
        let kind = event["type"].as_str().unwrap();
        format!("event: {kind}\ndata: {event}\n\n")
    });
    frames.collect::<String>().into_bytes()
}

fn whole(body: &[u8]) -> LlmResponse {
    match answer(vec![body.to_vec()], AnswerForm::Responses).unwrap() {
        Folded::Whole(response) => response,
        cut @ Folded::Cut { .. } => panic!("{cut:?}"),
    }
}

fn sample() -> Vec<u8> {
    let call = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "exec", "arguments": "" });
    let done = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "exec", "arguments": "{\"x\":\"读\"}" });
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "ab" }], "encrypted_content": "E" });
    frames(&[
        json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress" } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "reasoning", "id": "rs_1", "summary": [] } }),
        json!({ "type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0 }),
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "a" }),
        json!({ "type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1 }),
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "b" }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": reasoning }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "item_id": "msg_1", "delta": "日本 🐈" }),
        json!({ "type": "response.refusal.delta", "output_index": 1, "item_id": "msg_1", "delta": " no" }),
        json!({ "type": "response.output_item.added", "output_index": 2, "item": call }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"x\":" }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 2, "delta": "\"读\"}" }),
        json!({ "type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"x\":\"读\"}" }),
        json!({ "type": "response.output_item.done", "output_index": 2, "item": done }),
        json!({ "type": "response.completed", "response": { "status": "completed", "output": [reasoning, done], "usage": {
            "input_tokens": 9, "input_tokens_details": { "cached_tokens": 8 },
            "output_tokens": 4, "output_tokens_details": { "reasoning_tokens": 3 } } } }),
    ])
}

#[test]
fn a_stream_gives_the_same_answer_wherever_it_is_cut() {
    let body = sample();
    let expected = whole(&body);
    assert_eq!(
        expected,
        LlmResponse {
            content: Some("日本 🐈 no".into()),
            reasoning_content: Some("a\n\nb".into()),
            tool_calls: vec![ToolCall::new("c1", "exec", "{\"x\":\"读\"}")],
            thinking_blocks: vec![
                json!({ "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "ab" }], "encrypted_content": "E" })
            ],
            finish_reason: FinishReason::ToolCalls,
            usage: Some(Usage {
                prompt_tokens: 9,
                completion_tokens: 4,
                cached_tokens: 8,
                cache_write_tokens: 0,
                reasoning_tokens: 3,
            }),
            ..LlmResponse::default()
        }
    );
    for cut in 1..body.len() {
        let (first, second) = body.split_at(cut);
        let folded = answer(vec![first.to_vec(), second.to_vec()], AnswerForm::Responses);
        match folded.unwrap() {
            Folded::Whole(response) => assert_eq!(response, expected, "{cut}"),
            cut_off @ Folded::Cut { .. } => panic!("{cut}: {cut_off:?}"),
        }
    }
    // Without its end, the answer is not complete, wherever it breaks off.
    let end = body
        .windows(19)
        .position(|part| part == b"response.completed\n")
        .unwrap();
    for length in (40..end).step_by(7) {
        match answer(vec![body[..length].to_vec()], AnswerForm::Responses) {
            Ok(Folded::Cut { .. }) | Err(_) => {}
            Ok(Folded::Whole(response)) => panic!("{length}: {response:?}"),
        }
    }
}

#[test]
fn items_count_where_no_deltas_came() {
    let output = json!([
        { "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "hm" }], "encrypted_content": "E" },
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "see" }] },
        { "type": "function_call", "call_id": "c1", "name": "exec", "arguments": "{}" },
    ]);
    let items: Vec<Value> = output
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, item)| json!({ "type": "response.output_item.done", "output_index": index, "item": item }))
        .collect();
    let completed = |output: &Value| json!({ "type": "response.completed", "response": { "status": "completed", "output": output } });
    let document =
        json!({ "object": "response", "status": "completed", "error": null, "output": output });
    let bodies = [
        (
            "items",
            frames(&[items.clone(), vec![completed(&json!([]))]].concat()),
        ),
        (
            "items twice",
            frames(&[items.clone(), items, vec![completed(&output)]].concat()),
        ),
        ("end only", frames(&[completed(&output)])),
        ("a document", document.to_string().into_bytes()),
    ];
    for (case, body) in bodies {
        let response = whole(&body);
        assert_eq!(words(&response), "see", "{case}");
        assert_eq!(response.reasoning_content.as_deref(), Some("hm"), "{case}");
        assert_eq!(response.thinking_blocks, [output[0].clone()], "{case}");
        assert_eq!(
            response.tool_calls,
            [ToolCall::new("c1", "exec", "{}")],
            "{case}"
        );
    }
}

#[test]
fn items_without_number_and_id_follow_each_other() {
    let added = |item: &Value| json!({ "type": "response.output_item.added", "item": item });
    let done = |item: &Value| json!({ "type": "response.output_item.done", "item": item });
    let message =
        json!({ "type": "message", "content": [{ "type": "output_text", "text": "one moment" }] });
    let call = json!({ "type": "function_call", "call_id": "c1", "name": "exec", "arguments": "{\"x\":1}" });
    let completed = json!({ "type": "response.completed", "response": { "status": "completed" } });
    for events in [
        vec![done(&message), done(&call), completed.clone()],
        vec![
            added(&message),
            done(&message),
            added(&call),
            done(&call),
            completed,
        ],
    ] {
        let response = whole(&frames(&events));
        assert_eq!(response.content.as_deref(), Some("one moment"));
        let expected = [ToolCall::new("c1", "exec", "{\"x\":1}")];
        assert_eq!(response.tool_calls, expected, "{events:?}");
    }
}

#[tokio::test]
async fn ends_and_errors_are_distinguished() {
    let incomplete = |reason: &str| {
        frames(&[
            json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "half" }),
            json!({ "type": "response.incomplete", "response": { "status": "incomplete", "incomplete_details": { "reason": reason } } }),
        ])
    };
    assert_eq!(
        whole(&incomplete("max_output_tokens")).finish_reason,
        FinishReason::Length
    );
    assert_eq!(
        whole(&incomplete("content_filter")).finish_reason,
        FinishReason::ContentFilter
    );
    let failed = |code: &str, message: &str| json!({ "type": "response.failed", "response": { "status": "failed", "error": { "code": code, "message": message } } });
    let table = [
        (
            failed("rate_limit_exceeded", "slow down"),
            "rate limited: slow down",
        ),
        (failed("server_error", "oops"), "server error 503: oops"),
        (
            failed("context_length_exceeded", "too long"),
            "the conversation is too long for the model: too long",
        ),
        (
            json!({ "type": "error", "code": "insufficient_quota", "message": "no credit", "param": null }),
            "quota exhausted: no credit",
        ),
        (
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "no" } }),
            "request refused: no",
        ),
        (
            json!({ "type": "response.completed", "response": { "status": "cancelled" } }),
            "server error 200: the answer ended as cancelled",
        ),
    ];
    for (event, expected) in table {
        let error = answer(vec![frames(&[event])], AnswerForm::Responses).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let quota = Reply::status(
        429,
        "application/json",
        r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":900}}"#,
    );
    let cut = [
        ("cut", Reply::text("half").then_cut(), "broke off", 3),
        (
            "failed",
            Reply::text("half").then_fail("server_error", "oops"),
            "oops",
            3,
        ),
        ("quota", quota, "usage limit", 1),
    ];
    for (case, reply, expected, requests) in cut {
        let server = ModelServer::answering(move |_| reply.clone())
            .await
            .unwrap();
        let response = router("custom", &server, "m")
            .chat_with_failover(hello(), &watched())
            .await;
        assert_eq!(response.finish_reason, FinishReason::Error, "{case}");
        assert!(words(&response).contains(expected), "{case}: {response:?}");
        assert_eq!(server.requests().len(), requests, "{case}");
    }
}
