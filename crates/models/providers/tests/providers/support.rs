//! Routers over real clients, and requests to send with them.

use std::sync::Arc;
use std::time::Duration;

use nanobot_provider::{
    CallAccount, CallContext, Candidate, ChatRequest, Delta, Generation, ProviderRouter,
    RetryPolicy, ToolChoice, TurnMemo,
};
use nanobot_providers::{ApiKey, HttpClients, ProviderSettings, ProviderSpec, Selection, build};
use nanobot_testkit::ModelServer;
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, Effect, ImageUrl, LlmResponse, ToolCall,
    ToolMessage, ToolSource, ToolSpec, Transcript,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) const KEY: &str = "sk-test-0123456789";

/// Returns HTTP clients as a program has them.
pub(crate) fn clients() -> Arc<HttpClients> {
    Arc::new(HttpClients::default())
}

pub(crate) fn quick() -> RetryPolicy {
    RetryPolicy {
        pauses: vec![Duration::from_millis(1); 2],
        longest_pause: Duration::from_secs(5),
        idle: Duration::from_secs(20),
        total: Duration::from_secs(30),
        ..RetryPolicy::default()
    }
}

/// Returns [`quick`] for servers that fall silent. A server that responds has 5 s for it, enough on
/// a busy machine.
pub(crate) fn impatient() -> RetryPolicy {
    RetryPolicy {
        idle: Duration::from_secs(5),
        ..quick()
    }
}

pub(crate) fn settings(base: &str) -> ProviderSettings {
    ProviderSettings {
        api_key: ApiKey::parse(KEY).unwrap(),
        api_base: Some(base.to_owned()),
        ..ProviderSettings::default()
    }
}

pub(crate) fn candidate(name: &str, settings: &ProviderSettings, model: &str) -> Candidate {
    let selection = Selection {
        name: name.into(),
        spec: ProviderSpec::find(name).unwrap(),
    };
    let connection = build(&selection, settings, model, clients()).unwrap();
    Candidate {
        provider: connection.provider,
        model: connection.model,
        generation: Generation::default(),
    }
}

pub(crate) fn router(name: &str, server: &ModelServer, policy: RetryPolicy) -> ProviderRouter {
    ProviderRouter::new(
        [candidate(name, &settings(&server.base_url()), "model")],
        policy,
    )
}

pub(crate) fn tool(name: &str, source: ToolSource) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("does {name}"),
        parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
        effect: Effect::Pure,
        source,
    }
}

pub(crate) fn request(messages: impl IntoIterator<Item = ChatMessage>) -> ChatRequest {
    let tools =
        ["exec", "list_dir", "read_file", "write_file"].map(|name| tool(name, ToolSource::BuiltIn));
    ChatRequest {
        model: "model".into(),
        system: "Be brief.".into(),
        transcript: Transcript::repair(messages.into_iter().map(Arc::new)).transcript,
        tools: Arc::new(tools),
        tool_choice: ToolChoice::Auto,
        generation: Generation::default(),
        cache_key: None,
        estimated_tokens: None,
        memo: TurnMemo::default(),
    }
}

/// Returns a call that looked at a picture, and its result.
pub(crate) fn looked() -> [ChatMessage; 2] {
    let call = ToolCall::new("c1", "read_file", r#"{"path":"p.png"}"#);
    let picture = ContentBlock::ImageUrl {
        image_url: ImageUrl {
            url: "data:image/png;base64,AA==".to_owned(),
        },
    };
    let text = ContentBlock::Text {
        text: "(a picture)".to_owned(),
    };
    [
        ChatMessage::Assistant(AssistantMessage {
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        }),
        ChatMessage::Tool(ToolMessage {
            tool_call_id: call.id,
            name: Some(call.name),
            content: Content::Blocks(vec![picture, text]),
            media: Vec::new(),
        }),
    ]
}

pub(crate) fn hello() -> ChatRequest {
    request([ChatMessage::user("hello")])
}

pub(crate) fn context() -> CallContext {
    CallContext {
        trace: "t".into(),
        account: CallAccount::default(),
        deltas: None,
        cancel: CancellationToken::new(),
    }
}

/// Returns a context whose user sees the text as it streams.
pub(crate) fn watched() -> CallContext {
    CallContext {
        deltas: Some(Arc::new(|_seen: Delta| {})),
        ..context()
    }
}

pub(crate) fn words(response: &LlmResponse) -> &str {
    response.content.as_deref().unwrap_or_default()
}

/// Returns the conversation after a response and an answer to each of its calls.
pub(crate) fn answered(request: &ChatRequest, response: &LlmResponse) -> ChatRequest {
    let results = response
        .tool_calls
        .iter()
        .map(|call: &ToolCall| ChatMessage::tool(call, "result"));
    let messages = request
        .transcript
        .messages()
        .iter()
        .map(|message| (**message).clone());
    let messages = messages
        .chain([ChatMessage::Assistant(response.to_message())])
        .chain(results);
    let transcript = Transcript::repair(messages.map(Arc::new)).transcript;
    ChatRequest {
        transcript,
        ..request.clone()
    }
}
