//! Rules of `/chat/completions`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Problems, list, text};
use crate::model_server::ModelRequest;
use crate::model_server::request::role;

pub(super) fn check(request: &ModelRequest, found: &mut Problems) {
    check_options(request, found);
    let mut open = OpenCalls::default();
    let mut only_system_so_far = true;
    for (index, message) in request.messages().iter().enumerate() {
        let place = format!("messages[{index}]");
        if role(message) != "tool" {
            open.close(&place, found);
        }
        match role(message) {
            "system" | "developer" => {
                found.require(only_system_so_far, || {
                    format!("{place}: a system message must come first")
                });
                check_content(&place, message, found);
            }
            "user" => check_content(&place, message, found),
            "assistant" => check_assistant(&place, message, &mut open, found),
            "tool" => {
                check_content(&place, message, found);
                open.answer(&place, text(message, "tool_call_id"), found);
            }
            other => found.add(format!("{place}: unknown role {other:?}")),
        }
        only_system_so_far &= matches!(role(message), "system" | "developer");
    }
    open.close("the end of messages", found);
}

/// Calls of the newest assistant message that have no result yet.
#[derive(Default)]
struct OpenCalls(BTreeSet<String>);

impl OpenCalls {
    fn answer(&mut self, place: &str, id: &str, found: &mut Problems) {
        let was_open = self.0.remove(id);
        found.require(was_open, || {
            format!("{place}: result for {id:?}, which is no open tool call right before it")
        });
    }

    fn close(&mut self, place: &str, found: &mut Problems) {
        for id in std::mem::take(&mut self.0) {
            found.add(format!(
                "{place}: tool call {id:?} has no result right after it"
            ));
        }
    }
}

fn check_assistant(place: &str, message: &Value, open: &mut OpenCalls, found: &mut Problems) {
    let calls = list(message, "tool_calls");
    if message.get("tool_calls").is_some() {
        found.require(!calls.is_empty(), || {
            format!("{place}: tool_calls must not be empty")
        });
    }
    if calls.is_empty() || !message.get("content").is_none_or(Value::is_null) {
        check_content(place, message, found);
    }
    for (index, call) in calls.iter().enumerate() {
        let place = format!("{place}.tool_calls[{index}]");
        let function = call.get("function").unwrap_or(&Value::Null);
        found.require(text(call, "type") == "function", || {
            format!("{place}: type must be function")
        });
        found.tool_name(&place, text(function, "name"));
        let arguments: Option<Value> = serde_json::from_str(text(function, "arguments")).ok();
        found.require(arguments.is_some_and(|value| value.is_object()), || {
            format!("{place}: arguments must be the text of a JSON object")
        });
        found.call_id(&place, text(call, "id"));
        open.0.insert(text(call, "id").to_owned());
    }
}

fn check_content(place: &str, message: &Value, found: &mut Problems) {
    match message.get("content") {
        Some(Value::String(content)) => {
            found.require(!content.is_empty(), || format!("{place}: content is empty"));
        }
        Some(Value::Array(parts)) => {
            found.require(!parts.is_empty(), || {
                format!("{place}: content has no parts")
            });
            for part in parts {
                let sound = match text(part, "type") {
                    "text" => !text(part, "text").is_empty(),
                    "image_url" => part
                        .pointer("/image_url/url")
                        .and_then(Value::as_str)
                        .is_some_and(|url| !url.is_empty()),
                    "input_audio" | "file" => true,
                    _ => false,
                };
                found.require(sound, || {
                    format!(
                        "{place}: part of type {:?} is empty or unknown",
                        text(part, "type")
                    )
                });
            }
        }
        _ => found.add(format!(
            "{place}: content must be a text or a list of parts"
        )),
    }
}

fn check_options(request: &ModelRequest, found: &mut Problems) {
    let json = &request.json;
    for key in ["max_tokens", "max_completion_tokens"] {
        if let Some(limit) = json.get(key) {
            found.require(limit.as_u64().is_some_and(|limit| limit >= 1), || {
                format!("{key}: must be at least 1")
            });
        }
    }
    if json
        .get("stream_options")
        .is_some_and(|options| !options.is_null())
    {
        found.require(request.is_stream(), || {
            "stream_options: only allowed with stream".to_owned()
        });
    }
    let tools = list(json, "tools");
    if json.get("tools").is_some() {
        found.require(!tools.is_empty(), || "tools: must not be empty".to_owned());
    } else {
        found.require(json.get("tool_choice").is_none(), || {
            "tool_choice: only allowed with tools".to_owned()
        });
    }
    for (index, tool) in tools.iter().enumerate() {
        let function = tool.get("function").unwrap_or(&Value::Null);
        let place = format!("tools[{index}]");
        found.require(text(tool, "type") == "function", || {
            format!("{place}: type must be function")
        });
        found.tool(&place, text(function, "name"), function.get("parameters"));
    }
}
