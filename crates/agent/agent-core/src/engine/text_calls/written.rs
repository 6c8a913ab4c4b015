//! A call as a model wrote it.

use nanobot_provider::{parse_lenient, sanitize_name};
use nanobot_types::{Map, ToolCall, ToolSpec};
use serde_json::Value;

/// Reason of a call that ends too early.
pub(super) const CUT: &str = "the call was cut off before its end; send the whole call again, in smaller parts if it is long";

/// A call with its name and its arguments.
pub(super) struct Written {
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

/// The arguments of a call.
pub(super) enum Arguments {
    /// An object.
    Object(Map),
    /// Names and texts, whose types are those of the tool's schema.
    Texts(Vec<(String, String)>),
    /// What cannot be read, and the reason for the model.
    Unreadable { raw: String, why: String },
}

impl Written {
    /// Reads a call or a list of calls from a value. Returns `None` if a part of it is none.
    /// `has_arguments` tells whether a call must have them.
    pub(super) fn list(value: Value, has_arguments: bool) -> Option<Vec<Self>> {
        match value {
            Value::Array(items) => items
                .into_iter()
                .map(|item| Self::one(item, has_arguments))
                .collect(),
            value => Self::one(value, has_arguments).map(|call| vec![call]),
        }
    }

    fn one(value: Value, has_arguments: bool) -> Option<Self> {
        let Value::Object(mut call) = value else {
            return None;
        };
        if let Some(Value::Object(function)) = call.remove("function_call") {
            call = function;
        }
        let named = ["name", "tool_name", "function"]
            .into_iter()
            .find_map(|member| call.remove(member));
        let name = match named? {
            Value::String(name) if !name.trim().is_empty() => name.trim().to_owned(),
            function @ Value::Object(_) => return Self::one(function, has_arguments),
            _ => return None,
        };
        let given = ["arguments", "parameters"]
            .into_iter()
            .find_map(|member| call.remove(member));
        if given.is_none() && has_arguments {
            return None;
        }
        let arguments = Arguments::of(given.unwrap_or(Value::Null));
        Some(Self { name, arguments })
    }

    /// Makes it a call of the turn.
    pub(super) fn into_call(self, id: String, tools: &[ToolSpec]) -> ToolCall {
        let schema = tools
            .iter()
            .find(|tool| tool.name.as_str() == self.name)
            .map(|tool| &tool.parameters);
        let name = sanitize_name(&self.name);
        match self.arguments {
            Arguments::Object(map) => ToolCall::new(id, name, Value::Object(map).to_string()),
            Arguments::Texts(texts) => match typed(texts, schema) {
                Ok(map) => ToolCall::new(id, name, Value::Object(map).to_string()),
                Err(argument) => {
                    let why = format!("{argument:?} is given twice");
                    ToolCall::malformed(id, name, &argument, &why)
                }
            },
            Arguments::Unreadable { raw, why } => ToolCall::malformed(id, name, &raw, &why),
        }
    }
}

impl Arguments {
    /// Takes the arguments out of a value. A text is JSON that was encoded once more.
    pub(super) fn of(value: Value) -> Self {
        match value {
            Value::Null => Self::Object(Map::new()),
            Value::Object(map) => Self::Object(map),
            Value::String(text) if text.trim().is_empty() => Self::Object(Map::new()),
            Value::String(text) => match whole_value(&text) {
                Ok(Value::Object(map)) => Self::Object(map),
                Ok(_) => Self::no_object(&text),
                Err(why) => Self::Unreadable { raw: text, why },
            },
            other => Self::no_object(&other.to_string()),
        }
    }

    fn no_object(raw: &str) -> Self {
        Self::Unreadable {
            raw: raw.to_owned(),
            why: "the arguments must be one JSON object".to_owned(),
        }
    }

    pub(super) fn cut(raw: &str) -> Self {
        Self::Unreadable {
            raw: raw.to_owned(),
            why: CUT.to_owned(),
        }
    }
}

/// Parses a text that is one value and nothing else. The line break shows that a number is whole.
fn whole_value(text: &str) -> Result<Value, String> {
    let line = format!("{text}\n");
    let (value, rest) = parse_lenient(&line)?;
    if rest.trim().is_empty() {
        Ok(value)
    } else {
        Err("the arguments go on after their end; send one JSON object".to_owned())
    }
}

/// Gives texts the types of a schema. Returns the name that is there twice.
fn typed(texts: Vec<(String, String)>, schema: Option<&Value>) -> Result<Map, String> {
    let mut map = Map::new();
    for (name, text) in texts {
        let types = schema.and_then(|schema| schema.get("properties")?.get(&name));
        let value = plain_value(text, types);
        if map.insert(name.clone(), value).is_some() {
            return Err(name);
        }
    }
    Ok(map)
}

/// Returns the value of a text: a text if the schema permits one, otherwise JSON if it is that.
fn plain_value(text: String, schema: Option<&Value>) -> Value {
    if schema.is_none_or(permits_text) {
        return Value::String(text);
    }
    whole_value(&text).unwrap_or(Value::String(text))
}

fn permits_text(schema: &Value) -> bool {
    let names_text = |kind: &Value| kind == "string";
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(names_text),
        Some(kind) => names_text(kind),
        None => match ["anyOf", "oneOf"].iter().find_map(|any| schema.get(*any)) {
            Some(Value::Array(schemas)) => schemas.iter().any(permits_text),
            // An enumeration has texts almost always; a free schema permits everything.
            _ => schema.get("enum").is_some(),
        },
    }
}
