//! The definition of a tool, as it declares it, checked.
//!
//! Decision: a definition is refused rather than repaired, because its author can change it. Each
//! problem is one line that says what to change.

use nanobot_escape::visible;
use nanobot_types::{Effect, ToolSource, ToolSpec};
use serde_json::{Map, Value, json};

use crate::config::MAX_TIMEOUT;

/// Maximum length of a name, as vendors accept it, in characters.
const MAX_NAME: usize = 64;
/// Maximum length of a description, in characters. Every request pays for it.
const MAX_DESCRIPTION: usize = 1024;
/// Maximum size of a schema, in bytes of JSON.
const MAX_SCHEMA: usize = 16 << 10;
/// Beginning of the names of tools of MCP servers.
const OF_SERVERS: &str = "mcp_";
/// Keywords that vendors do not accept at the top of a schema.
const NOT_AT_THE_TOP: [&str; 6] = ["$ref", "allOf", "anyOf", "enum", "not", "oneOf"];

/// A checked definition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    /// The tool as the model sees it.
    pub(crate) spec: ToolSpec,
    /// Time limit of a call that it asks for, in seconds.
    pub(crate) timeout: Option<u64>,
}

impl Definition {
    /// Reads a definition with the members `name`, `description`, `parameters`, `effect` and
    /// `timeout`, of which the last three may be missing.
    ///
    /// # Errors
    /// Returns what is wrong with it, as one line.
    pub(crate) fn of(declared: &Map<String, Value>) -> Result<Self, String> {
        let member = |key: &str| declared.get(key).filter(|value| !value.is_null());
        Ok(Self {
            spec: ToolSpec {
                name: name(member("name"))?.into(),
                description: description(member("description"))?,
                parameters: parameters(member("parameters"))?,
                effect: effect(member("effect"))?,
                source: ToolSource::External,
            },
            timeout: timeout(member("timeout"))?,
        })
    }
}

fn name(value: Option<&Value>) -> Result<String, String> {
    let name = value.and_then(Value::as_str).unwrap_or_default();
    let is_allowed =
        |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let begins = |character: char| character.is_ascii_alphabetic();
    if !name.starts_with(begins) || !name.chars().all(is_allowed) || name.len() > MAX_NAME {
        return Err(format!(
            "name has to be a letter and then letters, digits, _ and -, at most {MAX_NAME} together"
        ));
    }
    if name.starts_with(OF_SERVERS) {
        return Err(format!(
            "name begins with {OF_SERVERS}, as those of MCP servers"
        ));
    }
    Ok(name.to_owned())
}

fn description(value: Option<&Value>) -> Result<String, String> {
    let text = value.and_then(Value::as_str).unwrap_or_default().trim();
    if text.is_empty() {
        return Err("description has to be a text that says what the tool does".to_owned());
    }
    let count = text.chars().count();
    if count > MAX_DESCRIPTION {
        return Err(format!(
            "description has {count} characters, more than {MAX_DESCRIPTION}"
        ));
    }
    let is_control = |character: char| character.is_control() && !"\n\t".contains(character);
    if visible(text) != text || text.contains(is_control) {
        return Err("description has invisible characters".to_owned());
    }
    Ok(text.to_owned())
}

fn parameters(value: Option<&Value>) -> Result<Value, String> {
    let Some(schema) = value else {
        return Ok(json!({"type": "object", "properties": {}}));
    };
    let Value::Object(schema) = schema else {
        return Err("parameters has to be a JSON schema of an object".to_owned());
    };
    let mut schema = schema.clone();
    schema.remove("$schema");
    let kind = schema.entry("type").or_insert_with(|| "object".into());
    if kind != "object" {
        return Err(format!(
            "parameters has the type {kind}, and not \"object\""
        ));
    }
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let is_described = |properties: &Map<String, Value>| properties.values().all(Value::is_object);
    if !properties.as_object().is_some_and(is_described) {
        return Err("parameters.properties has to map each name to a schema".to_owned());
    }
    if let Some(required) = schema.get("required") {
        let names = required.as_array().into_iter().flatten();
        if !required.is_array() || !names.clone().all(Value::is_string) {
            return Err("parameters.required has to be a list of names".to_owned());
        }
    }
    if let Some(key) = NOT_AT_THE_TOP.iter().find(|key| schema.contains_key(**key)) {
        return Err(format!(
            "parameters has {key} at the top, which vendors refuse"
        ));
    }
    let schema = Value::Object(schema);
    let text = schema.to_string();
    if text.len() > MAX_SCHEMA {
        return Err(format!(
            "parameters is larger than {} KiB",
            MAX_SCHEMA >> 10
        ));
    }
    if visible(&text) != text {
        return Err("parameters has invisible characters".to_owned());
    }
    Ok(schema)
}

fn effect(value: Option<&Value>) -> Result<Effect, String> {
    let unknown = || "effect has to be \"pure\", \"idempotent\" or \"irreversible\"".to_owned();
    match value {
        None => Ok(Effect::Irreversible),
        Some(value) => serde_json::from_value(value.clone()).map_err(|_unknown| unknown()),
    }
}

fn timeout(value: Option<&Value>) -> Result<Option<u64>, String> {
    let Some(value) = value else { return Ok(None) };
    let seconds = value
        .as_u64()
        .filter(|seconds| (1..=MAX_TIMEOUT).contains(seconds));
    match seconds {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(format!(
            "timeout has to be whole seconds, 1 to {MAX_TIMEOUT}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, value: Value) -> Result<Definition, String> {
        let mut declared = Map::new();
        declared.insert("name".to_owned(), "count".into());
        declared.insert("description".to_owned(), "Counts.".into());
        declared.insert(key.to_owned(), value);
        Definition::of(&declared)
    }

    #[test]
    fn defaults_are_strict() {
        let definition = with("timeout", Value::Null).unwrap();
        let expected = ToolSpec {
            name: "count".into(),
            description: "Counts.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
            effect: Effect::Irreversible,
            source: ToolSource::External,
        };
        assert_eq!((definition.spec, definition.timeout), (expected, None));
    }

    #[test]
    fn a_bad_definition_has_one_clear_line() {
        let bad_name =
            "name has to be a letter and then letters, digits, _ and -, at most 64 together";
        let no_text = "description has to be a text that says what the tool does";
        let timeout = "timeout has to be whole seconds, 1 to 600";
        for (key, value, expected) in [
            ("name", json!(""), bad_name),
            ("name", json!(7), bad_name),
            ("name", json!("_x"), bad_name),
            ("name", json!("x y"), bad_name),
            ("name", json!("x".repeat(65)), bad_name),
            (
                "name",
                json!("mcp_a_b"),
                "name begins with mcp_, as those of MCP servers",
            ),
            ("description", json!(" "), no_text),
            ("description", json!(["x"]), no_text),
            (
                "description",
                json!("x".repeat(1025)),
                "description has 1025 characters, more than 1024",
            ),
            (
                "description",
                json!("a\u{202e}b"),
                "description has invisible characters",
            ),
            (
                "description",
                json!("a\u{1b}[31mb"),
                "description has invisible characters",
            ),
            (
                "parameters",
                json!([]),
                "parameters has to be a JSON schema of an object",
            ),
            (
                "parameters",
                json!({"type": "string"}),
                "parameters has the type \"string\", and not \"object\"",
            ),
            (
                "parameters",
                json!({"properties": {"a": 1}}),
                "parameters.properties has to map each name to a schema",
            ),
            (
                "parameters",
                json!({"required": "a"}),
                "parameters.required has to be a list of names",
            ),
            (
                "parameters",
                json!({"anyOf": []}),
                "parameters has anyOf at the top, which vendors refuse",
            ),
            (
                "parameters",
                json!({"title": "x".repeat(20_000)}),
                "parameters is larger than 16 KiB",
            ),
            (
                "parameters",
                json!({"title": "\u{200b}"}),
                "parameters has invisible characters",
            ),
            (
                "effect",
                json!("safe"),
                "effect has to be \"pure\", \"idempotent\" or \"irreversible\"",
            ),
            ("timeout", json!(0), timeout),
            ("timeout", json!(601), timeout),
            ("timeout", json!(1.5), timeout),
        ] {
            let found = with(key, value.clone());
            assert_eq!(found, Err(expected.to_owned()), "{key}: {value}");
        }
    }
}
