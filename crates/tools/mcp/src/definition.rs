//! What a server says about a tool, resource or prompt, made safe to show to a model and a person.
//!
//! Decision: descriptions and schemas come from the server, so they are untrusted. They are bounded
//! and their hidden characters are escaped when they arrive. The result is recorded and compared
//! later, because it is what the operator saw and the model reads.

use nanobot_escape::{sanitize, visible};
use nanobot_types::Effect;
use rmcp::model;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 4096;
/// Maximum size of a schema, in bytes of JSON.
const MAX_SCHEMA: usize = 64 << 10;
/// Maximum length of the own name of a tool, in bytes.
const MAX_NAME: usize = 512;
/// Maximum depth to which the texts of a schema are sanitized; deeper schemas are refused.
const MAX_DEPTH: usize = 48;

/// Kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefinitionKind {
    /// A tool.
    Tool,
    /// A resource: the tool reads it.
    Resource,
    /// A prompt: the tool returns its messages.
    Prompt,
}

impl DefinitionKind {
    /// Returns the part of a tool's name that distinguishes kinds; empty for tools.
    pub(crate) const fn infix(self) -> &'static str {
        match self {
            Self::Tool => "",
            Self::Resource => "resource",
            Self::Prompt => "prompt",
        }
    }
}

/// A tool, resource or prompt of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Definition {
    /// Its kind.
    pub(crate) kind: DefinitionKind,
    /// Its name on the server.
    pub(crate) name: String,
    /// Address of a resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uri: String,
    /// Description for the model.
    pub(crate) description: String,
    /// JSON schema of the arguments: an object schema.
    pub(crate) schema: Value,
    /// Effect of running it again, as far as the server says.
    pub(crate) effect: Effect,
}

impl Definition {
    /// Reads a tool; `Err` is the reason why it is left out.
    pub(crate) fn of_tool(tool: &model::Tool) -> Result<Self, &'static str> {
        let hints = tool.annotations.as_ref();
        let hint = |of: fn(&model::ToolAnnotations) -> Option<bool>| {
            hints.and_then(of).unwrap_or_default()
        };
        let effect = if hint(|hints| hints.read_only_hint) {
            Effect::Pure
        } else if hint(|hints| hints.idempotent_hint) {
            Effect::Idempotent
        } else {
            Effect::Irreversible
        };
        Ok(Self {
            kind: DefinitionKind::Tool,
            name: own_name(&tool.name)?,
            uri: String::new(),
            description: description(tool.description.as_deref(), &tool.name),
            schema: schema(&tool.input_schema)?,
            effect,
        })
    }

    /// Reads a resource; `Err` is the reason why it is left out.
    pub(crate) fn of_resource(resource: &model::Resource) -> Result<Self, &'static str> {
        if resource.uri.len() > MAX_NAME {
            return Err("its address is too long");
        }
        let about = description(resource.description.as_deref(), &resource.name);
        Ok(Self {
            kind: DefinitionKind::Resource,
            name: own_name(&resource.name)?,
            uri: resource.uri.clone(),
            description: format!("Read the resource {}: {about}", sanitize(&resource.uri)),
            schema: json!({"type": "object", "properties": {}}),
            effect: Effect::Pure,
        })
    }

    /// Reads a prompt; `Err` is the reason why it is left out.
    pub(crate) fn of_prompt(prompt: &model::Prompt) -> Result<Self, &'static str> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for argument in prompt.arguments.iter().flatten() {
            let about = description(argument.description.as_deref(), &argument.name);
            let property = json!({"type": "string", "description": about});
            properties.insert(argument.name.clone(), property);
            if argument.required.unwrap_or_default() {
                required.push(Value::from(argument.name.clone()));
            }
        }
        let about = description(prompt.description.as_deref(), &prompt.name);
        let parameters = json!({
            "type": "object", "properties": properties, "required": required,
        });
        Ok(Self {
            kind: DefinitionKind::Prompt,
            name: own_name(&prompt.name)?,
            uri: String::new(),
            description: format!("Get the prompt: {about}"),
            schema: bounded(parameters)?,
            effect: Effect::Pure,
        })
    }

    /// Returns the identity of the definition on its server.
    pub(crate) fn key(&self) -> (DefinitionKind, &str) {
        (self.kind, &self.name)
    }

    /// Returns the estimated size in a request, in tokens.
    pub(crate) fn tokens(&self) -> usize {
        let schema = self.schema.to_string();
        (self.name.len() + self.description.len() + schema.len()).div_ceil(4) + 12
    }
}

fn own_name(name: &str) -> Result<String, &'static str> {
    match name.len() {
        0 => Err("it has no name"),
        1..=MAX_NAME => Ok(name.to_owned()),
        _ => Err("its name is too long"),
    }
}

fn description(text: Option<&str>, name: &str) -> String {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    let text = text.unwrap_or(name);
    let cut: String = text.chars().take(MAX_DESCRIPTION).collect();
    let mut shown = sanitize(&cut);
    if cut.len() < text.len() {
        shown.push_str(" … (truncated)");
    }
    shown
}

/// Returns a schema as vendors accept it at the top: an object without alternatives or references.
fn schema(schema: &Map<String, Value>) -> Result<Value, &'static str> {
    let mut schema = schema.clone();
    for key in ["$schema", "$ref", "anyOf", "oneOf", "allOf", "not", "enum"] {
        schema.remove(key);
    }
    schema.insert("type".to_owned(), "object".into());
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), json!({}));
    }
    bounded(Value::Object(schema))
}

fn bounded(mut schema: Value) -> Result<Value, &'static str> {
    if schema.to_string().len() > MAX_SCHEMA {
        return Err("its schema is too large");
    }
    sanitize_texts(&mut schema, 0)?;
    Ok(schema)
}

/// Escapes the hidden characters of titles and descriptions.
fn sanitize_texts(value: &mut Value, depth: usize) -> Result<(), &'static str> {
    if depth > MAX_DEPTH {
        return Err("its schema is too deep");
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(text) if matches!(key.as_str(), "title" | "description") => {
                        *text = visible(text);
                    }
                    member => sanitize_texts(member, depth + 1)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| sanitize_texts(item, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Difference between the approved definitions of a server and those that it offers now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    /// Definitions in use: the approved ones that are offered, in the order of their approval.
    pub(crate) used: Vec<Definition>,
    /// Changed definitions, as they are offered now.
    pub(crate) changed: Vec<Definition>,
    /// Definitions that were never approved.
    pub(crate) new: Vec<Definition>,
}

impl Comparison {
    /// Compares. A changed definition keeps its approved form, a new one is not used.
    pub(crate) fn of(approved: &[Definition], offered: &[Definition]) -> Self {
        let mut comparison = Self::default();
        for known in approved {
            if let Some(now) = offered.iter().find(|one| one.key() == known.key()) {
                comparison.used.push(known.clone());
                if now != known {
                    comparison.changed.push(now.clone());
                }
            }
        }
        let is_new = |one: &&Definition| approved.iter().all(|known| known.key() != one.key());
        comparison.new = offered.iter().filter(is_new).cloned().collect();
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, about: &str) -> Definition {
        Definition {
            kind: DefinitionKind::Tool,
            name: name.to_owned(),
            uri: String::new(),
            description: about.to_owned(),
            schema: json!({"type": "object", "properties": {}}),
            effect: Effect::Irreversible,
        }
    }

    #[test]
    fn changed_definition_keeps_its_approved_form_and_a_new_one_is_not_used() {
        let approved = [
            definition("a", "1"),
            definition("b", "1"),
            definition("c", "1"),
        ];
        let offered = [
            definition("d", "1"),
            definition("c", "1"),
            definition("a", "2"),
        ];
        let expected = Comparison {
            used: vec![definition("a", "1"), definition("c", "1")],
            changed: vec![definition("a", "2")],
            new: vec![definition("d", "1")],
        };
        assert_eq!(Comparison::of(&approved, &offered), expected);
    }

    fn tool(schema: &Value, about: &str) -> Result<Definition, &'static str> {
        let tool = json!({"name": "x", "description": about, "inputSchema": schema});
        let tool: model::Tool = serde_json::from_value(tool).unwrap();
        Definition::of_tool(&tool)
    }

    #[test]
    fn hostile_definitions_are_bounded_or_refused() {
        let huge = tool(&json!({"type": "object"}), &"A".repeat(10 << 20)).unwrap();
        assert!(huge.description.len() < MAX_DESCRIPTION + 20);
        let hidden = tool(
            &json!({"properties": {"a": {"description": "x\u{200b}y"}}}),
            "tag \u{e0041}\u{1b}[31mred",
        );
        let hidden = hidden.unwrap();
        assert!(hidden.description.is_ascii() && !hidden.description.contains('\u{1b}'));
        assert_eq!(
            hidden.schema["properties"]["a"]["description"],
            "x\\u{200b}y"
        );
        let cycle = json!({
            "$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}},
        });
        let cycle = tool(&cycle, "").unwrap();
        assert_eq!(
            (&cycle.schema["type"], cycle.schema.get("$ref")),
            (&json!("object"), None)
        );
        let large = json!({"properties": {"a": {"description": "x".repeat(MAX_SCHEMA)}}});
        assert_eq!(tool(&large, ""), Err("its schema is too large"));
        let deep = (0..60).fold(json!({}), |inner, _| json!({"items": inner}));
        assert_eq!(tool(&deep, ""), Err("its schema is too deep"));
    }

    #[test]
    fn effect_follows_the_hints_of_the_server() {
        for (hints, effect) in [
            (json!({"readOnlyHint": true}), Effect::Pure),
            (json!({"idempotentHint": true}), Effect::Idempotent),
            (json!({"readOnlyHint": false}), Effect::Irreversible),
            (json!({}), Effect::Irreversible),
        ] {
            let tool = json!({"name": "x", "inputSchema": {}, "annotations": hints});
            let tool: model::Tool = serde_json::from_value(tool).unwrap();
            assert_eq!(Definition::of_tool(&tool).unwrap().effect, effect);
        }
    }
}
