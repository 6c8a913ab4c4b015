//! Rules of `/messages`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Problems, list, text};
use crate::model_server::ModelRequest;
use crate::model_server::request::role;

const CACHE_MARKS: usize = 4;
const LEAST_THINKING: u64 = 1024;

pub(super) fn check(request: &ModelRequest, found: &mut Problems) {
    check_options(request, found);
    let mut open = BTreeSet::new();
    let mut previous = "assistant";
    for (index, message) in request.messages().iter().enumerate() {
        let place = format!("messages[{index}]");
        let role = role(message);
        let expected = if previous == "user" {
            "assistant"
        } else {
            "user"
        };
        found.require(role == expected, || {
            format!("{place}: role is {role:?}, roles must alternate from user")
        });
        let blocks = blocks(&place, message.get("content"), found);
        if role == "assistant" {
            check_assistant(&place, blocks, &mut open, found);
        } else {
            check_user(&place, blocks, &mut open, found);
        }
        previous = role;
    }
    found.require(previous == "user", || {
        "messages: the last one must be the user's".to_owned()
    });
    found.require(cache_marks(&request.json) <= CACHE_MARKS, || {
        "cache_control: at most four marks".to_owned()
    });
}

/// Returns the blocks of a content; a plain text has none.
fn blocks<'a>(place: &str, content: Option<&'a Value>, found: &mut Problems) -> &'a [Value] {
    match content {
        Some(Value::String(content)) => {
            found.require(!content.trim().is_empty(), || {
                format!("{place}: content is empty")
            });
            &[]
        }
        Some(Value::Array(blocks)) => {
            found.require(!blocks.is_empty(), || format!("{place}: content is empty"));
            blocks
        }
        _ => {
            found.add(format!(
                "{place}: content must be a text or a list of blocks"
            ));
            &[]
        }
    }
}

fn check_assistant(
    place: &str,
    blocks: &[Value],
    open: &mut BTreeSet<String>,
    found: &mut Problems,
) {
    let mut thinking_allowed = true;
    for (index, block) in blocks.iter().enumerate() {
        let place = format!("{place}.content[{index}]");
        match text(block, "type") {
            "text" => check_text(&place, block, found),
            "thinking" => {
                found.require(thinking_allowed, || {
                    format!("{place}: thinking must come first")
                });
                found.require(!text(block, "signature").is_empty(), || {
                    format!("{place}: thinking without signature")
                });
            }
            "redacted_thinking" => {
                found.require(!text(block, "data").is_empty(), || {
                    format!("{place}: redacted thinking without data")
                });
            }
            "tool_use" => {
                found.call_id(&place, text(block, "id"));
                found.tool_name(&place, text(block, "name"));
                let is_object = block.get("input").is_some_and(Value::is_object);
                found.require(is_object, || format!("{place}: input must be an object"));
                open.insert(text(block, "id").to_owned());
            }
            other => found.add(format!(
                "{place}: an assistant cannot send a block of type {other:?}"
            )),
        }
        thinking_allowed &= matches!(text(block, "type"), "thinking" | "redacted_thinking");
    }
}

/// Checks that a user message begins with one result for every open call.
fn check_user(place: &str, blocks: &[Value], open: &mut BTreeSet<String>, found: &mut Problems) {
    let mut results_allowed = true;
    for (index, block) in blocks.iter().enumerate() {
        let place = format!("{place}.content[{index}]");
        match text(block, "type") {
            "text" => check_text(&place, block, found),
            "image" => check_image(&place, block, found),
            "document" => {}
            "tool_result" => {
                found.require(results_allowed, || {
                    format!("{place}: tool results must come first")
                });
                let id = text(block, "tool_use_id");
                let was_open = open.remove(id);
                found.require(was_open, || {
                    format!("{place}: result for {id:?}, which is no call of the message before")
                });
                for inner in list(block, "content")
                    .iter()
                    .filter(|inner| text(inner, "type") == "text")
                {
                    check_text(&place, inner, found);
                }
            }
            other => found.add(format!(
                "{place}: a user cannot send a block of type {other:?}"
            )),
        }
        results_allowed &= text(block, "type") == "tool_result";
    }
    for id in std::mem::take(open) {
        found.add(format!(
            "{place}: tool use {id:?} has no result in the message after it"
        ));
    }
}

fn check_text(place: &str, block: &Value, found: &mut Problems) {
    found.require(!text(block, "text").trim().is_empty(), || {
        format!("{place}: text is empty")
    });
}

fn check_image(place: &str, block: &Value, found: &mut Problems) {
    let source = block.get("source").unwrap_or(&Value::Null);
    let known = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    let sound = match text(source, "type") {
        "base64" => known.contains(&text(source, "media_type")) && !text(source, "data").is_empty(),
        "url" => !text(source, "url").is_empty(),
        _ => false,
    };
    found.require(sound, || format!("{place}: the image has no usable source"));
}

fn check_options(request: &ModelRequest, found: &mut Problems) {
    let json = &request.json;
    let has_version = request.http.header("anthropic-version").is_some();
    found.require(has_version, || {
        "anthropic-version: the header is required".to_owned()
    });
    let limit = json
        .get("max_tokens")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    found.require(limit >= 1, || "max_tokens: required, at least 1".to_owned());
    if let Some(system) = json.get("system") {
        for block in blocks("system", Some(system), found) {
            check_text("system", block, found);
        }
    }
    let thinking = json.get("thinking").unwrap_or(&Value::Null);
    if text(thinking, "type") == "enabled" {
        let budget = thinking
            .get("budget_tokens")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let fits = (LEAST_THINKING..limit).contains(&budget);
        found.require(fits, || {
            "thinking.budget_tokens: at least 1024 and below max_tokens".to_owned()
        });
        let temperature = json
            .get("temperature")
            .and_then(Value::as_f64)
            .unwrap_or(1.0);
        found.require(temperature >= 1.0, || {
            "temperature: only 1 is allowed with thinking".to_owned()
        });
    }
    if let Some(choice) = json.get("tool_choice") {
        found.require(choice.is_object(), || {
            "tool_choice: must be an object".to_owned()
        });
        found.require(!list(json, "tools").is_empty(), || {
            "tool_choice: only allowed with tools".to_owned()
        });
    }
    for (index, tool) in list(json, "tools").iter().enumerate() {
        found.tool(
            &format!("tools[{index}]"),
            text(tool, "name"),
            tool.get("input_schema"),
        );
    }
}

fn cache_marks(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(cache_marks).sum(),
        Value::Object(map) => {
            let own = usize::from(map.get("cache_control").is_some_and(Value::is_object));
            own + map.values().map(cache_marks).sum::<usize>()
        }
        _ => 0,
    }
}
