//! A conversation that grows keeps the bytes it began with.

use std::sync::Arc;

use nanobot_provider::{ChatRequest, ProviderRouter, TurnMemo};
use nanobot_providers::{ApiType, ProviderSettings, ProviderSpec, render};
use nanobot_testkit::{ModelServer, Reply};
use nanobot_types::{AssistantMessage, ChatMessage, ToolCall, Transcript};
use serde_json::Value;

use super::support::{candidate, context, quick, request, router, settings};

fn conversation() -> Vec<ChatMessage> {
    let call = |id: &str| ToolCall::new(id, "read_file", "{\"path\": \"a\"}");
    let said = |calls: Vec<ToolCall>| {
        ChatMessage::Assistant(AssistantMessage {
            content: Some("so".into()),
            tool_calls: calls,
            reasoning_content: Some("hm".into()),
            provider: Some("p".into()),
            ..AssistantMessage::default()
        })
    };
    vec![
        ChatMessage::user("one"),
        said(vec![call("1"), call("2")]),
        ChatMessage::tool(&call("1"), "x"),
        ChatMessage::tool(&call("2"), ""),
        ChatMessage::user("steered"),
        said(vec![call("1")]),
        ChatMessage::tool(&call("1"), "again"),
        said(Vec::new()),
        ChatMessage::user("two"),
    ]
}

/// A turn keeps what it serialised. That must not show in any request, also not in one of another
/// conversation or of a shorter one.
#[tokio::test]
async fn requests_of_a_turn_have_the_bytes_of_single_requests() {
    // Reasoning of another provider would be taken out of new copies for each request.
    let shared = || -> Vec<Arc<ChatMessage>> {
        let own = conversation().into_iter().map(|message| match message {
            ChatMessage::Assistant(said) => ChatMessage::Assistant(AssistantMessage {
                provider: None,
                ..said
            }),
            other => other,
        });
        own.map(Arc::new).collect()
    };
    let (messages, mut others) = (shared(), shared());
    others[0] = Arc::new(ChatMessage::user("another"));
    let rounds = [1, 4, 5, 7, 9, 5].map(|length| &messages[..length]);
    let apis = [ApiType::Auto, ApiType::Responses];
    let rows = ["custom", "mistral", "openrouter", "anthropic"].map(|name| (name, apis[0]));
    for (name, api_type) in rows.into_iter().chain([("custom", apis[1])]) {
        let server = ModelServer::answering(|_| Reply::text("ok")).await.unwrap();
        let settings = ProviderSettings {
            api_type,
            ..settings(&server.base_url())
        };
        let router = ProviderRouter::new([candidate(name, &settings, "claude-m")], quick());
        let turn = TurnMemo::default();
        for sent in rounds.into_iter().chain([&others[..7]]) {
            for memo in [&turn, &TurnMemo::default()] {
                let request = ChatRequest {
                    transcript: Transcript::repair(sent.iter().cloned()).transcript,
                    memo: memo.clone(),
                    ..request([])
                };
                let response = router.chat_with_failover(request, &context()).await;
                assert_eq!(response.content.as_deref(), Some("ok"), "{name}");
            }
        }
        assert_eq!(server.violations(), Vec::<String>::new(), "{name}");
        let requests = server.requests();
        for (number, pair) in requests.chunks(2).enumerate() {
            let [of_turn, single] = pair else {
                panic!("{}", requests.len())
            };
            assert_eq!(
                of_turn.http.body, single.http.body,
                "{name} {api_type:?} {number}"
            );
        }
    }
}

#[test]
fn each_request_extends_the_previous_one() {
    for name in [
        "custom",
        "openrouter",
        "mistral",
        "anthropic",
        "openai_codex",
    ] {
        let spec = ProviderSpec::find(name).unwrap();
        let rendered = |request: &ChatRequest| render(spec, &"p".into(), request);
        let messages = conversation();
        // A request ends with the user or with the results of all calls.
        let mut before = rendered(&request(messages[..1].to_vec()));
        for length in [4, 5, 7, 9] {
            let after = rendered(&request(messages[..length].to_vec()));
            assert_eq!(
                (&before.tools, &before.system),
                (&after.tools, &after.system),
                "{name}"
            );
            assert!(
                after.messages.starts_with(&before.messages),
                "{name} {length}: {before:#?} {after:#?}"
            );
            assert!(!after.messages.concat().contains("cache_control"), "{name}");
            assert_eq!(
                after,
                rendered(&request(messages[..length].to_vec())),
                "{name}"
            );
            before = after;
        }
    }
}

/// Returns the blocks of a request's messages, and which of them are marked.
fn blocks(body: &Value) -> Vec<(String, bool)> {
    let messages = body["messages"].as_array().unwrap().iter();
    let blocks = messages.flat_map(|message| message["content"].as_array().unwrap());
    blocks
        .map(|block| {
            let mut block = block.clone();
            let mark = block.as_object_mut().unwrap().remove("cache_control");
            (block.to_string(), mark.is_some())
        })
        .collect()
}

#[tokio::test]
async fn next_request_finds_the_cached_prefix() {
    let mut history = Vec::new();
    let mut requests = Vec::new();
    for turn in 0..5 {
        history.push(ChatMessage::user(format!("turn {turn}")));
        requests.push(request(history.clone()));
        // More calls than the API looks back over.
        let calls: Vec<ToolCall> = (0..15)
            .map(|call| ToolCall::new(format!("{turn}-{call}"), "read_file", "{}"))
            .collect();
        history.push(ChatMessage::Assistant(AssistantMessage {
            tool_calls: calls.clone(),
            ..AssistantMessage::default()
        }));
        history.extend(calls.iter().map(|call| ChatMessage::tool(call, "x")));
        requests.push(request(history.clone()));
        history.push(ChatMessage::assistant("done"));
    }
    let server = ModelServer::answering(|_| Reply::text("ok")).await.unwrap();
    let router = router("anthropic", &server, quick());
    for request in requests {
        router.chat_with_failover(request, &context()).await;
    }
    assert_eq!(server.violations(), Vec::<String>::new());
    let mut before: Vec<(String, bool)> = Vec::new();
    for request in server.requests() {
        let after = blocks(&request.json);
        assert!(
            after
                .iter()
                .zip(&before)
                .all(|((after, _), (before, _))| after == before)
        );
        let end = before.len().checked_sub(1);
        assert!(
            end.is_none_or(|end| after[end].1),
            "where the request before ended is marked: {after:#?}"
        );
        assert!(after.last().unwrap().1);
        before = after;
    }
}
