//! A conversation that grows keeps the bytes it began with.

use nanobot_provider::ChatRequest;
use nanobot_providers::{ProviderSpec, render};
use nanobot_types::{AssistantMessage, ChatMessage, ToolCall};

use super::support::request;

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

#[test]
fn each_request_begins_with_the_one_before() {
    for name in ["custom", "openrouter", "mistral", "anthropic"] {
        let spec = ProviderSpec::find(name).unwrap();
        let rendered = |request: &ChatRequest| render(spec, &"p".into(), request);
        let messages = conversation();
        // A request ends with the user or with the results of all calls.
        let mut before = rendered(&request(messages[..1].to_vec()));
        for length in [4, 5, 7, 9] {
            let after = rendered(&request(messages[..length].to_vec()));
            assert_eq!((&before.tools, &before.system), (&after.tools, &after.system), "{name}");
            assert!(after.messages.starts_with(&before.messages), "{name} {length}: {before:#?} {after:#?}");
            assert!(!after.messages.concat().contains("cache_control"), "{name}");
            assert_eq!(after, rendered(&request(messages[..length].to_vec())), "{name}");
            before = after;
        }
    }
}
