//! The few questions that casting and validation ask a JSON schema.
//!
//! What is not asked (`$ref`, `allOf`, `not`, `pattern`, …) restricts nothing here: a schema of
//! somebody else's tool is checked again by whoever wrote it.

use serde_json::Value;

/// The types a schema allows by name; empty when it allows all.
pub(crate) fn types_of(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The schemas of which one has to fit, when there are such.
pub(crate) fn alternatives_of(schema: &Value) -> Option<&[Value]> {
    let alternatives = schema
        .get("anyOf")
        .or_else(|| schema.get("oneOf"))?
        .as_array()?;
    (!alternatives.is_empty()).then_some(alternatives.as_slice())
}

/// The schema of a member of an object.
pub(crate) fn property_of<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// Whether an object has to have a member.
pub(crate) fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|other| other == name))
}

/// Whether a value is of a type. A boolean is no number, and an unknown type fits everything.
pub(crate) fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// The name of a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
