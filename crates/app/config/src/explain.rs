//! Explains effective values and their origins for display. All secrets are redacted.

use std::fmt;

use serde_json::Value;

use crate::key::KeyPath;
use crate::redact::redacted;
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

/// Explanation of a key's value. `Display` writes a few lines for a terminal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The canonical key.
    pub key: String,
    /// The effective value, with secrets redacted and references unresolved; `None` if there is
    /// none.
    pub value: Option<Value>,
    /// Origin of the effective value.
    pub origin: ValueOrigin,
    /// The built-in value, if there is one.
    pub default: Option<Value>,
    /// Every layer that mentions the key, strongest first; the defaults come last.
    pub statements: Vec<LayerValue>,
    /// `true` if the key is accepted and kept but not read by this version.
    pub not_read: bool,
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: Option<&Value>| value.map_or("(not set)".to_owned(), Value::to_string);
        write!(formatter, "{} = {}", self.key, shown(self.value.as_ref()))?;
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
        if self.not_read {
            formatter.write_str("\n  note       kept, but not read by this version")?;
        }
        Ok(())
    }
}

impl Config {
    /// Explains a key, or every value below it if it is a section.
    ///
    /// # Errors
    /// Returns [`ConfigError::UnknownKey`] if neither a section nor any layer has the key.
    pub fn explain(&self, key: &str) -> Result<Vec<Explanation>, ConfigError> {
        let path = self.path(key)?;
        let mut leaves = Vec::new();
        match self.json_at(&path) {
            Some(value) => collect_leaves(&path, &value, &mut leaves),
            None => leaves.push(path.clone()),
        }
        let is_known = self.json_at(&path).is_some()
            || self.shape.at(path.parts()).is_some()
            || self
                .layers
                .iter()
                .any(|layer| layer.blanks.contains_key(&path));
        if !is_known {
            return Err(ConfigError::UnknownKey {
                key: key.to_owned(),
                nearest: self.nearest(&path),
            });
        }
        Ok(leaves.iter().map(|leaf| self.explain_leaf(leaf)).collect())
    }

    /// Returns the whole effective configuration, with secrets redacted and references unresolved.
    #[must_use]
    pub fn show(&self) -> Value {
        let all = self.json_at(&KeyPath::default());
        redacted(&[], &all.unwrap_or_default())
    }

    fn explain_leaf(&self, path: &KeyPath) -> Explanation {
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
        let shape = self.shape.at(path.parts());
        Explanation {
            key: path.to_string(),
            value: self.json_at(path).as_ref().map(hidden),
            origin: self.origin_of_set(path),
            default: shape
                .and_then(|shape| shape.defaults())
                .as_ref()
                .map(hidden),
            statements,
            not_read: self.is_not_read(path),
        }
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

    fn nearest(&self, path: &KeyPath) -> Option<String> {
        let parent = path.parent()?;
        let name = self.shape.at(parent.parts())?.nearest(path.last())?;
        Some(parent.child(&name).to_string())
    }
}

fn collect_leaves(path: &KeyPath, value: &Value, leaves: &mut Vec<KeyPath>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                collect_leaves(&path.child(name), value, leaves);
            }
        }
        _ => leaves.push(path.clone()),
    }
}
