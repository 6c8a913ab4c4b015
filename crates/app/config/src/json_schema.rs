//! JSON Schema of the configuration file, for editors.
//!
//! Unknown keys are accepted everywhere, because they are kept. A reference (`"${NAME}"`) is
//! accepted in place of every value, and `null` as well, because it counts as absent.

use serde_json::{Map, Value, json};

use crate::Config;
use crate::schema::shape::{Entries, KeyShape};

/// Version of JSON Schema.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Title of the schema.
pub(crate) const TITLE: &str = "nanobot configuration";

impl Config {
    /// Returns the JSON Schema (draft 2020-12) of the file: every registered key with meaning,
    /// default and allowed values.
    #[must_use]
    pub fn json_schema(&self) -> Value {
        let mut schema = section(self.described(), "#");
        schema.insert("$schema".to_owned(), json!(DIALECT));
        schema.insert("title".to_owned(), json!(TITLE));
        let reference = json!({
            "description": "The value of an environment variable.",
            "type": "string",
            "pattern": "^\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}$"
        });
        schema.insert("$defs".to_owned(), json!({ "reference": reference }));
        Value::Object(schema)
    }
}

/// `pointer` is the JSON pointer of the schema that is returned.
fn section(shape: &KeyShape, pointer: &str) -> Map<String, Value> {
    let mut schema = Map::new();
    let facts = shape.facts();
    if let Some(meaning) = facts.meaning {
        schema.insert("description".to_owned(), json!(meaning));
    }
    schema.insert("type".to_owned(), json!(["object", "null"]));
    let mut properties = Map::new();
    for (name, child) in shape.registered().filter(|(_, child)| !child.is_later()) {
        let below = format!("{pointer}/properties/{name}");
        properties.insert(name.clone(), any(child, &below));
    }
    if let Some(entries) = shape.entry_rules() {
        entry_sections(entries, pointer, &mut schema, &mut properties);
    }
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema
}

/// Adds the schemas of entries: of each kind under its own name, and of any other name.
fn entry_sections(
    entries: &Entries,
    pointer: &str,
    schema: &mut Map<String, Value>,
    properties: &mut Map<String, Value>,
) {
    let mut other = section(
        &entries.template,
        &format!("{pointer}/additionalProperties"),
    );
    let mut choices = Vec::new();
    for (kind, shape) in &entries.kinds {
        let mut whole = entries.template.clone();
        whole.add(shape);
        let below = format!("{pointer}/properties/{kind}");
        properties.insert(kind.clone(), any(&whole, &below));
        if let Some(key) = &entries.discriminator {
            choices.push(json!({
                "if": {"type": "object", "properties": {key: {"const": kind}}, "required": [key]},
                "then": {"$ref": below}
            }));
        }
    }
    if !choices.is_empty() {
        other.insert("allOf".to_owned(), Value::Array(choices));
    }
    // Other values are unknown keys, which are kept.
    other.remove("type");
    schema.insert("additionalProperties".to_owned(), Value::Object(other));
}

fn any(shape: &KeyShape, pointer: &str) -> Value {
    if shape.is_section() && !shape.is_data() {
        return Value::Object(section(shape, pointer));
    }
    let facts = shape.facts();
    let mut schema = Map::new();
    if let Some(meaning) = &facts.meaning {
        schema.insert("description".to_owned(), json!(meaning));
    }
    if let Some(default) = shape.leaf_default().filter(|default| !default.is_null()) {
        schema.insert("default".to_owned(), default.clone());
    }
    let value = facts.schema();
    if value.is_empty() {
        return Value::Object(schema);
    }
    let choices = json!([value, {"type": "null"}, {"$ref": "#/$defs/reference"}]);
    schema.insert("anyOf".to_owned(), choices);
    Value::Object(schema)
}
