//! A request as the vendor's cache sees it.

use nanobot_provider::ChatRequest;
use nanobot_types::{Map, ProviderName, ToolCall};
use serde_json::Value;

use crate::{ProviderSpec, Wire, anthropic, openai};

/// What stands where a vendor takes no empty content.
pub(crate) const EMPTY: &str = "(empty)";

/// What stands for an image that cannot be sent.
pub(crate) const IMAGE_OMITTED: &str = "[image omitted]";

/// A request in the order in which vendors cache it, each part one compact JSON, without cache
/// marks. The same request renders to the same bytes. What a vendor merges into one message is
/// one part for each piece, so that a conversation that grew keeps its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The tools.
    pub tools: Vec<String>,
    /// The system prompt.
    pub system: String,
    /// The conversation.
    pub messages: Vec<String>,
}

/// Renders a request as the provider `name` with this row would send it.
#[must_use]
pub fn render(spec: &ProviderSpec, name: &ProviderName, request: &ChatRequest) -> Rendered {
    match spec.wire {
        Wire::Anthropic => anthropic::render(name, request),
        Wire::OpenAi | Wire::Azure | Wire::Demo | Wire::Unsupported(_) => openai::render(spec, name, request),
    }
}

pub(crate) fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(Value::to_string).collect()
}

/// A call's arguments as an object; a call whose stored text is none keeps the text inside one.
pub(crate) fn arguments(call: &ToolCall) -> Map {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_not_an_object| {
        Map::from_iter([("_malformed".to_owned(), Value::String(call.arguments.clone()))])
    })
}

/// A tool's name as vendors take it back, whatever an old history says.
pub(crate) fn tool_name(name: &str) -> String {
    let sound = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    if name.is_empty() { "unnamed_tool".to_owned() } else { name.chars().take(64).map(sound).collect() }
}

/// The number that the decimal text of an `f32` means, without the digits that widening adds.
pub(crate) fn number(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_not_a_number| f64::from(value))
}
