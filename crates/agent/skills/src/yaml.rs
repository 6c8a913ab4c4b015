//! Parses YAML into JSON values, bounded in size.
//!
//! The parser yields events and expands nothing. They are built into a value of at most [`NODES`]
//! nodes, with the nodes of an alias counted each time it is used, so that a small text cannot
//! become a large value. Scalars follow the core schema of YAML 1.2; the last of duplicate keys
//! wins.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

/// Maximum number of nodes in a value.
const NODES: usize = 4096;

/// Maximum nesting depth of a value.
const DEPTH: usize = 32;

/// Reason why a text was not parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum YamlError {
    /// It is not valid YAML.
    #[error("line {line}: {why}")]
    Syntax {
        /// Line number, from 1.
        line: usize,
        /// Message of the parser.
        why: String,
    },
    /// A map key is a list or a map, or an alias refers to an incomplete anchor.
    #[error("line {line}: {why}")]
    Shape {
        /// Line number, from 1.
        line: usize,
        /// Unsupported structure.
        why: &'static str,
    },
    /// It exceeds the limits of a header.
    #[error("it is larger than {NODES} values or deeper than {DEPTH} levels")]
    TooLarge,
}

/// A collection that is not closed yet.
enum OpenCollection {
    List {
        items: Vec<Value>,
        anchor: usize,
    },
    Table {
        members: Map<String, Value>,
        key: Option<String>,
        anchor: usize,
    },
}

/// Builds a value from parser events.
#[derive(Default)]
struct Builder {
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, (Value, usize)>,
    nodes: usize,
    done: Option<Value>,
}

/// Parses the first document of a text; null if there is none.
pub(crate) fn parse(text: &str) -> Result<Value, YamlError> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError::Syntax {
            line: error.marker().line(),
            why: error.info().to_owned(),
        })?;
        builder.take(event, span.start.line())?;
        if builder.done.is_some() {
            break;
        }
    }
    Ok(builder.done.unwrap_or(Value::Null))
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count_nodes(1)?;
                self.put(scalar(text, style, tag.as_deref()), anchor, 1, line)
            }
            Event::SequenceStart(anchor, _) => self.open(OpenCollection::List {
                items: Vec::new(),
                anchor,
            }),
            Event::MappingStart(anchor, _) => self.open(OpenCollection::Table {
                members: Map::new(),
                key: None,
                anchor,
            }),
            Event::SequenceEnd | Event::MappingEnd => self.close(line),
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).cloned();
                let (value, nodes) = known.ok_or(YamlError::Shape {
                    line,
                    why: "an alias repeats something that is not complete",
                })?;
                self.count_nodes(nodes)?;
                self.put(value, 0, nodes, line)
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn count_nodes(&mut self, nodes: usize) -> Result<(), YamlError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODES {
            Err(YamlError::TooLarge)
        } else {
            Ok(())
        }
    }

    fn open(&mut self, collection: OpenCollection) -> Result<(), YamlError> {
        self.count_nodes(1)?;
        if self.open.len() >= DEPTH {
            return Err(YamlError::TooLarge);
        }
        self.open.push(collection);
        Ok(())
    }

    fn close(&mut self, line: usize) -> Result<(), YamlError> {
        let (value, anchor) = match self.open.pop() {
            Some(OpenCollection::List { items, anchor }) => (Value::Array(items), anchor),
            Some(OpenCollection::Table {
                members, anchor, ..
            }) => (Value::Object(members), anchor),
            None => return Ok(()),
        };
        let nodes = count(&value);
        self.put(value, anchor, nodes, line)
    }

    fn put(
        &mut self,
        value: Value,
        anchor: usize,
        nodes: usize,
        line: usize,
    ) -> Result<(), YamlError> {
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), nodes));
        }
        match self.open.last_mut() {
            None => self.done = Some(value),
            Some(OpenCollection::List { items, .. }) => items.push(value),
            Some(OpenCollection::Table { members, key, .. }) => match key.take() {
                Some(key) => {
                    members.insert(key, value);
                }
                None => {
                    *key = Some(scalar_text(&value).ok_or(YamlError::Shape {
                        line,
                        why: "a key is not a plain value",
                    })?);
                }
            },
        }
        Ok(())
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Returns a scalar as text; null is the empty text. `None` for a list or a map.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return Value::String(text.into_owned());
    }
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        other => number(other).map_or_else(|| Value::String(text.into_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let whole = text.parse::<i64>().ok().map(Number::from);
    whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_becomes_json() {
        let table = [
            ("", json!(null)),
            (
                "a: 1\nb: [x, 'y', \"z\\n\"]\nc:\n  d: true\n  e: ~\n",
                json!({"a": 1, "b": ["x", "y", "z\n"], "c": {"d": true, "e": null}}),
            ),
            (
                "a: 'true'\nb: !!str 5\nc: -1.5\nd: 1.2.3\ne: .x",
                json!({"a": "true", "b": "5", "c": -1.5, "d": "1.2.3", "e": ".x"}),
            ),
            (
                "{\"a\":{\"b\":[\"c\"]},\"d\":\"😀\"}",
                json!({"a": {"b": ["c"]}, "d": "😀"}),
            ),
            (
                "a: &x {k: v}\nb: *x\n1: one",
                json!({"a": {"k": "v"}, "b": {"k": "v"}, "1": "one"}),
            ),
            (
                "a: >-\n  two\n  lines\nb: |\n  kept\n  so\n",
                json!({"a": "two lines", "b": "kept\nso\n"}),
            ),
            ("a: 1\n...\nb: 2", json!({"a": 1})),
        ];
        for (text, value) in table {
            assert_eq!(parse(text), Ok(value), "{text:?}");
        }
    }

    #[test]
    fn rejects_oversized_documents() {
        let bomb: String = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
            + &('b'..='i')
                .zip('a'..)
                .map(|(name, of)| {
                    format!(
                        "{name}: &{name} [{}]\n",
                        vec![format!("*{of}"); 9].join(",")
                    )
                })
                .collect::<String>();
        let deep = "[".repeat(100);
        let wide = "- x\n".repeat(5000);
        for text in [bomb, deep, wide] {
            assert_eq!(parse(&text), Err(YamlError::TooLarge));
        }
    }

    proptest! {
        /// Parsing any header terminates without a panic.
        #[test]
        fn parsing_never_panics(text in r#"([ \t\n]{0,3}[-?:,\[\]{}#&*!|>'"%@`a~1.é\\]{0,4}){0,20}"#) {
            drop(parse(&text));
        }
    }

    #[test]
    fn syntax_errors_name_the_line() {
        for (text, line) in [
            ("a: b\nc: [d", 2),
            ("a: b: c", 1),
            ("a: \"b", 1),
            ("ok: 1\n\tx: 2", 1),
            ("a: *nothing", 1),
        ] {
            match parse(text) {
                Err(YamlError::Syntax { line: found, .. }) => {
                    assert!(found >= line, "{text:?} line {found}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
        for text in ["? [a]\n: b", "a: &x [*x]"] {
            assert!(
                matches!(parse(text), Err(YamlError::Shape { .. })),
                "{text:?}"
            );
        }
    }
}
