//! The subset of JSON Schema used for casting and validation.
//!
//! Other keywords (`$ref`, `allOf`, `not`, `pattern`, …) restrict nothing here: an external tool
//! checks its arguments itself.

use serde_json::Value;

/// Returns the types that a schema allows; empty if it allows all.
pub(crate) fn types_of(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the alternatives of which one has to fit (`anyOf` or `oneOf`), if there are any.
pub(crate) fn alternatives_of(schema: &Value) -> Option<&[Value]> {
    let alternatives = schema
        .get("anyOf")
        .or_else(|| schema.get("oneOf"))?
        .as_array()?;
    (!alternatives.is_empty()).then_some(alternatives.as_slice())
}

/// Returns the schema of a member of an object.
pub(crate) fn property_of<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// `true` if an object must have the member.
pub(crate) fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|other| other == name))
}

/// `true` if a value is of a type. A boolean is not a number. An unknown type name matches every
/// value.
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

/// Returns the name of a value's type.
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
