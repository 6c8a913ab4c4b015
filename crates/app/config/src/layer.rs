//! One source of settings: a tree of values and their origins.
//!
//! The file's values are typed. The environment and the command line only have text, which is
//! parsed by the type of the key's default: a default of `true` makes `false` a flag, a default of
//! `""` keeps `123` text. Without a default, a JSON list or object is parsed, and any other text
//! stays text until a section asks for another type (see `extract`).

use std::collections::BTreeMap;
use std::path::Path;

use figment::value::{Dict, Map as ProfileMap, Value as FigmentValue};
use figment::{Metadata, Profile, Provider};
use serde_json::{Map, Value};

use crate::document::{self, Node, TextPosition};
use crate::fold::{self, Values, in_file};
use crate::key::KeyPath;
use crate::schema::{KeyLookup, KeyShape};
use crate::{ConfigError, ConfigFinding, Environment, ValueOrigin};

const PREFIX: &str = "NANOBOT_";

/// The sources, in order of increasing precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerSource {
    Defaults,
    File,
    Environment,
    CommandLine,
}

impl LayerSource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Defaults => "defaults",
            Self::File => "file",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
        }
    }

    /// Returns `true` if all values of this source are text, whatever their meaning.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Environment | Self::CommandLine)
    }
}

/// The settings of one source.
pub(crate) struct Layer {
    pub(crate) source: LayerSource,
    pub(crate) tree: Map<String, Value>,
    pub(crate) blanks: BTreeMap<KeyPath, ValueOrigin>,
    origins: BTreeMap<KeyPath, ValueOrigin>,
}

impl Layer {
    fn new(source: LayerSource) -> Self {
        Self {
            source,
            tree: Map::new(),
            blanks: BTreeMap::new(),
            origins: BTreeMap::new(),
        }
    }

    /// Creates the layer of built-in values. It is created last, when all entries of maps are
    /// known.
    pub(crate) fn defaults(shape: &KeyShape) -> Self {
        let mut layer = Self::new(LayerSource::Defaults);
        if let Some(Value::Object(tree)) = shape.defaults() {
            layer.tree = tree;
        }
        layer
    }

    pub(crate) fn file(values: Values, file: &Path) -> Self {
        let placed = |places: BTreeMap<KeyPath, TextPosition>| {
            places
                .into_iter()
                .map(|(key, place)| (key, in_file(file, place)))
                .collect()
        };
        Self {
            source: LayerSource::File,
            tree: values.tree,
            blanks: placed(values.blanks),
            origins: placed(values.places),
        }
    }

    /// Reads `NANOBOT_A__B_C=…` as `a.bC`. A variable without `__` is a setting only if its name is
    /// a section and its value a JSON object.
    pub(crate) fn environment(
        environment: &Environment,
        shape: &mut KeyShape,
        findings: &mut Vec<ConfigFinding>,
    ) -> Result<Self, ConfigError> {
        let mut layer = Self::new(LayerSource::Environment);
        for (variable, text) in environment.variables() {
            if !variable.to_ascii_uppercase().starts_with(PREFIX) {
                continue;
            }
            let tail: String = variable.chars().skip(PREFIX.len()).collect();
            let parts: Vec<&str> = tail.split("__").collect();
            let is_object = text.trim_start().starts_with('{');
            if parts.iter().any(|part| part.is_empty()) || (parts.len() < 2 && !is_object) {
                continue;
            }
            let origin = ValueOrigin::Environment {
                variable: variable.to_owned(),
            };
            let spoken = OverrideKey::from_variable(shape, &parts, is_object);
            if parts.len() < 2 && spoken.unknown {
                continue;
            }
            if spoken.unknown {
                findings.push(ConfigFinding::UnknownKey {
                    key: spoken.key.to_string(),
                    origin: origin.clone(),
                    nearest: spoken.nearest,
                });
            }
            layer.say(spoken.key, text, origin, shape)?;
        }
        Ok(layer)
    }

    /// Reads dotted keys and their texts; later ones override earlier ones.
    pub(crate) fn command_line(
        overrides: &[(String, String)],
        shape: &mut KeyShape,
    ) -> Result<Self, ConfigError> {
        let mut layer = Self::new(LayerSource::CommandLine);
        for (option, text) in overrides {
            let path = KeyPath::parse(option)?;
            let is_object = text.trim_start().starts_with('{');
            let spoken = OverrideKey::from_key(shape, &path, is_object);
            if spoken.unknown {
                return Err(ConfigError::UnknownKey {
                    key: option.clone(),
                    nearest: spoken.nearest,
                });
            }
            let origin = ValueOrigin::CommandLine {
                option: option.clone(),
            };
            layer.say(spoken.key, text, origin, shape)?;
        }
        Ok(layer)
    }

    fn say(
        &mut self,
        key: KeyPath,
        text: &str,
        origin: ValueOrigin,
        shape: &mut KeyShape,
    ) -> Result<(), ConfigError> {
        if text.is_empty() {
            self.blanks.insert(key, origin);
            return Ok(());
        }
        let mut unknown = KeyShape::default();
        let below = shape.at_mut(key.parts()).unwrap_or(&mut unknown);
        let value = match (below.leaf_default(), document::scan(text)) {
            (None | Some(Value::Null | Value::Object(_)), Ok(mut node @ Node::Object(_))) => {
                let place = Path::new(key.last());
                fold::fold(&mut node, below, place, &mut Vec::new())?;
                Value::Object(fold::values(&node, below).tree)
            }
            (hint, _) => typed(text, hint),
        };
        insert(&mut self.tree, key.parts(), value);
        self.origins.insert(key, origin);
        Ok(())
    }

    /// Returns the origin of the value at a path: of the value itself, of the nearest object around
    /// it, or of the first value inside it.
    pub(crate) fn origin(&self, path: &KeyPath) -> ValueOrigin {
        let mut here = Some(path.clone());
        while let Some(key) = here {
            if let Some(origin) = self.origins.get(&key) {
                return origin.clone();
            }
            here = key.parent();
        }
        let inside = self
            .origins
            .iter()
            .find(|(key, _)| key.parts().starts_with(path.parts()));
        inside.map_or(ValueOrigin::Default, |(_, origin)| origin.clone())
    }

    pub(crate) fn value(&self, path: &[String]) -> Option<&Value> {
        value_at(&self.tree, path)
    }
}

/// Returns the value at a path of keys.
pub(crate) fn value_at<'a>(tree: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(tree.get(first)?, |value, part| value.get(part))
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.name())
    }

    fn data(&self) -> Result<ProfileMap<Profile, Dict>, figment::Error> {
        let dict = FigmentValue::serialize(&self.tree)?
            .into_dict()
            .unwrap_or_default();
        Ok(Profile::Default.collect(dict))
    }
}

/// Parses text by the type of its key's default; text that does not fit stays text.
pub(crate) fn typed(text: &str, hint: Option<&Value>) -> Value {
    let json = || serde_json::from_str::<Value>(text).ok();
    let read = match hint {
        Some(Value::Bool(_)) => flag(text).map(Value::Bool),
        Some(Value::Number(_)) => json().filter(Value::is_number),
        Some(Value::Array(_)) => json().filter(Value::is_array),
        Some(Value::Object(_)) => json().filter(Value::is_object),
        Some(Value::Null) | None => json().filter(|value| value.is_array() || value.is_object()),
        Some(Value::String(_)) => None,
    };
    read.unwrap_or_else(|| Value::from(text))
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A key from the environment or the command line, resolved in the schema.
struct OverrideKey {
    key: KeyPath,
    unknown: bool,
    nearest: Option<String>,
}

impl OverrideKey {
    fn from_variable(shape: &mut KeyShape, parts: &[&str], is_object: bool) -> Self {
        Self::find(shape, parts, is_object, KeyShape::name_from_variable)
    }

    fn from_key(shape: &mut KeyShape, path: &KeyPath, is_object: bool) -> Self {
        let parts: Vec<&str> = path.parts().iter().map(String::as_str).collect();
        Self::find(shape, &parts, is_object, |_, part| part.to_owned())
    }

    fn find(
        shape: &mut KeyShape,
        parts: &[&str],
        is_object: bool,
        name_of: impl Fn(&KeyShape, &str) -> String,
    ) -> Self {
        let mut level = Some(shape);
        let mut spoken = Self {
            key: KeyPath::default(),
            unknown: false,
            nearest: None,
        };
        let empty = Value::Object(Map::new());
        for (index, part) in parts.iter().enumerate() {
            let Some(here) = level.take() else {
                spoken.key = spoken
                    .key
                    .child(&crate::key::camel(&name_of(&KeyShape::default(), part)));
                continue;
            };
            if here.is_data() {
                spoken.key = spoken.key.child(part);
                level = Some(here);
                continue;
            }
            let name = name_of(here, part);
            let holds_object = is_object || index + 1 < parts.len();
            match here.admit(&name, holds_object.then_some(&empty)) {
                KeyLookup::Known(name) => {
                    spoken.key = spoken.key.child(&name);
                    level = here.child_mut(&name);
                }
                KeyLookup::Unknown(name) => {
                    if here.is_section() {
                        spoken.unknown = true;
                        spoken.nearest = here.nearest(&name);
                    }
                    spoken.key = spoken.key.child(&name);
                }
            }
        }
        spoken
    }
}

fn insert(tree: &mut Map<String, Value>, path: &[String], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        match (tree.get_mut(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                for (key, value) in new {
                    insert(old, &[key], value);
                }
            }
            (_, value) => {
                tree.insert(name.clone(), value);
            }
        }
        return;
    }
    let below = tree.entry(name.clone()).or_insert(Value::Null);
    if !below.is_object() {
        *below = Value::Object(Map::new());
    }
    if let Value::Object(below) = below {
        insert(below, rest, value);
    }
}
