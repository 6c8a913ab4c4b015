//! Describes values and types in words, for messages.

use figment::error::Actual;
use serde_json::Value;

/// Describes a value; `hidden` omits its content.
pub(crate) fn json(value: &Value, hidden: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) if hidden => "text".to_owned(),
        Value::String(text) => text_found(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn text_found(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    format!("the text \"{short}{rest}\"")
}

/// Describes the value that figment found instead of the expected one.
pub(crate) fn actual(actual: &Actual, hidden: bool) -> String {
    match actual {
        Actual::Str(_) if hidden => "text".to_owned(),
        Actual::Str(text) => text_found(text),
        Actual::Bool(flag) => flag.to_string(),
        Actual::Unsigned(number) => format!("the number {number}"),
        Actual::Signed(number) => format!("the number {number}"),
        Actual::Float(number) => format!("the number {number}"),
        Actual::Unit | Actual::Option => "null".to_owned(),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "an object".to_owned(),
        _ if hidden => "something else".to_owned(),
        other => other.to_string(),
    }
}

/// Describes the type that serde expected.
pub(crate) fn wanted(expected: &str) -> String {
    let range = |low: String, high: String| format!("a whole number from {low} to {high}");
    match expected {
        "u8" => range(u8::MIN.to_string(), u8::MAX.to_string()),
        "u16" => range(u16::MIN.to_string(), u16::MAX.to_string()),
        "u32" => range(u32::MIN.to_string(), u32::MAX.to_string()),
        "u64" | "usize" => "a whole number, zero or more".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list […]".to_owned(),
        "a map" => "an object {…}".to_owned(),
        "a string" => "text in quotes".to_owned(),
        other if other.starts_with("struct ") => "an object {…}".to_owned(),
        other if other.starts_with("a nonzero ") => "a whole number that is not zero".to_owned(),
        other => other.to_owned(),
    }
}

/// Describes the type of a default.
pub(crate) fn wanted_like(default: &Value) -> &'static str {
    match default {
        Value::Null => "anything",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text in quotes",
        Value::Array(_) => "a list […]",
        Value::Object(_) => "an object {…}",
    }
}
