//! Reads the arguments that a model passes to a tool it was asked to call. Some models call it with
//! arguments of unusual shapes; others write the call, or only its arguments, into their text.

use nanobot_types::{LlmResponse, Map};
use serde_json::Value;

/// Member in which `ToolCall::malformed` keeps the raw arguments.
const MALFORMED: &str = "_malformed";
/// Maximum number of strings and arrays that may wrap the object.
const MAX_DEPTH: usize = 3;

/// Returns the arguments of the call of `tool` in a response. They are an object, a string that
/// contains one, the first item of an array, or an object in the text of a model that does not call
/// tools.
///
/// # Errors
/// Returns the reason, for the log, if there are no such arguments.
pub fn handed_over(response: &LlmResponse, tool: &str) -> Result<Map, String> {
    match response
        .tool_calls
        .iter()
        .find(|call| call.name.as_str() == tool)
    {
        Some(call) => serde_json::from_str(&call.arguments)
            .ok()
            .and_then(|value| object_of(value, 0))
            .ok_or_else(|| format!("the arguments of {tool} are no object")),
        None => in_text(response.content.as_deref().unwrap_or_default())
            .ok_or_else(|| format!("it did not call {tool}")),
    }
}

fn object_of(value: Value, depth: usize) -> Option<Map> {
    match value {
        _ if depth > MAX_DEPTH => None,
        Value::Object(map) => match map.get(MALFORMED).and_then(Value::as_str) {
            Some(raw) => object_of(serde_json::from_str(raw).ok()?, depth + 1),
            None => Some(map),
        },
        Value::String(text) => object_of(serde_json::from_str(&text).ok()?, depth + 1),
        Value::Array(list) => object_of(list.into_iter().next()?, depth + 1),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Returns the object in a text, ignoring any words and fences around it.
fn in_text(text: &str) -> Option<Map> {
    let begin = text.find('{')?;
    let end = text.rfind('}')?;
    let object: Map = serde_json::from_str(text.get(begin..=end)?).ok()?;
    let arguments = object
        .get("arguments")
        .or_else(|| object.get("parameters"))
        .cloned();
    arguments
        .and_then(|arguments| object_of(arguments, 0))
        .or(Some(object))
}

#[cfg(test)]
mod tests {
    use nanobot_types::{FinishReason, ToolCall};
    use serde_json::json;

    use super::*;

    fn said(text: &str) -> LlmResponse {
        LlmResponse {
            finish_reason: FinishReason::Stop,
            ..LlmResponse::error(text)
        }
    }

    fn called(arguments: &str) -> LlmResponse {
        LlmResponse {
            tool_calls: vec![ToolCall::new("1", "decide", arguments)],
            ..said("")
        }
    }

    #[test]
    fn reads_every_shape_of_structured_answer() {
        let object = r#"{"action": "run"}"#;
        let malformed = ToolCall::malformed("1", "decide", &format!("[{object}]"), "a list");
        let good = [
            called(object),
            called(&json!(object).to_string()),
            called(&format!("[{object}, 1]")),
            LlmResponse {
                tool_calls: vec![malformed],
                ..said("")
            },
            said(object),
            said(&format!("Here you are:\n```json\n{object}\n```\nDone.")),
            said(&format!(r#"{{"name": "decide", "arguments": {object}}}"#)),
        ];
        for response in good {
            assert_eq!(
                handed_over(&response, "decide").map(Value::Object),
                Ok(json!({"action": "run"})),
                "{response:?}"
            );
        }
    }

    #[test]
    fn rejects_answers_without_an_object() {
        let table = [
            (said(""), "it did not call decide"),
            (said("I have decided."), "it did not call decide"),
            (said("[1, 2]"), "it did not call decide"),
            (called("[]"), "the arguments of decide are no object"),
            (called("[3]"), "the arguments of decide are no object"),
            (called("7"), "the arguments of decide are no object"),
        ];
        for (response, why) in table {
            assert_eq!(
                handed_over(&response, "decide"),
                Err(why.to_owned()),
                "{response:?}"
            );
        }
    }
}
