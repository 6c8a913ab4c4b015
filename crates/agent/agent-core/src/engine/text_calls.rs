//! Parses tool calls that a model wrote into its text: `<tool_call>{"name": …, "arguments":
//! {…}}</tool_call>`.

use nanobot_types::{ToolCall, json};
use serde::Deserialize;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

#[derive(Deserialize)]
struct Written {
    name: String,
    #[serde(default)]
    arguments: serde_json::Map<String, serde_json::Value>,
}

/// Splits a text into the text without its calls, and the calls. An unclosed or unreadable call
/// stays text and does not run. `id_prefix` makes ids unique within the session.
pub(crate) fn split_calls(text: &str, id_prefix: &str) -> (String, Vec<ToolCall>) {
    let mut remaining = String::new();
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once(OPEN) {
        let Some((body, after)) = inside.split_once(CLOSE) else {
            break;
        };
        remaining.push_str(before);
        match json::from_str::<Written>(body.trim()) {
            Ok(written) => {
                let id = format!("{id_prefix}-{}", calls.len());
                let arguments = serde_json::Value::Object(written.arguments).to_string();
                calls.push(ToolCall::new(id, written.name, arguments));
            }
            Err(_) => {
                remaining.push_str(OPEN);
                remaining.push_str(body);
                remaining.push_str(CLOSE);
            }
        }
        rest = after;
    }
    remaining.push_str(rest);
    (remaining, calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extracts_complete_calls_and_leaves_broken_ones_as_text() {
        let text = "Let me look. <tool_call>{\"name\": \"list_dir\", \"arguments\": {\"path\": \".\"}}</tool_call> \
                    <tool_call>{oops}</tool_call> <tool_call>{\"name\": \"exec\"";
        let (remaining, calls) = split_calls(text, "t1");
        assert_eq!(
            calls,
            [ToolCall::new("t1-0", "list_dir", "{\"path\":\".\"}")]
        );
        assert_eq!(
            remaining,
            "Let me look.  <tool_call>{oops}</tool_call> <tool_call>{\"name\": \"exec\""
        );
    }
}
