//! Explains effective values and their origins for display. All secrets are redacted.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::key::KeyPath;
use crate::layer::LayerSource;
use crate::redact::redacted;
use crate::reference::references;
use crate::registry::ResolvedKey;
use crate::schema::KeyShape;
use crate::{Config, ConfigError, ValueOrigin};

/// The value that one layer sets for a key.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayerValue {
    /// The layer, and the position in it.
    pub origin: ValueOrigin,
    /// The value with secrets redacted; `None` if the key is set but blank (`""` or `null`), which
    /// counts as absent.
    pub value: Option<Value>,
}

/// A `${NAME}` reference of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableReference {
    /// Name of the variable.
    pub name: String,
    /// `true` if the variable is set.
    pub is_set: bool,
}

/// Explanation of a key's value. `Display` writes a few lines for a terminal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The canonical key.
    pub key: String,
    /// The meaning, if its section declares one.
    pub meaning: Option<String>,
    /// The type, in words.
    pub value_type: String,
    /// The allowed values or the range; `None` if the type alone decides.
    pub allowed: Option<String>,
    /// The effective value, with secrets redacted and references unresolved; `None` if there is
    /// none.
    pub value: Option<Value>,
    /// Origin of the effective value.
    pub origin: ValueOrigin,
    /// The built-in value, if there is one.
    pub default: Option<Value>,
    /// Every layer that mentions the key, strongest first; the defaults come last.
    pub statements: Vec<LayerValue>,
    /// The variables that the effective value refers to. Their values are not included.
    pub references: Vec<VariableReference>,
    /// `true` if the key is accepted and kept but not read by this version.
    pub not_read: bool,
}

impl Explanation {
    /// Returns value, origin and meaning in two lines, for the list of a section.
    #[must_use]
    pub fn summary(&self) -> String {
        let value = shown(self.value.as_ref());
        let mut text = format!("{} = {value}  ({})", self.key, self.origin);
        for reference in &self.references {
            text.push_str(&format!("\n    {reference}"));
        }
        if let Some(meaning) = &self.meaning {
            text.push_str(&format!("\n    {meaning}"));
        }
        text
    }
}

impl fmt::Display for VariableReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_set { "set" } else { "not set" };
        write!(
            formatter,
            "${{{}}} is {state} in the environment",
            self.name
        )
    }
}

/// Formats a value; one that is absent or `null` is not set.
fn shown(value: Option<&Value>) -> String {
    value
        .filter(|value| !value.is_null())
        .map_or("(not set)".to_owned(), Value::to_string)
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} = {}", self.key, shown(self.value.as_ref()))?;
        if let Some(meaning) = &self.meaning {
            write!(formatter, "\n  meaning    {meaning}")?;
        }
        write!(formatter, "\n  type       {}", self.value_type)?;
        if let Some(allowed) = &self.allowed {
            write!(formatter, "\n  allowed    {allowed}")?;
        }
        write!(formatter, "\n  set by     {}", self.origin)?;
        write!(formatter, "\n  default    {}", shown(self.default.as_ref()))?;
        let others = self
            .statements
            .iter()
            .filter(|other| other.origin != self.origin && other.origin != ValueOrigin::Default);
        for LayerValue { origin, value } in others {
            match value {
                Some(value) => write!(formatter, "\n  overrides  {value} from {origin}")?,
                None => write!(formatter, "\n  blank      {origin} (counts as absent)")?,
            }
        }
        for reference in &self.references {
            write!(formatter, "\n  variable   {reference}")?;
        }
        if self.not_read {
            formatter.write_str("\n  note       kept, but not read by this version")?;
        }
        Ok(())
    }
}

impl Config {
    /// Explains a key, or every key of a section, whether the file has it or not.
    ///
    /// # Errors
    /// Returns [`ConfigError::UnknownKey`] if neither a section nor any layer has the key.
    pub fn explain(&self, key: &str) -> Result<Vec<Explanation>, ConfigError> {
        let resolved = self.resolve(key, None)?;
        let mut leaves = BTreeSet::new();
        self.leaves(&resolved.path, &resolved.shape, &mut leaves);
        if leaves.is_empty() {
            leaves.insert(resolved.path.clone());
        }
        Ok(leaves
            .iter()
            .map(|leaf| self.explain_leaf(leaf, &resolved))
            .collect())
    }

    /// Adds every key of a shape, and every value of the layers, at a path and below.
    fn leaves(&self, path: &KeyPath, shape: &KeyShape, leaves: &mut BTreeSet<KeyPath>) {
        let value = self.json_at(path);
        let is_section = shape.is_section() && !shape.is_data();
        if !is_section || !value.as_ref().is_none_or(Value::is_object) {
            match value {
                Some(value) => collect_leaves(path, &value, leaves),
                None => drop(leaves.insert(path.clone())),
            }
            return;
        }
        for (name, child) in shape.all().filter(|(_, child)| !child.is_later()) {
            self.leaves(&path.child(name), child, leaves);
        }
        for (name, value) in value.iter().filter_map(Value::as_object).flatten() {
            if shape.child(name).is_none_or(KeyShape::is_later) {
                collect_leaves(&path.child(name), value, leaves);
            }
        }
    }

    /// Returns the whole effective configuration, with secrets redacted and references unresolved.
    #[must_use]
    pub fn show(&self) -> Value {
        let all = self.json_at(&KeyPath::default());
        redacted(&[], &all.unwrap_or_default())
    }

    fn explain_leaf(&self, path: &KeyPath, around: &ResolvedKey) -> Explanation {
        let hidden = |value: &Value| redacted(path.parts(), value);
        let mut statements = Vec::new();
        for layer in self.layers.iter().rev() {
            if let Some(value) = layer.value(path.parts()) {
                statements.push(LayerValue {
                    origin: layer.origin(path),
                    value: Some(hidden(value)),
                });
            } else if let Some(origin) = layer.blanks.get(path) {
                statements.push(LayerValue {
                    origin: origin.clone(),
                    value: None,
                });
            }
        }
        let below = path.parts().get(around.path.parts().len()..);
        let shape = around.shape.at(below.unwrap_or_default());
        let facts = shape.map(KeyShape::facts).unwrap_or_default();
        let default = shape.and_then(KeyShape::defaults);
        let default = default.as_ref().map(hidden);
        Explanation {
            key: path.to_string(),
            value: self.json_at(path).as_ref().map(hidden).or(default.clone()),
            origin: self.origin_of_set(path),
            value_type: facts.type_text(),
            allowed: facts.allowed_text(),
            meaning: facts.meaning,
            default,
            statements,
            references: self.variables(path),
            not_read: around.is_later || self.is_not_read(path),
        }
    }

    /// Returns the variables that the effective value refers to.
    fn variables(&self, path: &KeyPath) -> Vec<VariableReference> {
        let layers = self.layers.iter().rev();
        let stated = layers
            .filter_map(|layer| Some((layer.source, layer.value(path.parts())?)))
            .next();
        let Some((LayerSource::File | LayerSource::CommandLine, value)) = stated else {
            return Vec::new();
        };
        let mut names = BTreeSet::new();
        collect_references(value, &mut names);
        names
            .into_iter()
            .map(|name| VariableReference {
                is_set: self.environment().variable(&name).is_some(),
                name,
            })
            .collect()
    }

    fn origin_of_set(&self, path: &KeyPath) -> ValueOrigin {
        if self.find(path).is_some() {
            self.origin_of(path)
        } else {
            ValueOrigin::Default
        }
    }

    /// Returns `true` if a section has this key, or if it is part of user data inside a section.
    pub(crate) fn is_read(&self, path: &KeyPath) -> bool {
        let mut shape = Some(&self.shape);
        for part in path.parts() {
            match shape {
                None => return false,
                Some(here) if here.is_later() => return false,
                Some(here) if here.is_data() || !here.is_section() => return true,
                Some(here) => shape = here.child(part),
            }
        }
        shape.is_some_and(|here| !here.is_later())
    }

    fn is_not_read(&self, path: &KeyPath) -> bool {
        let mut here = Some(path.clone());
        while let Some(key) = here {
            if self
                .shape
                .at(key.parts())
                .is_some_and(|shape| shape.is_later())
            {
                return true;
            }
            here = key.parent();
        }
        false
    }

    fn json_at(&self, path: &KeyPath) -> Option<Value> {
        serde_json::to_value(self.find(path)?).ok()
    }
}

fn collect_leaves(path: &KeyPath, value: &Value, leaves: &mut BTreeSet<KeyPath>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                collect_leaves(&path.child(name), value, leaves);
            }
        }
        _ => drop(leaves.insert(path.clone())),
    }
}

fn collect_references(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => names.extend(references(text).map(str::to_owned)),
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_references(item, names)),
        Value::Object(map) => map
            .values()
            .for_each(|item| collect_references(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
