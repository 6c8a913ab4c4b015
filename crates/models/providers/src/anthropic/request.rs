//! Builds the request body.

use std::borrow::Cow;

use nanobot_provider::{ChatRequest, ToolChoice};
use nanobot_types::{ChatMessage, ProviderName, ToolSource, ToolSpec};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::conversation::{SentBlocks, blocks, conversation, thoughts};
use crate::refusal::ParamNames;
use crate::render::{CacheControl, RenderedMessages, number, text, texts};
use crate::settings::ExtraBody;

/// Smallest thinking budget that the API accepts, in tokens.
const LEAST_BUDGET: u32 = 1024;

/// Parameters that a model may reject and that a request can do without.
pub(super) const OPTIONAL: &[&str] = &["temperature", "thinking"];

/// A request body. It has no `Debug`, because the configured parameters may contain keys.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[SystemBlock<'a>; 1]>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    /// All other members. The members above are not among them: the configuration may not set them.
    #[serde(flatten)]
    pub(super) parameters: Map<String, Value>,
}

/// The system prompt.
#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct SystemBlock<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

/// Adjacent blocks of one role.
#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Cow<'a, RawValue>>,
}

/// A tool.
#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

pub(crate) fn render(name: &ProviderName, request: &ChatRequest) -> RenderedMessages {
    let sent = conversation(name, request);
    let block = |(role, block): &(&str, Cow<'_, RawValue>)| {
        text(&json!({ "role": role, "content": block }))
    };
    RenderedMessages {
        tools: texts(&tools(&request.tools)),
        system: text(&system(&request.system, None)),
        messages: blocks(&sent).iter().map(block).collect(),
    }
}

/// Returns the request body, without the parameters in `refused` and with those in `extra`.
pub(super) fn body<'a>(
    name: &ProviderName,
    request: &'a ChatRequest,
    refused: &ParamNames,
    extra: &ExtraBody,
    conversation: &'a SentBlocks,
) -> Body<'a> {
    let mut parameters = Map::new();
    let mut tools = tools(&request.tools);
    mark_tools(&request.tools, &mut tools);
    let mut messages = merged(blocks(conversation));
    mark_newest(&mut messages);
    parameters.insert("stream".into(), true.into());
    generation(name, request, &mut parameters);
    if !tools.is_empty() {
        parameters.insert("tool_choice".into(), tool_choice(&request.tool_choice));
    }
    for member in refused {
        parameters.remove(*member);
    }
    extra.add_to(&mut parameters);
    let has_system = !request.system.trim().is_empty();
    Body {
        model: request.model.as_str(),
        system: has_system.then(|| [system(&request.system, Some(CacheControl::Ephemeral))]),
        messages,
        tools,
        parameters,
    }
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

fn system(text: &str, cache_control: Option<CacheControl>) -> SystemBlock<'_> {
    SystemBlock {
        text,
        cache_control,
    }
}

fn tools(specs: &[ToolSpec]) -> Vec<Tool<'_>> {
    specs.iter().map(tool).collect()
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    Tool {
        name: spec.name.as_str(),
        description: &spec.description,
        input_schema: &spec.parameters,
        cache_control: None,
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({ "type": "auto" }),
        ToolChoice::None => json!({ "type": "none" }),
        ToolChoice::Tool(name) => json!({ "type": "tool", "name": name }),
    }
}

/// Returns an object with a cache mark: the prompt up to and including it is cached.
fn marked(object: &RawValue) -> Option<Box<RawValue>> {
    let members = object.get().strip_suffix('}')?;
    let mark = text(&CacheControl::Ephemeral);
    RawValue::from_string(format!("{members},\"cache_control\":{mark}}}")).ok()
}

/// Marks the last of the built-in tools. The external tools after them come and go; the mark on the
/// system prompt covers all tools.
fn mark_tools(specs: &[ToolSpec], tools: &mut [Tool<'_>]) {
    let own = specs
        .iter()
        .take_while(|spec| spec.source == ToolSource::BuiltIn)
        .count();
    if let Some(tool) = own.checked_sub(1).and_then(|last| tools.get_mut(last)) {
        tool.cache_control = Some(CacheControl::Ephemeral);
    }
}

/// Marks the ends of this request and of the previous one, so that the marks move with the
/// conversation. From a mark the API looks back over 20 blocks only, and a turn with many calls is
/// longer than that.
fn mark_newest(messages: &mut [Message<'_>]) {
    let newest = messages.iter_mut().rev();
    for message in newest.filter(|message| message.role == "user").take(2) {
        if let Some(block) = message.content.last_mut()
            && let Some(marked) = marked(block)
        {
            *block = Cow::Owned(marked);
        }
    }
}

/// Merges adjacent blocks of one role into messages, so that the roles alternate.
fn merged<'a>(blocks: Vec<(&'static str, Cow<'a, RawValue>)>) -> Vec<Message<'a>> {
    let mut messages: Vec<Message<'_>> = Vec::new();
    for (role, block) in blocks {
        match messages.last_mut() {
            Some(message) if message.role == role => message.content.push(block),
            _ => messages.push(Message {
                role,
                content: vec![block],
            }),
        }
    }
    messages
}
