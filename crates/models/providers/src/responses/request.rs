//! Builds the request body.

use nanobot_provider::{ChatRequest, ToolChoice};
use nanobot_types::{AssistantMessage, ChatMessage, Content, ContentBlock, ProviderName, ToolSpec};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::ProviderSpec;
use crate::openai::temperature;
use crate::refusal::ParamNames;
use crate::render::{
    CallIds, EMPTY, RenderedMessages, arguments, digest, plain_id, texts, tool_name,
};
use crate::sent::SentConversation;
use crate::settings::ExtraBody;

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

/// An item of the conversation, serialised.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct InputItem(Box<RawValue>);

/// Items of the conversation, serialised.
pub(super) type SentInput = SentConversation<InputItem>;

/// A request body. It has no `Debug`, because the configured parameters may contain keys.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    instructions: &'a str,
    input: &'a [InputItem],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    /// All other members. The members above are not among them: the configuration may not set them.
    #[serde(flatten)]
    pub(super) parameters: Map<String, Value>,
}

/// A tool. Strict schemas are the default of this API, and ours are not strict.
#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}

pub(crate) fn render(name: &ProviderName, request: &ChatRequest) -> RenderedMessages {
    let mut ids = CallIds::new(plain_id);
    let messages = request.transcript.messages().iter();
    let items = messages.flat_map(|message| items(name, message, &mut ids, true));
    RenderedMessages {
        messages: texts(&items.collect::<Vec<_>>()),
        tools: texts(&tools(&request.tools)),
        system: Value::from(&*request.system).to_string(),
    }
}

/// Returns the conversation, of which the beginning need not be serialised again. Reasoning of
/// earlier turns is sent back `with_reasoning`; without it, nothing is kept for the next request.
pub(super) fn input(name: &ProviderName, request: &ChatRequest, with_reasoning: bool) -> SentInput {
    if !with_reasoning {
        drop(request.memo.take::<SentInput>());
    }
    SentInput::of(name, request, CallIds::new(plain_id), |message, ids| {
        let items = items(name, message, ids, with_reasoning);
        let texts = items.iter().map(|item| to_raw_value(item).map(InputItem));
        texts.collect::<Result<_, _>>().ok()
    })
}

/// Returns the request body, without the parameters in `refused` and with those in `extra`.
pub(super) fn body<'a>(
    spec: &ProviderSpec,
    request: &'a ChatRequest,
    refused: &ParamNames,
    extra: &ExtraBody,
    input: &'a SentInput,
) -> Body<'a> {
    let mut parameters = Map::new();
    let tools = tools(&request.tools);
    if !tools.is_empty() {
        parameters.insert("tool_choice".into(), tool_choice(&request.tool_choice));
        parameters.insert("parallel_tool_calls".into(), true.into());
    }
    parameters.insert("stream".into(), true.into());
    parameters.insert("store".into(), false.into());
    parameters.insert(INCLUDE.into(), json!(["reasoning.encrypted_content"]));
    generation(spec, request, &mut parameters);
    for member in refused {
        parameters.remove(*member);
    }
    extra.add_to(&mut parameters);
    Body {
        model: request.model.as_str(),
        instructions: &request.system,
        input: input.parts(),
        tools,
        parameters,
    }
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

fn tools(specs: &[ToolSpec]) -> Vec<Tool<'_>> {
    specs.iter().map(tool).collect()
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    Tool {
        kind: "function",
        name: spec.name.as_str(),
        description: &spec.description,
        parameters: &spec.parameters,
        strict: false,
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({ "type": "function", "name": name }),
    }
}

/// `true` if a request sends reasoning back.
pub(super) fn has_reasoning(name: &ProviderName, request: &ChatRequest) -> bool {
    let messages = request.transcript.messages().iter();
    let mut said = messages.filter_map(|message| match &**message {
        ChatMessage::Assistant(said) => Some(said),
        _ => None,
    });
    said.any(|said| reasoning(name, said).next().is_some())
}

fn is_reasoning(item: &Value) -> bool {
    item.get("type").is_some_and(|kind| kind == "reasoning")
}

/// Returns the items of a message.
fn items(
    name: &ProviderName,
    message: &ChatMessage,
    ids: &mut CallIds,
    with_reasoning: bool,
) -> Vec<Value> {
    match message {
        // The system prompt is sent separately; a transcript has no system messages.
        ChatMessage::System { .. } => Vec::new(),
        ChatMessage::User(user) => {
            vec![
                json!({ "type": "message", "role": "user", "content": user_content(&user.content) }),
            ]
        }
        ChatMessage::Assistant(said) => {
            let reasoning = reasoning(name, said).filter(|_| with_reasoning);
            let mut items: Vec<_> = reasoning.cloned().collect();
            assistant(said, ids, &mut items);
            items
        }
        ChatMessage::Tool(result) => vec![json!({
            "type": "function_call_output",
            "call_id": ids.result(&result.tool_call_id),
            "output": output(&result.content),
        })],
    }
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
