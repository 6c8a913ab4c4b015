//! The description of a key: meaning, type and allowed values.
//!
//! Decision: descriptions are JSON Schema, because the owners of sections derive it from their
//! structs, and third parties know it. Only the part that explains one key is read: `description`,
//! `type`, `enum`, `minimum`, `maximum`, `items`, and a choice (`oneOf`, `anyOf`) of these.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value, json};

use crate::describe;

/// Maximum depth of nested choices that are read.
const MAX_DEPTH: usize = 8;

/// A value that a key accepts, and its meaning.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AllowedValue {
    pub(crate) value: Value,
    pub(crate) meaning: Option<String>,
}

/// Meaning, types and allowed values of a key. An empty set of types is any type.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KeyFacts {
    pub(crate) meaning: Option<String>,
    pub(crate) types: BTreeSet<String>,
    pub(crate) allowed: Vec<AllowedValue>,
    pub(crate) minimum: Option<Number>,
    pub(crate) maximum: Option<Number>,
    /// Types of the elements of a list.
    pub(crate) items: BTreeSet<String>,
}

impl KeyFacts {
    /// Reads the JSON Schema of one key. Unknown parts are ignored.
    pub(crate) fn parse(schema: &Value) -> Self {
        let mut facts = Self::default();
        facts.read(schema, 0);
        facts
    }

    fn read(&mut self, schema: &Value, depth: usize) {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).map(one_line);
        if self.meaning.is_none() && depth == 0 {
            self.meaning = text("description").filter(|meaning| !meaning.is_empty());
        }
        self.types.extend(type_names(schema));
        let constant = schema.get("const");
        let listed = schema.get("enum").and_then(Value::as_array);
        for value in listed.into_iter().flatten().chain(constant) {
            if !value.is_null() {
                self.types.insert(type_name(value).to_owned());
                self.allowed.push(AllowedValue {
                    value: value.clone(),
                    meaning: constant.and(text("description")),
                });
            }
        }
        let bound = |name: &str| schema.get(name).and_then(Value::as_number).cloned();
        self.minimum = bound("minimum").or(self.minimum.take());
        self.maximum = bound("maximum").or(self.maximum.take());
        if let Some(items) = schema.get("items") {
            self.items.extend(type_names(items));
        }
        if depth < MAX_DEPTH {
            for choice in ["oneOf", "anyOf"] {
                let choices = schema.get(choice).and_then(Value::as_array);
                choices
                    .into_iter()
                    .flatten()
                    .for_each(|schema| self.read(schema, depth + 1));
            }
        }
    }

    /// Returns the facts that are known from a default alone.
    pub(crate) fn of_default(default: &Value) -> Self {
        let kind = match default {
            Value::Null => None,
            Value::Number(_) => Some("number"),
            other => Some(type_name(other)),
        };
        Self {
            types: kind.map(str::to_owned).into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns `true` if a text is taken as it is, and not as JSON.
    pub(crate) fn is_text(&self) -> bool {
        let mut types = self.types.iter().filter(|name| *name != "null");
        types.next().is_some_and(|name| name == "string") && types.next().is_none()
    }

    /// Returns `true` if text is one of the types.
    pub(crate) fn allows_text(&self) -> bool {
        self.types.is_empty() || self.types.contains("string")
    }

    /// Describes the types in words.
    pub(crate) fn type_text(&self) -> String {
        let words: Vec<String> = self
            .types
            .iter()
            .filter(|name| *name != "null")
            .filter(|name| *name != "integer" || !self.types.contains("number"))
            .map(|name| self.type_words(name))
            .collect();
        if words.is_empty() {
            "any".to_owned()
        } else {
            words.join(" or ")
        }
    }

    fn type_words(&self, name: &str) -> String {
        match name {
            "string" => "text",
            "boolean" => "true or false",
            "integer" => "whole number",
            "array" if self.items.len() == 1 && self.items.contains("string") => "list of texts",
            "array" => "list",
            other => other,
        }
        .to_owned()
    }

    /// Describes the allowed values; `None` if the type alone decides.
    pub(crate) fn allowed_text(&self) -> Option<String> {
        if !self.allowed.is_empty() {
            let values: Vec<String> = self
                .allowed
                .iter()
                .map(|allowed| allowed.value.to_string())
                .collect();
            return Some(values.join(", "));
        }
        match (&self.minimum, &self.maximum) {
            (Some(low), Some(high)) => Some(format!("{} to {}", short(low), short(high))),
            (Some(low), None) => Some(format!("{} or more", short(low))),
            (None, Some(high)) => Some(format!("up to {}", short(high))),
            (None, None) => None,
        }
    }

    /// Checks a value; the error describes what is wanted instead. References and unset values are
    /// for the caller.
    pub(crate) fn check(&self, value: &Value, is_secret: bool) -> Result<(), String> {
        let found = || describe::json(value, is_secret);
        let is_listed = |allowed: &AllowedValue| allowed.value == *value;
        if !self.allowed.is_empty() && !self.allowed.iter().any(is_listed) {
            let values = self.allowed_text().unwrap_or_default();
            return Err(format!("{} is not one of {values}", found()));
        }
        if !self.types.is_empty() && !self.types.iter().any(|name| is_of_type(value, name)) {
            return Err(format!("{} is not {}", found(), article(&self.type_text())));
        }
        let number = value.as_f64();
        let too_low = |low: f64| number.is_some_and(|number| number < low);
        let too_high = |high: f64| number.is_some_and(|number| number > high);
        let outside = self
            .minimum
            .as_ref()
            .and_then(Number::as_f64)
            .is_some_and(too_low)
            || self
                .maximum
                .as_ref()
                .and_then(Number::as_f64)
                .is_some_and(too_high);
        if outside {
            let range = self.allowed_text().unwrap_or_default();
            return Err(format!("{} is out of range: {range}", found()));
        }
        let wrong_item = value
            .as_array()
            .into_iter()
            .flatten()
            .find(|item| !self.items.iter().any(|name| is_of_type(item, name)));
        match wrong_item {
            Some(item) if !self.items.is_empty() => Err(format!(
                "{} in the list does not fit: {} is wanted",
                describe::json(item, is_secret),
                article(&self.type_text())
            )),
            _ => Ok(()),
        }
    }

    /// Returns the JSON Schema of a value, without its description.
    pub(crate) fn schema(&self) -> Map<String, Value> {
        let mut schema = Map::new();
        let types: Vec<&String> = self.types.iter().filter(|name| *name != "null").collect();
        match types.as_slice() {
            [] => {}
            [one] => drop(schema.insert("type".to_owned(), json!(one))),
            several => drop(schema.insert("type".to_owned(), json!(several))),
        }
        if !self.allowed.is_empty() {
            let values: Vec<&Value> = self.allowed.iter().map(|allowed| &allowed.value).collect();
            schema.insert("enum".to_owned(), json!(values));
        }
        for (name, bound) in [("minimum", &self.minimum), ("maximum", &self.maximum)] {
            if let Some(bound) = bound {
                schema.insert(name.to_owned(), json!(bound));
            }
        }
        if !self.items.is_empty() {
            schema.insert("items".to_owned(), json!({ "type": self.items }));
        }
        schema
    }
}

fn type_names(schema: &Value) -> impl Iterator<Item = String> {
    let names = match schema.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    };
    names.into_iter()
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    let found = type_name(value);
    found == name || (found == "integer" && name == "number")
}

fn article(types: &str) -> String {
    match types {
        "text" | "true or false" | "any" => types.to_owned(),
        other if other.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {other}"),
        other => format!("a {other}"),
    }
}

/// Returns a bound without a fraction of zero.
fn short(number: &Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Returns the first paragraph of a description as one line.
fn one_line(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_all_forms_are_read() {
        let table = [
            (json!({"type": "string"}), "text", None),
            (json!({"type": ["string", "null"]}), "text", None),
            (
                json!({"type": "integer", "minimum": 0, "maximum": 65535}),
                "whole number",
                Some("0 to 65535"),
            ),
            (
                json!({"type": "number", "minimum": 0.5}),
                "number",
                Some("0.5 or more"),
            ),
            (
                json!({"anyOf": [{"type": "string", "enum": ["low", "high"]}, {"type": "null"}]}),
                "text",
                Some("\"low\", \"high\""),
            ),
            (
                json!({"oneOf": [{"const": "ask", "description": "Asks."}, {"const": "drop"}]}),
                "text",
                Some("\"ask\", \"drop\""),
            ),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                "list of texts",
                None,
            ),
            (json!({}), "any", None),
        ];
        for (schema, types, allowed) in table {
            let facts = KeyFacts::parse(&schema);
            assert_eq!(facts.type_text(), types, "{schema}");
            assert_eq!(facts.allowed_text().as_deref(), allowed, "{schema}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_the_wanted_ones() {
        let table = [
            (json!({"type": "integer"}), json!(1), None),
            (json!({"type": "number"}), json!(1), None),
            (
                json!({"type": "integer"}),
                json!(1.5),
                Some("the number 1.5 is not a whole number"),
            ),
            (
                json!({"type": "integer", "maximum": 65535}),
                json!(70000),
                Some("the number 70000 is out of range: up to 65535"),
            ),
            (
                json!({"enum": ["disk", "os"]}),
                json!("ram"),
                Some("the text \"ram\" is not one of \"disk\", \"os\""),
            ),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                json!(["a", 1]),
                Some("the number 1 in the list does not fit: a list of texts is wanted"),
            ),
            (
                json!({"type": "boolean"}),
                json!("yes"),
                Some("the text \"yes\" is not true or false"),
            ),
        ];
        for (schema, value, expected) in table {
            let checked = KeyFacts::parse(&schema).check(&value, false);
            assert_eq!(checked.err().as_deref(), expected, "{schema} {value}");
        }
    }

    #[test]
    fn deeply_nested_description_ends() {
        let nest = |inner: Value, _| json!({ "anyOf": [inner] });
        let deep = (0..100).fold(json!({"type": "string"}), nest);
        assert_eq!(KeyFacts::parse(&deep), KeyFacts::default());
    }
}
