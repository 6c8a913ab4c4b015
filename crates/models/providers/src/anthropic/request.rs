//! Builds the request body.

use nanobot_provider::{ChatRequest, ToolChoice};
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, ProviderName, ToolMessage, ToolSource,
    ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::refusal::ParamNames;
use crate::render::{
    CallIds, EMPTY, IMAGE_OMITTED, RenderedMessages, arguments, number, plain_id, texts, tool_name,
};

/// Smallest thinking budget that the API accepts, in tokens.
const LEAST_BUDGET: u32 = 1024;

/// Parameters that a model may reject and that a request can do without.
pub(super) const OPTIONAL: &[&str] = &["temperature", "thinking"];

const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// A content block and the role that says it. Adjacent blocks of one role become one message.
#[derive(Clone, Debug, PartialEq)]
struct RoleBlock {
    role: &'static str,
    block: Value,
}

pub(crate) fn render(name: &ProviderName, request: &ChatRequest) -> RenderedMessages {
    let blocks = conversation(name, request);
    RenderedMessages {
        tools: texts(&tools(&request.tools)),
        system: system(&request.system).to_string(),
        messages: blocks
            .iter()
            .map(|assistant_message| {
                json!({ "role": assistant_message.role, "content": assistant_message.block })
                    .to_string()
            })
            .collect(),
    }
}

/// Returns the request body, without the parameters in `refused`.
pub(super) fn body(name: &ProviderName, request: &ChatRequest, refused: &ParamNames) -> Value {
    let mut body = Map::new();
    let mut tools = tools(&request.tools);
    mark_tools(&request.tools, &mut tools);
    let mut messages = merged(conversation(name, request));
    mark_newest(&mut messages);
    body.insert("model".into(), request.model.as_str().into());
    if !request.system.trim().is_empty() {
        let mut system = system(&request.system);
        mark(&mut system);
        body.insert("system".into(), json!([system]));
    }
    body.insert("messages".into(), Value::Array(messages));
    body.insert("stream".into(), true.into());
    generation(name, request, &mut body);
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
        body.insert("tool_choice".into(), tool_choice(&request.tool_choice));
    }
    for member in refused {
        body.remove(*member);
    }
    Value::Object(body)
}

fn generation(name: &ProviderName, request: &ChatRequest, body: &mut Map<String, Value>) {
    let wanted = &request.generation;
    let limit = wanted.max_tokens.max(1);
    let thinking = wanted
        .reasoning_effort
        .as_deref()
        .filter(|_| may_think(name, request))
        .and_then(thinking);
    match thinking {
        // With thinking, the API accepts only its own default temperature.
        Some(ThinkingParam::Budget(budget)) => {
            body.insert(
                "thinking".into(),
                json!({ "type": "enabled", "budget_tokens": budget }),
            );
            // The budget counts towards the limit, so the limit must leave room for the reply as
            // well.
            let limit = if limit > budget {
                limit
            } else {
                budget.saturating_add(limit)
            };
            body.insert("max_tokens".into(), limit.into());
        }
        Some(ThinkingParam::Adaptive) => {
            body.insert("thinking".into(), json!({ "type": "adaptive" }));
            body.insert("max_tokens".into(), limit.into());
        }
        None => {
            body.insert("max_tokens".into(), limit.into());
            if let Some(temperature) = wanted.temperature {
                body.insert("temperature".into(), number(temperature).into());
            }
        }
    }
}

enum ThinkingParam {
    Budget(u32),
    Adaptive,
}

fn thinking(effort: &str) -> Option<ThinkingParam> {
    Some(match effort {
        "none" => return None,
        "adaptive" => ThinkingParam::Adaptive,
        "medium" => ThinkingParam::Budget(2048),
        "high" => ThinkingParam::Budget(4096),
        "xhigh" => ThinkingParam::Budget(8192),
        "max" => ThinkingParam::Budget(16_384),
        _ => ThinkingParam::Budget(LEAST_BUDGET),
    })
}

/// Returns `true` if the request may ask for thinking. Thinking excludes a forced tool, and each
/// tool call of the turn in progress must come with the thinking block that led to it. Calls that
/// another provider's model made have none.
fn may_think(name: &ProviderName, request: &ChatRequest) -> bool {
    if matches!(request.tool_choice, ToolChoice::Tool(_)) {
        return false;
    }
    let newest_turn = request
        .transcript
        .messages()
        .iter()
        .rev()
        .take_while(|message| message.role() != "user");
    !newest_turn.into_iter().any(|message| match &**message {
        ChatMessage::Assistant(assistant_message) => {
            !assistant_message.tool_calls.is_empty()
                && thoughts(name, assistant_message).next().is_none()
        }
        _ => false,
    })
}

fn system(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn tools(specs: &[ToolSpec]) -> Vec<Value> {
    let tool = |spec: &ToolSpec| json!({ "name": spec.name, "description": spec.description, "input_schema": spec.parameters });
    specs.iter().map(tool).collect()
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({ "type": "auto" }),
        ToolChoice::None => json!({ "type": "none" }),
        ToolChoice::Tool(name) => json!({ "type": "tool", "name": name }),
    }
}

/// Sets a cache mark: the prompt up to and including this block is cached.
fn mark(block: &mut Value) {
    if let Value::Object(block) = block {
        block.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
}

/// Marks the last of the built-in tools. The external tools after them come and go; the mark on the
/// system prompt covers all tools.
fn mark_tools(specs: &[ToolSpec], tools: &mut [Value]) {
    let own = specs
        .iter()
        .take_while(|spec| spec.source == ToolSource::BuiltIn)
        .count();
    if let Some(tool) = own.checked_sub(1).and_then(|last| tools.get_mut(last)) {
        mark(tool);
    }
}

/// Marks the ends of this request and of the previous one, so that the marks move with the
/// conversation. From a mark the API looks back over 20 blocks only, and a turn with many calls is
/// longer than that.
fn mark_newest(messages: &mut [Value]) {
    let assistant_message = messages
        .iter_mut()
        .rev()
        .filter(|message| message.get("role").is_some_and(|role| role == "user"));
    for message in assistant_message.take(2) {
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        if let Some(block) = blocks.and_then(|blocks| blocks.last_mut()) {
            mark(block);
        }
    }
}

/// Merges adjacent blocks of one role into messages, so that the roles alternate.
fn merged(conversation: Vec<RoleBlock>) -> Vec<Value> {
    let mut groups: Vec<(&str, Vec<Value>)> = Vec::new();
    for assistant_message in conversation {
        match groups.last_mut() {
            Some((role, blocks)) if *role == assistant_message.role => {
                blocks.push(assistant_message.block);
            }
            _ => groups.push((assistant_message.role, vec![assistant_message.block])),
        }
    }
    groups
        .into_iter()
        .map(|(role, blocks)| json!({ "role": role, "content": blocks }))
        .collect()
}

/// Returns all blocks of the conversation. It begins and ends with the user, with a filler if
/// needed.
fn conversation(name: &ProviderName, request: &ChatRequest) -> Vec<RoleBlock> {
    let mut assistant_message = Vec::new();
    let mut ids = CallIds::new(plain_id);
    for message in request.transcript.messages() {
        let (role, blocks) = match &**message {
            // The system prompt is sent separately; a transcript has no system messages.
            ChatMessage::System { .. } => continue,
            ChatMessage::User(user) => ("user", or_empty(content(&user.content))),
            ChatMessage::Assistant(message) => {
                ("assistant", or_empty(assistant(name, message, &mut ids)))
            }
            ChatMessage::Tool(result) => (
                "user",
                vec![tool_result(result, &ids.result(&result.tool_call_id))],
            ),
        };
        assistant_message.extend(blocks.into_iter().map(|block| RoleBlock { role, block }));
    }
    let filler = || RoleBlock {
        role: "user",
        block: text(EMPTY),
    };
    if assistant_message
        .first()
        .is_none_or(|first| first.role != "user")
    {
        assistant_message.insert(0, filler());
    }
    if assistant_message
        .last()
        .is_none_or(|last| last.role != "user")
    {
        assistant_message.push(filler());
    }
    assistant_message
}

fn or_empty(mut blocks: Vec<Value>) -> Vec<Value> {
    if blocks.is_empty() {
        blocks.push(text(EMPTY));
    }
    blocks
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns the signed thinking blocks that this provider made.
fn thoughts<'a>(
    name: &ProviderName,
    assistant_message: &'a AssistantMessage,
) -> impl Iterator<Item = &'a Value> {
    let is_own = assistant_message
        .provider
        .as_ref()
        .is_none_or(|provider| provider == name);
    let has_text = |block: &Value, member: &str| {
        block
            .get(member)
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    assistant_message
        .thinking_blocks
        .iter()
        .filter(move |block| {
            let is_signed = match block.get("type").and_then(Value::as_str) {
                Some("thinking") => has_text(block, "signature"),
                Some("redacted_thinking") => has_text(block, "data"),
                _ => false,
            };
            is_own && is_signed
        })
}

fn assistant(
    name: &ProviderName,
    assistant_message: &AssistantMessage,
    ids: &mut CallIds,
) -> Vec<Value> {
    let mut blocks: Vec<Value> = thoughts(name, assistant_message).cloned().collect();
    let words = assistant_message
        .content
        .as_ref()
        .map(Content::to_text)
        .unwrap_or_default();
    if !words.trim().is_empty() {
        blocks.push(text(&words));
    }
    let calls = assistant_message.tool_calls.iter().map(|call| {
        let name = tool_name(call.name.as_str());
        json!({ "type": "tool_use", "id": ids.call(&call.id, false), "name": name, "input": arguments(call) })
    });
    blocks.extend(calls);
    // A message may not consist of thinking blocks alone.
    if blocks.iter().all(|block| {
        block
            .get("type")
            .is_some_and(|kind| kind != "text" && kind != "tool_use")
    }) {
        blocks.push(text(EMPTY));
    }
    blocks
}

fn tool_result(result: &ToolMessage, id: &str) -> Value {
    let blocks = or_empty(content(&result.content));
    json!({ "type": "tool_result", "tool_use_id": id, "content": blocks })
}

fn content(content: &Content) -> Vec<Value> {
    match content {
        Content::Text(words) => text_block(words).into_iter().collect(),
        Content::Blocks(blocks) => blocks.iter().filter_map(block).collect(),
    }
}

fn block(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } => text_block(text),
        ContentBlock::ImageUrl { image_url } => Some(image(&image_url.url)),
        ContentBlock::Other(value) => value
            .get("text")
            .and_then(Value::as_str)
            .and_then(text_block),
    }
}

/// Returns a text block, or `None` for blank text, which the API rejects.
fn text_block(words: &str) -> Option<Value> {
    (!words.trim().is_empty()).then(|| text(words))
}

fn image(url: &str) -> Value {
    let Some(data) = url.strip_prefix("data:") else {
        return json!({ "type": "image", "source": { "type": "url", "url": url } });
    };
    match data.split_once(";base64,") {
        Some((kind, data)) if IMAGE_TYPES.contains(&kind) => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": kind, "data": data } })
        }
        _ => text(IMAGE_OMITTED),
    }
}
