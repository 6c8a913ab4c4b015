//! Builds the request body.

use nanobot_provider::{ChatRequest, ToolChoice};
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, ModelId, ProviderName, ToolCall,
    ToolMessage, ToolSource, ToolSpec,
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::refusal::ParamNames;
use crate::render::{
    CallIds, EMPTY, RenderedMessages, arguments, digest, number, plain_id, short_id, texts,
    tool_name,
};
use crate::{ProviderSpec, Quirks, ReasoningParam};

/// Parameters that a vendor may reject and that a request can do without.
pub(super) const OPTIONAL: &[&str] = &[
    "stream_options",
    "temperature",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "enable_thinking",
    "reasoning_split",
    "prompt_cache_key",
    "tool_choice",
    "max_completion_tokens",
    "max_tokens",
];

/// Models that accept no temperature.
const FIXED_TEMPERATURE: &[&str] = &["gpt-5", "o1", "o3", "o4", "codex"];

/// Introduces the pictures of tool results.
const RESULT_PICTURES: &str = "[Pictures of the tool results above]";

pub(crate) fn render(
    spec: &ProviderSpec,
    name: &ProviderName,
    request: &ChatRequest,
) -> RenderedMessages {
    RenderedMessages {
        tools: texts(&tools(&request.tools)),
        system: system(&request.system).to_string(),
        messages: texts(&messages(&spec.quirks, name, request)),
    }
}

/// Returns the request body, without the parameters in `refused`.
pub(super) fn body(
    spec: &ProviderSpec,
    name: &ProviderName,
    request: &ChatRequest,
    refused: &ParamNames,
) -> Value {
    let quirks = &spec.quirks;
    let mut body = Map::new();
    let mut conversation = messages(quirks, name, request);
    if !request.system.is_empty() {
        conversation.insert(0, system(&request.system));
    }
    let mut tools = tools(&request.tools);
    if quirks.cache_marks && takes_marks(&request.model) {
        mark(&request.tools, &mut conversation, &mut tools);
    }
    body.insert("model".into(), request.model.as_str().into());
    body.insert("messages".into(), Value::Array(conversation));
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
        body.insert("tool_choice".into(), tool_choice(&request.tool_choice));
    }
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({ "include_usage": true }));
    generation(quirks, request, refused, &mut body);
    for member in refused {
        body.remove(*member);
    }
    Value::Object(body)
}

fn generation(
    quirks: &Quirks,
    request: &ChatRequest,
    refused: &ParamNames,
    body: &mut Map<String, Value>,
) {
    let model = request.model.as_str().to_lowercase();
    let wanted = &request.generation;
    let completion_limit =
        quirks.completion_limit != refused.contains(limit_name(quirks.completion_limit));
    // If the vendor rejected one name of the limit, the limit is sent under the other name, which
    // is then not removed.
    body.insert(
        limit_name(completion_limit).into(),
        wanted.max_tokens.max(1).into(),
    );
    if let Some(temperature) = temperature(quirks, request) {
        body.insert("temperature".into(), temperature.into());
    }
    if let Some((member, value)) = wanted
        .reasoning_effort
        .as_deref()
        .and_then(|effort| thinking(quirks, &model, effort))
    {
        body.insert(member.into(), value);
    }
    if let Some(key) = request.cache_key.as_ref().filter(|_| quirks.cache_key) {
        // Vendors accept at most 64 characters, and chat names must not reach them.
        body.insert("prompt_cache_key".into(), digest(key).into());
    }
}

/// Returns the temperature to send; `None` if the model accepts none.
pub(crate) fn temperature(quirks: &Quirks, request: &ChatRequest) -> Option<f64> {
    let model = request.model.as_str().to_lowercase();
    let wanted = &request.generation;
    let is_fixed = quirks.completion_limit
        && (wanted.reasoning_effort.is_some()
            || FIXED_TEMPERATURE.iter().any(|part| model.contains(part)));
    let own = quirks
        .temperatures
        .iter()
        .find(|(part, _)| model.contains(part))
        .map(|(_, temperature)| *temperature);
    own.or_else(|| wanted.temperature.map(number).filter(|_| !is_fixed))
}

fn limit_name(completion: bool) -> &'static str {
    if completion {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn thinking(quirks: &Quirks, model: &str, effort: &str) -> Option<(&'static str, Value)> {
    let is_off = matches!(effort, "none" | "minimal");
    Some(match quirks.thinking {
        ReasoningParam::Effort => ("reasoning_effort", effort.into()),
        ReasoningParam::ReasoningObject => ("reasoning", json!({ "effort": effort })),
        ReasoningParam::Type => (
            "thinking",
            json!({ "type": if is_off { "disabled" } else { "enabled" } }),
        ),
        ReasoningParam::Flag => ("enable_thinking", (!is_off).into()),
        ReasoningParam::Split => ("reasoning_split", true.into()),
        ReasoningParam::NoneOrHigh if model.contains("magistral") => return None,
        ReasoningParam::NoneOrHigh => (
            "reasoning_effort",
            if is_off || effort == "low" {
                "none"
            } else {
                "high"
            }
            .into(),
        ),
    })
}

fn tools(specs: &[ToolSpec]) -> Vec<Value> {
    let tool = |spec: &ToolSpec| {
        json!({
            "type": "function",
            "function": { "name": spec.name, "description": spec.description, "parameters": spec.parameters },
        })
    };
    specs.iter().map(tool).collect()
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
    }
}

/// Returns `true` for models whose vendors cache only at explicit marks; the others cache by
/// themselves.
fn takes_marks(model: &ModelId) -> bool {
    let model = model.as_str().to_lowercase();
    ["claude", "anthropic/", "gemini"]
        .iter()
        .any(|part| model.contains(part))
}

/// Marks what to cache: the built-in tools, the system prompt, and the two newest user messages.
/// Marking two of them means that the cache entry of the previous request is found again. Tool
/// results are plain text in this protocol and cannot be marked.
fn mark(specs: &[ToolSpec], conversation: &mut [Value], tools: &mut [Value]) {
    let cached = || json!({ "type": "ephemeral" });
    let own = specs
        .iter()
        .take_while(|spec| spec.source == ToolSource::BuiltIn)
        .count();
    if let Some(Value::Object(tool)) = own.checked_sub(1).and_then(|last| tools.get_mut(last)) {
        tool.insert("cache_control".into(), cached());
    }
    let has_role =
        |message: &Value, wanted: &str| message.get("role").is_some_and(|role| role == wanted);
    let system = conversation
        .first()
        .is_some_and(|message| has_role(message, "system"));
    let assistant_message = conversation
        .iter_mut()
        .skip(usize::from(system))
        .rev()
        .filter(|message| has_role(message, "user"));
    assistant_message
        .take(2)
        .for_each(|message| mark_content(message, cached()));
    if let Some(message) = conversation.first_mut().filter(|_| system) {
        mark_content(message, cached());
    }
}

/// Marks the last part of a message, turning plain text into a part.
fn mark_content(message: &mut Value, cached: Value) {
    match message.get_mut("content") {
        Some(content @ Value::String(_)) => {
            *content = json!([{ "type": "text", "text": content.take(), "cache_control": cached }]);
        }
        Some(Value::Array(parts)) => {
            if let Some(Value::Object(part)) = parts.last_mut() {
                part.insert("cache_control".into(), cached);
            }
        }
        _ => {}
    }
}

fn system(text: &str) -> Value {
    json!({ "role": "system", "content": text })
}

fn messages(quirks: &Quirks, name: &ProviderName, request: &ChatRequest) -> Vec<Value> {
    let keep_blocks = request.model.as_str().to_lowercase().contains("claude");
    let mut ids = CallIds::new(if quirks.short_ids { short_id } else { plain_id });
    let mut messages = Vec::new();
    let mut pictures = ResultPictures::default();
    for message in request.transcript.messages() {
        if !matches!(**message, ChatMessage::Tool(_)) {
            messages.extend(pictures.take());
        }
        messages.push(match &**message {
            // The system prompt is sent separately; a transcript has no system messages.
            ChatMessage::System { .. } => continue,
            ChatMessage::User(user) => {
                json!({ "role": "user", "content": user_content(&user.content) })
            }
            ChatMessage::Assistant(assistant_message) => {
                let is_own = assistant_message.provider.as_ref() == Some(name);
                let calls = assistant_message.tool_calls.iter().map(|call| {
                    tool_call(
                        call,
                        ids.call(&call.id, is_own && !quirks.short_ids),
                        is_foreign(assistant_message, name),
                    )
                });
                let calls = calls.collect();
                assistant(quirks, name, keep_blocks, assistant_message, calls)
            }
            ChatMessage::Tool(result) => {
                pictures.add(result);
                tool_result(result, ids.result(&result.tool_call_id))
            }
        });
    }
    messages.extend(pictures.take());
    messages
}

/// Pictures of tool results. Results are plain text in this protocol, so a message from the user
/// shows their pictures after them.
#[derive(Default)]
struct ResultPictures(Vec<Value>);

impl ResultPictures {
    fn add(&mut self, result: &ToolMessage) {
        let Content::Blocks(blocks) = &result.content else {
            return;
        };
        let is_picture = |block: &&ContentBlock| matches!(block, ContentBlock::ImageUrl { .. });
        let pictures = blocks.iter().filter(is_picture).filter_map(part);
        self.0.extend(pictures);
    }

    /// Returns the message with the pictures so far, and forgets them.
    fn take(&mut self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        let mut parts = vec![json!({ "type": "text", "text": RESULT_PICTURES })];
        parts.append(&mut self.0);
        Some(json!({ "role": "user", "content": parts }))
    }
}

/// Returns `true` if another provider made the message. A message without a provider counts as our
/// own.
fn is_foreign(assistant_message: &AssistantMessage, name: &ProviderName) -> bool {
    assistant_message
        .provider
        .as_ref()
        .is_some_and(|provider| provider != name)
}

fn tool_result(result: &ToolMessage, id: String) -> Value {
    let mut message = Map::from_iter([
        ("role".to_owned(), Value::from("tool")),
        ("tool_call_id".to_owned(), id.into()),
        ("content".to_owned(), tool_content(&result.content).into()),
    ]);
    if let Some(tool) = &result.name {
        message.insert("name".into(), tool_name(tool.as_str()).into());
    }
    Value::Object(message)
}

fn assistant(
    quirks: &Quirks,
    name: &ProviderName,
    keep_blocks: bool,
    assistant_message: &AssistantMessage,
    calls: Vec<Value>,
) -> Value {
    let mut message = Map::from_iter([("role".to_owned(), Value::from("assistant"))]);
    let text = assistant_message
        .content
        .as_ref()
        .map(Content::to_text)
        .filter(|text| !text.is_empty());
    let content = match text {
        Some(text) => text.into(),
        None if calls.is_empty() => EMPTY.into(),
        None => Value::Null,
    };
    message.insert("content".into(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    if is_foreign(assistant_message, name) {
        return Value::Object(message);
    }
    if let (Some(member), Some(reasoning)) =
        (quirks.reasoning_back, &assistant_message.reasoning_content)
    {
        message.insert(member.into(), reasoning.as_str().into());
    }
    // Reasoning of the same provider's Responses API means nothing here.
    let is_block = |block: &&Value| block.get("type").is_none_or(|kind| kind != "reasoning");
    let blocks: Vec<Value> = assistant_message
        .thinking_blocks
        .iter()
        .filter(is_block)
        .cloned()
        .collect();
    if keep_blocks && !blocks.is_empty() {
        message.insert("thinking_blocks".into(), blocks.into());
    }
    Value::Object(message)
}

/// Builds a tool call. The members that a vendor added to its call are sent back to that vendor
/// only.
fn tool_call(call: &ToolCall, id: String, is_foreign: bool) -> Value {
    let text = if is_object(&call.arguments) {
        call.arguments.clone()
    } else {
        Value::Object(arguments(call)).to_string()
    };
    let (mut outer, mut function) = if is_foreign {
        (Map::new(), Map::new())
    } else {
        (call.extra.clone(), call.function_extra.clone())
    };
    function.insert("name".into(), tool_name(call.name.as_str()).into());
    function.insert("arguments".into(), text.into());
    outer.insert("id".into(), id.into());
    outer.insert("type".into(), "function".into());
    outer.insert("function".into(), Value::Object(function));
    Value::Object(outer)
}

/// Returns `true` for the text of a JSON object.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn user_content(content: &Content) -> Value {
    let Content::Blocks(blocks) = content else {
        let text = content.to_text();
        return if text.is_empty() {
            EMPTY.into()
        } else {
            text.into()
        };
    };
    let parts: Vec<Value> = blocks.iter().filter_map(part).collect();
    if parts.is_empty() {
        EMPTY.into()
    } else {
        parts.into()
    }
}

/// Returns the part for a block; `None` for the private blocks of other programs.
fn part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } => text_part(text),
        ContentBlock::ImageUrl { image_url } => {
            Some(json!({ "type": "image_url", "image_url": { "url": image_url.url } }))
        }
        ContentBlock::Other(value) => match value.get("type")?.as_str()? {
            "input_text" | "output_text" => text_part(value.get("text")?.as_str()?),
            "input_audio" | "file" => Some(value.clone()),
            _ => None,
        },
    }
}

fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "type": "text", "text": text }))
}

/// Returns a tool result as text, the only form that the API accepts there.
fn tool_content(content: &Content) -> String {
    let text = match content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => {
            let texts = blocks.iter().filter_map(|block| match block {
                ContentBlock::Text { text } => Some(text.as_str()),
                ContentBlock::ImageUrl { .. } => None,
                ContentBlock::Other(value) => value.get("text").and_then(Value::as_str),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    };
    if text.is_empty() {
        EMPTY.to_owned()
    } else {
        text
    }
}
