//! Requests to OpenAI-compatible servers, and the handling of their responses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nanobot_provider::{ChatRequest, Generation, ProviderRouter, ToolChoice};
use nanobot_providers::{HttpClients, ProviderSettings};
use nanobot_testkit::http::{Response, ResponseStep};
use nanobot_testkit::{ModelServer, Reply, ReservedPort, ScriptedCall};
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, FinishReason, LlmResponse, Map, ToolCall,
    Usage, UserMessage,
};
use serde_json::{Value, json};

use super::support::{
    KEY, answered, candidate, context, hello, impatient, looked, quick, request, router, settings,
    words,
};

async fn sent(name: &str, model: &str, request: ChatRequest) -> Value {
    let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    let router = ProviderRouter::new(
        [candidate(name, &settings(&server.base_url()), model)],
        quick(),
    );
    let response = router.chat_with_failover(request, &context()).await;
    assert_eq!(words(&response), "ok", "{response:?}");
    assert_eq!(server.violations(), Vec::<String>::new());
    server.requests()[0].json.clone()
}

#[tokio::test]
async fn request_body_has_exactly_the_expected_members() {
    let mut body = sent(
        "custom",
        "model",
        ChatRequest {
            tools: Arc::new([]),
            ..hello()
        },
    )
    .await;
    assert_eq!(
        body,
        json!({
            "model": "model",
            "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "hello" }],
            "max_tokens": 8192,
            "temperature": 0.1,
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
    body = sent(
        "custom",
        "model",
        ChatRequest {
            tool_choice: ToolChoice::Tool("exec".into()),
            ..hello()
        },
    )
    .await;
    assert_eq!(body["tools"].as_array().unwrap().len(), 4);
    assert_eq!(
        body["tools"][0],
        json!({
            "type": "function",
            "function": {
                "name": "exec",
                "description": "does exec",
                "parameters": { "type": "object", "properties": { "path": { "type": "string" } } },
            },
        })
    );
    assert_eq!(
        body["tool_choice"],
        json!({ "type": "function", "function": { "name": "exec" } })
    );
}

/// SHA-1 of `s`: the name of a chat is not sent to the vendor.
const KEY_OF_S: &str = "a0f1490a20d0211c997b44bc357e1972deab8ae3";

#[tokio::test]
async fn vendors_get_their_own_parameter_names() {
    let effort = |effort: &str| Generation {
        reasoning_effort: Some(effort.to_owned()),
        ..Generation::default()
    };
    let asked = |generation: Generation| ChatRequest {
        generation,
        cache_key: Some("s".into()),
        ..hello()
    };
    let table = [
        (
            "openai",
            "gpt-4o",
            Generation::default(),
            json!({ "max_completion_tokens": 8192, "max_tokens": null, "temperature": 0.1, "prompt_cache_key": KEY_OF_S }),
        ),
        (
            "openai",
            "gpt-5",
            effort("high"),
            json!({ "temperature": null, "reasoning_effort": "high" }),
        ),
        (
            "groq",
            "groq/x",
            effort("low"),
            json!({ "model": "x", "reasoning_effort": "low", "prompt_cache_key": null }),
        ),
        (
            "deepseek",
            "deepseek/deepseek-chat",
            effort("high"),
            json!({ "model": "deepseek-chat", "thinking": { "type": "enabled" } }),
        ),
        (
            "dashscope",
            "qwen3",
            effort("none"),
            json!({ "enable_thinking": false }),
        ),
        (
            "openrouter",
            "x-ai/grok",
            effort("low"),
            json!({ "reasoning": { "effort": "low" } }),
        ),
        (
            "mistral",
            "mistral-large",
            effort("low"),
            json!({ "reasoning_effort": "none" }),
        ),
        (
            "mistral",
            "magistral-medium",
            effort("high"),
            json!({ "reasoning_effort": null }),
        ),
        (
            "moonshot",
            "kimi-k2.5",
            Generation::default(),
            json!({ "temperature": 1.0 }),
        ),
        (
            "ollama",
            "ollama/llama3",
            Generation {
                temperature: None,
                max_tokens: 0,
                ..Generation::default()
            },
            json!({ "model": "llama3", "temperature": null, "max_tokens": 1 }),
        ),
    ];
    for (name, model, generation, expected) in table {
        let body = sent(name, model, asked(generation)).await;
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(
                body.get(member).unwrap_or(&Value::Null),
                value,
                "{name} {model} {member}"
            );
        }
    }
}

#[tokio::test]
async fn cache_marks_go_only_to_vendors_that_support_them() {
    let history = [
        ChatMessage::user("one"),
        ChatMessage::assistant("1"),
        ChatMessage::user("two"),
        ChatMessage::assistant("2"),
        ChatMessage::user("three"),
    ];
    let mark = json!({ "type": "ephemeral" });
    let marked = |text: &str| json!([{ "type": "text", "text": text, "cache_control": mark }]);
    for (name, model, takes) in [
        ("openrouter", "anthropic/claude-opus-4.5", true),
        ("openrouter", "google/gemini-3-pro", true),
        ("openrouter", "x-ai/grok-4", false),
        ("openai", "gpt-4o", false),
    ] {
        let body = sent(name, model, request(history.clone())).await;
        let plain = |text: &str| json!(text);
        let (system, two, three) = match takes {
            true => (marked("Be brief."), marked("two"), marked("three")),
            false => (plain("Be brief."), plain("two"), plain("three")),
        };
        let contents: Vec<&Value> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| &message["content"])
            .collect();
        assert_eq!(
            contents,
            [
                &system,
                &plain("one"),
                &plain("1"),
                &two,
                &plain("2"),
                &three
            ],
            "{name} {model}"
        );
        let tools = body["tools"].as_array().unwrap();
        let tools: Vec<bool> = tools
            .iter()
            .map(|tool| tool.get("cache_control").is_some())
            .collect();
        assert_eq!(tools, [false, false, false, takes], "{name} {model}");
    }
}

#[tokio::test]
async fn renders_awkward_histories_as_valid_requests() {
    let call = |id: &str, arguments: &str| ToolCall::new(id, "read_file", arguments);
    let said = |calls: Vec<ToolCall>| AssistantMessage {
        tool_calls: calls,
        ..AssistantMessage::default()
    };
    let (first, second) = (
        call("functions.read_file:0", "{\"path\": \"a\"}"),
        call("functions.read_file:0", "not json"),
    );
    let blocks = Content::Blocks(vec![
        ContentBlock::Text {
            text: String::new(),
        },
        ContentBlock::Other(json!({ "type": "sticker", "id": 1 })),
    ]);
    let history = [
        ChatMessage::user(""),
        ChatMessage::Assistant(said(vec![first.clone()])),
        ChatMessage::tool(&first, ""),
        ChatMessage::Assistant(said(vec![second.clone()])),
        ChatMessage::tool(&second, "x"),
        ChatMessage::assistant(""),
        ChatMessage::User(UserMessage {
            content: blocks,
            media: Vec::new(),
        }),
    ];
    for vendor in ["custom", "mistral", "openrouter", "anthropic"] {
        let body = sent(vendor, "m", request(history.clone())).await;
        assert!(body.to_string().contains("(empty)"), "{vendor}: {body}");
    }
}

#[tokio::test]
async fn pictures_of_results_follow_them_in_a_message() {
    let [call, result] = looked();
    let history = [ChatMessage::user("look"), call, result];
    let body = sent("custom", "m", request(history.clone())).await;
    let picture = json!({ "role": "user", "content": [
        { "type": "text", "text": "[Pictures of the tool results above]" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } },
    ] });
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[3]["content"], "(a picture)", "{body}");
    assert_eq!(messages[4], picture);
    assert_eq!(messages.len(), 5);

    // The next request begins with the same bytes.
    let said = ChatMessage::assistant("A cat.");
    let longer = history
        .into_iter()
        .chain([said, ChatMessage::user("thanks")]);
    let longer = sent("custom", "m", request(longer)).await;
    assert!(longer["messages"].as_array().unwrap().starts_with(messages));
}

#[tokio::test]
async fn vendor_state_is_sent_only_to_its_vendor() {
    let mut call = ToolCall::new("c1", "exec", "{}");
    call.extra = Map::from_iter([(
        "extra_content".to_owned(),
        json!({ "thought_signature": "s" }),
    )]);
    let said = |provider: &str| {
        ChatMessage::Assistant(AssistantMessage {
            tool_calls: vec![call.clone()],
            reasoning_content: Some("because".into()),
            provider: Some(provider.into()),
            ..AssistantMessage::default()
        })
    };
    let table = [
        ("gemini", "gemini", true),
        ("gemini", "deepseek", false),
        ("mistral", "mistral", false),
    ];
    for (name, provider, has_reasoning) in table {
        let history = [
            ChatMessage::user("x"),
            said(provider),
            ChatMessage::tool(&call, "y"),
        ];
        let body = sent(name, "m", request(history)).await;
        let message = &body["messages"][2];
        assert_eq!(
            message.get("reasoning_content").is_some(),
            has_reasoning,
            "{name} {provider}"
        );
        assert_eq!(
            message["tool_calls"][0].get("extra_content").is_some(),
            name == provider,
            "{name} {provider}"
        );
        assert_eq!(message["content"], Value::Null);
    }
}

#[tokio::test]
async fn refused_parameter_is_omitted_from_then_on() {
    let server = ModelServer::answering(|request| {
        if request.json.get("stream_options").is_some() {
            return Reply::error(400, "Unknown parameter: 'stream_options'");
        }
        if request.json.get("max_tokens").is_some() {
            return Reply::error(
                400,
                "Unsupported parameter: 'max_tokens', use 'max_completion_tokens' instead",
            );
        }
        Reply::text("ok")
    })
    .await
    .unwrap();
    let router = router("custom", &server, quick());
    for total in [3, 4] {
        assert_eq!(
            words(&router.chat_with_failover(hello(), &context()).await),
            "ok"
        );
        assert_eq!(server.requests().len(), total);
    }
    assert_eq!(server.requests()[3].json["max_completion_tokens"], 8192);
}

#[tokio::test]
async fn reads_text_calls_reasoning_and_usage() {
    let calls = [ScriptedCall::new("exec", &json!({ "command": "date" })).with_id("c1")];
    let usage = Usage {
        prompt_tokens: 20,
        completion_tokens: 9,
        cached_tokens: 8,
        cache_write_tokens: 0,
        reasoning_tokens: 3,
    };
    let reply = Reply::deltas(["let ", "me see"])
        .and_calls(calls)
        .with_reasoning("hm", "")
        .with_usage(usage);
    let server = ModelServer::scripted([reply, Reply::text("done")])
        .await
        .unwrap();
    let router = router("custom", &server, quick());
    let response = router.chat_with_failover(hello(), &context()).await;
    assert_eq!(
        response,
        LlmResponse {
            content: Some("let me see".into()),
            tool_calls: vec![ToolCall::new("c1", "exec", r#"{"command":"date"}"#)],
            finish_reason: FinishReason::ToolCalls,
            usage: Some(usage),
            reasoning_content: Some("hm".into()),
            provider: Some("custom".into()),
            model: Some("model".into()),
            ..LlmResponse::default()
        }
    );
    let next = router
        .chat_with_failover(answered(&hello(), &response), &context())
        .await;
    assert_eq!(words(&next), "done");
    assert_eq!(
        server.requests()[1].json["messages"][2]["reasoning_content"],
        "hm"
    );
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn sends_the_key_and_configured_headers() {
    let table = [
        (
            "custom",
            "authorization",
            format!("Bearer {KEY}"),
            "/v1/chat/completions",
        ),
        (
            "azure_openai",
            "api-key",
            KEY.to_owned(),
            "/v1/openai/deployments/model/chat/completions",
        ),
        ("anthropic", "x-api-key", KEY.to_owned(), "/v1/messages"),
    ];
    for (name, header, value, path) in table {
        let server = ModelServer::with_key(KEY, [Reply::text("ok")])
            .await
            .unwrap();
        let settings = ProviderSettings {
            extra_headers: BTreeMap::from([("X-Team".to_owned(), "blue".to_owned())]),
            ..settings(&server.base_url())
        };
        let router = ProviderRouter::new([candidate(name, &settings, "model")], quick());
        assert_eq!(
            words(&router.chat_with_failover(hello(), &context()).await),
            "ok",
            "{name}"
        );
        let request = &server.requests()[0].http;
        assert_eq!(
            (request.header(header), request.header("x-team")),
            (Some(value.as_str()), Some("blue")),
            "{name}"
        );
        assert_eq!(request.path(), path);
    }
}

#[tokio::test]
async fn errors_suggest_a_remedy_and_omit_the_key() {
    let refusing = ModelServer::with_key("another key", []).await.unwrap();
    let response = router("openai", &refusing, quick())
        .chat_with_failover(hello(), &context())
        .await;
    assert!(
        words(&response).contains("providers.openai.apiKey"),
        "{response:?}"
    );
    assert_eq!(refusing.requests().len(), 1);

    let echoing =
        ModelServer::scripted([Reply::error(403, format!("the key {KEY} may not do this"))])
            .await
            .unwrap();
    let response = router("openai", &echoing, quick())
        .chat_with_failover(hello(), &context())
        .await;
    assert!(
        !words(&response).contains(KEY) && words(&response).contains("***"),
        "{response:?}"
    );

    let nobody = ReservedPort::new().unwrap();
    let silent = format!("https://{}/v1", nobody.address());
    let router = ProviderRouter::new([candidate("openai", &settings(&silent), "m")], quick());
    let response = router.chat_with_failover(hello(), &context()).await;
    assert!(
        words(&response).starts_with("openai/m: connection failed: "),
        "{response:?}"
    );

    let address = format!("http://{}", nobody.address());
    let router = ProviderRouter::new(
        [candidate(
            "ollama",
            &settings(&format!("{address}/v1")),
            "m",
        )],
        quick(),
    );
    let response = router.chat_with_failover(hello(), &context()).await;
    assert!(
        words(&response).starts_with(&format!(
            "ollama/m: connection failed: cannot reach {address}"
        )),
        "{response:?}"
    );
    assert!(
        words(&response).contains("running at the address in providers.ollama.apiBase"),
        "{response:?}"
    );
}

#[tokio::test]
async fn cancellation_closes_the_connection() {
    let server = ModelServer::scripted([Reply::text("a").then_stall()])
        .await
        .unwrap();
    let context = context();
    let router = router("custom", &server, nanobot_provider::RetryPolicy::default());
    let (response, ()) = tokio::join!(router.chat_with_failover(hello(), &context), async {
        server.wait_for(1).await.unwrap();
        context.cancel.cancel();
    });
    assert_eq!(words(&response), "Stopped.");
    server.server().wait_for_abandoned(1).await.unwrap();
}

#[tokio::test]
async fn keep_alive_comments_reset_the_idle_timeout() {
    let mut steps = Vec::new();
    // Together longer than the idle limit, each much shorter.
    for _ in 0..8 {
        steps.extend([
            ResponseStep::text(": still here\n\n"),
            ResponseStep::Wait(Duration::from_millis(700)),
        ]);
    }
    steps.push(ResponseStep::text(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    ));
    let server = ModelServer::scripted([Reply::raw(Response::chunked(
        200,
        "text/event-stream",
        steps,
    ))])
    .await
    .unwrap();
    let response = router("custom", &server, impatient())
        .chat_with_failover(hello(), &context())
        .await;
    assert_eq!(words(&response), "ok", "{response:?}");
}

#[test]
fn building_a_provider_needs_no_crypto_provider() {
    // Building a client without a crypto provider would panic; building a provider does not.
    let shown = format!(
        "{:?}",
        (HttpClients::default(), settings("http://127.0.0.1:1/v1"))
    );
    assert!(!shown.contains(KEY), "{shown}");
}
