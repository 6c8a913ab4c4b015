//! Rules of `/responses`, for clients that store nothing at the vendor.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Problems, list, text};
use crate::model_server::ModelRequest;

/// Parameters of `/chat/completions` that this API does not know.
const UNKNOWN: [&str; 5] = [
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "stream_options",
    "reasoning_effort",
];

pub(super) fn check(request: &ModelRequest, found: &mut Problems) {
    check_options(request, found);
    let mut open = BTreeSet::new();
    for (index, item) in request.messages().iter().enumerate() {
        let place = format!("input[{index}]");
        match text(item, "type") {
            "message" => check_message(&place, item, found),
            "reasoning" => {
                let is_sound = text(item, "id").starts_with("rs_")
                    && item.get("summary").is_some_and(Value::is_array)
                    && !text(item, "encrypted_content").is_empty();
                found.require(is_sound, || {
                    format!("{place}: the reasoning cannot be verified")
                });
                let is_last = index + 1 == request.messages().len();
                found.require(!is_last, || {
                    format!("{place}: reasoning without the item that follows it")
                });
            }
            "function_call" => {
                found.tool_name(&place, text(item, "name"));
                found.call_id(&place, text(item, "call_id"));
                let arguments: Option<Value> = serde_json::from_str(text(item, "arguments")).ok();
                found.require(arguments.is_some_and(|value| value.is_object()), || {
                    format!("{place}: arguments must be the text of a JSON object")
                });
                open.insert(text(item, "call_id").to_owned());
            }
            "function_call_output" => {
                let id = text(item, "call_id");
                let was_open = open.remove(id);
                found.require(was_open, || {
                    format!("{place}: no tool call found for the output of {id:?}")
                });
                match item.get("output") {
                    Some(Value::String(_)) => {}
                    _ => check_parts(&place, list(item, "output"), INPUT_PARTS, found),
                }
            }
            other => found.add(format!("{place}: unknown type {other:?}")),
        }
    }
    for id in open {
        found.add(format!("no tool output found for call {id:?}"));
    }
}

const INPUT_PARTS: &[&str] = &["input_text", "input_image", "input_file"];

fn check_message(place: &str, item: &Value, found: &mut Problems) {
    let parts = match text(item, "role") {
        "user" | "developer" | "system" => INPUT_PARTS,
        "assistant" => &["output_text", "refusal"],
        other => return found.add(format!("{place}: unknown role {other:?}")),
    };
    check_parts(place, list(item, "content"), parts, found);
}

fn check_parts(place: &str, parts: &[Value], known: &[&str], found: &mut Problems) {
    found.require(!parts.is_empty(), || format!("{place}: there are no parts"));
    for part in parts {
        let kind = text(part, "type");
        let has_text = !kind.ends_with("_text") || !text(part, "text").is_empty();
        let has_image = kind != "input_image" || !text(part, "image_url").is_empty();
        found.require(known.contains(&kind) && has_text && has_image, || {
            format!("{place}: part of type {kind:?} is empty or not supported here")
        });
    }
}

fn check_options(request: &ModelRequest, found: &mut Problems) {
    let json = &request.json;
    for key in UNKNOWN {
        found.require(json.get(key).is_none(), || {
            format!("Unknown parameter: '{key}'")
        });
    }
    if let Some(limit) = json.get("max_output_tokens") {
        found.require(limit.as_u64().is_some_and(|limit| limit >= 16), || {
            "max_output_tokens: must be at least 16".to_owned()
        });
    }
    if json.get("tools").is_none() {
        found.require(json.get("tool_choice").is_none(), || {
            "tool_choice: only allowed with tools".to_owned()
        });
    }
    for (index, tool) in list(json, "tools").iter().enumerate() {
        let place = format!("tools[{index}]");
        found.require(text(tool, "type") == "function", || {
            format!("{place}: type must be function")
        });
        found.tool(&place, text(tool, "name"), tool.get("parameters"));
        // Strict is the default, and needs a schema that has all properties required.
        found.require(
            tool.get("strict").and_then(Value::as_bool) == Some(false),
            || format!("{place}: the schema is not strict"),
        );
    }
}
