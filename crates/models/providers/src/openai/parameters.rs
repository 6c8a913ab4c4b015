//! Builds the parameters of a request: all members of its body but the model, the conversation and
//! the tools.

use nanobot_provider::{ChatRequest, ToolChoice};
use nanobot_types::Map;
use serde_json::{Value, json};

use crate::refusal::ParamNames;
use crate::render::{digest, number};
use crate::{Quirks, ReasoningParam};

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

/// Returns the parameters of a request, without those in `refused`.
pub(super) fn parameters(quirks: &Quirks, request: &ChatRequest, refused: &ParamNames) -> Map {
    let mut parameters = Map::new();
    if !request.tools.is_empty() {
        parameters.insert("tool_choice".into(), tool_choice(&request.tool_choice));
    }
    parameters.insert("stream".into(), true.into());
    parameters.insert("stream_options".into(), json!({ "include_usage": true }));
    generation(quirks, request, refused, &mut parameters);
    for member in refused {
        parameters.remove(*member);
    }
    parameters
}

fn generation(quirks: &Quirks, request: &ChatRequest, refused: &ParamNames, parameters: &mut Map) {
    let model = request.model.as_str().to_lowercase();
    let wanted = &request.generation;
    let completion_limit =
        quirks.completion_limit != refused.contains(limit_name(quirks.completion_limit));
    // If the vendor rejected one name of the limit, the limit is sent under the other name, which
    // is then not removed.
    parameters.insert(
        limit_name(completion_limit).into(),
        wanted.max_tokens.max(1).into(),
    );
    if let Some(temperature) = temperature(quirks, request) {
        parameters.insert("temperature".into(), temperature.into());
    }
    if let Some((member, value)) = wanted
        .reasoning_effort
        .as_deref()
        .and_then(|effort| thinking(quirks, &model, effort))
    {
        parameters.insert(member.into(), value);
    }
    if let Some(key) = request.cache_key.as_ref().filter(|_| quirks.cache_key) {
        // Vendors accept at most 64 characters, and chat names must not reach them.
        parameters.insert("prompt_cache_key".into(), digest(key).into());
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

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
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
