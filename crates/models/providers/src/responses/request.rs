//! Builds the request body.

use nanobot_provider::{ChatRequest, ToolChoice};
use nanobot_types::{AssistantMessage, ChatMessage, Content, ContentBlock, ProviderName, ToolSpec};
use serde_json::{Map, Value, json};

use crate::ProviderSpec;
use crate::openai::temperature;
use crate::refusal::ParamNames;
use crate::render::{
    CallIds, EMPTY, RenderedMessages, arguments, digest, plain_id, texts, tool_name,
};

/// Parameters that a model may reject and that a request can do without. `store` is not among them:
/// without it, the vendor would keep the conversation.
pub(super) const OPTIONAL: &[&str] = &[
    "temperature",
    "max_output_tokens",
    "reasoning",
    "prompt_cache_key",
    "parallel_tool_calls",
    "tool_choice",
    INCLUDE,
];

/// The parameter that asks for reasoning to send back.
pub(super) const INCLUDE: &str = "include";

/// Smallest limit that the API accepts, in tokens.
const LEAST_LIMIT: u32 = 16;

pub(crate) fn render(name: &ProviderName, request: &ChatRequest) -> RenderedMessages {
    RenderedMessages {
        tools: texts(&tools(&request.tools)),
        system: Value::from(&*request.system).to_string(),
        messages: texts(&input(name, request, true)),
    }
}

/// Returns the request body, without the parameters in `refused`. Reasoning of earlier turns is sent
/// back `with_reasoning`.
pub(super) fn body(
    spec: &ProviderSpec,
    name: &ProviderName,
    request: &ChatRequest,
    refused: &ParamNames,
    with_reasoning: bool,
) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    body.insert("instructions".into(), (*request.system).into());
    body.insert("input".into(), input(name, request, with_reasoning).into());
    let tools = tools(&request.tools);
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
        body.insert("tool_choice".into(), tool_choice(&request.tool_choice));
        body.insert("parallel_tool_calls".into(), true.into());
    }
    body.insert("stream".into(), true.into());
    body.insert("store".into(), false.into());
    body.insert(INCLUDE.into(), json!(["reasoning.encrypted_content"]));
    generation(spec, request, &mut body);
    for member in refused {
        body.remove(*member);
    }
    Value::Object(body)
}

fn generation(spec: &ProviderSpec, request: &ChatRequest, body: &mut Map<String, Value>) {
    let (quirks, wanted) = (&spec.quirks, &request.generation);
    if !quirks.fixed_generation {
        let limit = wanted.max_tokens.max(LEAST_LIMIT);
        body.insert("max_output_tokens".into(), limit.into());
        if let Some(temperature) = temperature(quirks, request) {
            body.insert("temperature".into(), temperature.into());
        }
    }
    if let Some(effort) = &wanted.reasoning_effort {
        body.insert("reasoning".into(), json!({ "effort": effort }));
    }
    if let Some(verbosity) = quirks.verbosity {
        body.insert("text".into(), json!({ "verbosity": verbosity }));
    }
    if let Some(key) = request.cache_key.as_ref().filter(|_| quirks.cache_key) {
        // Vendors accept at most 64 characters, and chat names must not reach them.
        body.insert("prompt_cache_key".into(), digest(key).into());
    }
}

/// Returns the tools. Strict schemas are the default of this API, and ours are not strict.
fn tools(specs: &[ToolSpec]) -> Vec<Value> {
    let tool = |spec: &ToolSpec| {
        json!({
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
            "strict": false,
        })
    };
    specs.iter().map(tool).collect()
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({ "type": "function", "name": name }),
    }
}

/// `true` if a body sends reasoning back.
pub(super) fn has_reasoning(body: &Value) -> bool {
    let items = body.get("input").and_then(Value::as_array);
    items.into_iter().flatten().any(is_reasoning)
}

fn is_reasoning(item: &Value) -> bool {
    item.get("type").is_some_and(|kind| kind == "reasoning")
}

fn input(name: &ProviderName, request: &ChatRequest, with_reasoning: bool) -> Vec<Value> {
    let mut ids = CallIds::new(plain_id);
    let mut items = Vec::new();
    for message in request.transcript.messages() {
        match &**message {
            // The system prompt is sent separately; a transcript has no system messages.
            ChatMessage::System { .. } => {}
            ChatMessage::User(user) => {
                items.push(json!({ "type": "message", "role": "user", "content": user_content(&user.content) }));
            }
            ChatMessage::Assistant(said) => {
                items.extend(reasoning(name, said).filter(|_| with_reasoning).cloned());
                assistant(said, &mut ids, &mut items);
            }
            ChatMessage::Tool(result) => items.push(json!({
                "type": "function_call_output",
                "call_id": ids.result(&result.tool_call_id),
                "output": output(&result.content),
            })),
        }
    }
    items
}

/// Returns the reasoning that this provider encrypted. No other one can read it.
fn reasoning<'a>(
    name: &ProviderName,
    said: &'a AssistantMessage,
) -> impl Iterator<Item = &'a Value> {
    let is_own = said.provider.as_ref() == Some(name);
    let is_encrypted =
        |item: &&Value| is_reasoning(item) && item.get("encrypted_content").is_some();
    said.thinking_blocks
        .iter()
        .filter(is_encrypted)
        .filter(move |_| is_own)
}

fn assistant(said: &AssistantMessage, ids: &mut CallIds, items: &mut Vec<Value>) {
    let words = said.content.as_ref().map(Content::to_text);
    let words = words.filter(|words| !words.is_empty());
    let words = words.or_else(|| said.tool_calls.is_empty().then(|| EMPTY.into()));
    if let Some(words) = words {
        let content = json!([{ "type": "output_text", "text": words }]);
        items.push(json!({ "type": "message", "role": "assistant", "content": content }));
    }
    for call in &said.tool_calls {
        let text = match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
            Ok(_) => call.arguments.clone(),
            Err(_not_an_object) => Value::Object(arguments(call)).to_string(),
        };
        items.push(json!({
            "type": "function_call",
            "call_id": ids.call(&call.id, false),
            "name": tool_name(call.name.as_str()),
            "arguments": text,
        }));
    }
}

fn user_content(content: &Content) -> Value {
    let parts = parts(content);
    if parts.is_empty() {
        json!([{ "type": "input_text", "text": EMPTY }])
    } else {
        parts.into()
    }
}

/// Returns a tool result: text, or parts if there are pictures.
fn output(content: &Content) -> Value {
    let parts = parts(content);
    let text = |part: &Value| Some(part.get("text")?.as_str()?.to_owned());
    let texts: Option<Vec<String>> = parts.iter().map(text).collect();
    match texts {
        Some(texts) if texts.is_empty() => EMPTY.into(),
        Some(texts) => texts.join("\n").into(),
        None => parts.into(),
    }
}

fn parts(content: &Content) -> Vec<Value> {
    match content {
        Content::Text(text) => text_part(text).into_iter().collect(),
        Content::Blocks(blocks) => blocks.iter().filter_map(part).collect(),
    }
}

/// Returns the part for a block; `None` for the private blocks of other programs.
fn part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } => text_part(text),
        ContentBlock::ImageUrl { image_url } => {
            Some(json!({ "type": "input_image", "image_url": image_url.url, "detail": "auto" }))
        }
        ContentBlock::Other(value) => match value.get("type")?.as_str()? {
            "input_text" | "output_text" => text_part(value.get("text")?.as_str()?),
            "file" => {
                let mut file = value.get("file")?.as_object()?.clone();
                file.insert("type".into(), "input_file".into());
                Some(Value::Object(file))
            }
            _ => None,
        },
    }
}

fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "type": "input_text", "text": text }))
}
