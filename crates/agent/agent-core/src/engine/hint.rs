//! A line that names the running tools: `read_file("notes.txt"), exec("ls")`.

use nanobot_redact::Secrets;
use nanobot_tool::resolve_call;
use nanobot_types::ToolCall;
use serde_json::Value;

/// Maximum number of characters of an argument.
const MAX_ARGUMENT: usize = 40;

/// Returns the hint for the calls of one answer.
pub(crate) fn tool_hint(calls: &[ToolCall], secrets: &Secrets) -> String {
    let parts: Vec<String> = calls.iter().map(|call| call_hint(call, secrets)).collect();
    parts.join(", ")
}

/// Returns the hint for one call.
pub(super) fn call_hint(call: &ToolCall, secrets: &Secrets) -> String {
    let call = resolve_call(call);
    // Redact before cutting: half a secret would not be recognised.
    let argument = first_argument(&call.arguments)
        .map(|text| secrets.redact(&text).replace(['\n', '\r'], " "));
    match argument {
        Some(argument) if argument.chars().count() > MAX_ARGUMENT => {
            let cut: String = argument.chars().take(MAX_ARGUMENT).collect();
            format!("{}(\"{cut}…\")", call.name)
        }
        Some(argument) => format!("{}(\"{argument}\")", call.name),
        None => call.name.to_string(),
    }
}

/// Returns the first argument in the order in which the model wrote them, if it is a string.
fn first_argument(arguments: &str) -> Option<String> {
    let mut entries = serde_json::Deserializer::from_str(arguments);
    serde::Deserializer::deserialize_map(&mut entries, FirstEntry).ok()?
}

struct FirstEntry;

impl<'de> serde::de::Visitor<'de> for FirstEntry {
    type Value = Option<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let first = map.next_entry::<String, Value>()?;
        while map
            .next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?
            .is_some()
        {}
        Ok(first.and_then(|(name, value)| match value {
            Value::String(text) if !name.starts_with('_') => Some(text),
            _ => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_format_is_stable() {
        let calls = [
            ToolCall::new(
                "1",
                "a",
                format!("{{\"z\":\"{}\",\"a\":\"other\"}}", "x".repeat(41)),
            ),
            ToolCall::new("2", "b", "{\"count\":3}"),
            ToolCall::new("3", "c", "{}"),
            ToolCall::malformed("4", "d", "{\"path", "cut off"),
            ToolCall::new("5", "e", "{\"text\":\"two\\nlines\"}"),
        ];
        assert_eq!(
            tool_hint(&calls, &Secrets::default()),
            format!("a(\"{}…\"), b, c, d, e(\"two lines\")", "x".repeat(40))
        );
    }
}
