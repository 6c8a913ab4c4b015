//! Deserializes merged values into a typed section.
//!
//! References are resolved here, so a section that is never requested cannot fail. Text from the
//! environment, the command line or a lone `${VARIABLE}` has no type of its own: if a section
//! rejects it as text, it is parsed once as JSON. Text in the file always stays text.

use std::collections::BTreeSet;

use figment::error::{Error as FigmentError, Kind};
use figment::value::Value as FigmentValue;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::key::KeyPath;
use crate::layer::{LayerSource, typed};
use crate::redact::is_secret;
use crate::reference::{BadReference, is_sole_reference, substitute};
use crate::schema::KeyShape;
use crate::{Config, ConfigError, ValueOrigin, describe};

/// A section's values with all references resolved, and the paths of those that are untyped text.
pub(crate) struct Extraction<'a> {
    config: &'a Config,
    path: KeyPath,
    value: FigmentValue,
    texts: BTreeSet<KeyPath>,
    /// Paths of values that contained references and are therefore never shown in a message.
    resolved: BTreeSet<KeyPath>,
}

impl<'a> Extraction<'a> {
    pub(crate) fn resolve(
        config: &'a Config,
        path: &KeyPath,
        value: FigmentValue,
    ) -> Result<Self, ConfigError> {
        let mut extraction = Self {
            config,
            path: path.clone(),
            value: FigmentValue::from(false),
            texts: BTreeSet::new(),
            resolved: BTreeSet::new(),
        };
        extraction.value = extraction.resolve_value(value, path)?;
        Ok(extraction)
    }

    fn resolve_value(
        &mut self,
        value: FigmentValue,
        path: &KeyPath,
    ) -> Result<FigmentValue, ConfigError> {
        match value {
            FigmentValue::Dict(tag, dict) => {
                let dict = dict
                    .into_iter()
                    .map(|(name, value)| {
                        let value = self.resolve_value(value, &path.child(&name))?;
                        Ok((name, value))
                    })
                    .collect::<Result<_, ConfigError>>()?;
                Ok(FigmentValue::Dict(tag, dict))
            }
            FigmentValue::Array(tag, items) => {
                let items = items
                    .into_iter()
                    .enumerate()
                    .map(|(index, value)| {
                        self.resolve_value(value, &path.child(&index.to_string()))
                    })
                    .collect::<Result<_, ConfigError>>()?;
                Ok(FigmentValue::Array(tag, items))
            }
            FigmentValue::String(tag, text) => {
                let source = self.config.source_of(tag);
                let text = self.resolve_text(source, text, path)?;
                Ok(match text {
                    Value::String(text) => FigmentValue::String(tag, text),
                    other => self.figment_value(&other, path)?,
                })
            }
            other => Ok(other),
        }
    }

    fn resolve_text(
        &mut self,
        source: LayerSource,
        text: String,
        path: &KeyPath,
    ) -> Result<Value, ConfigError> {
        if source.is_text() {
            self.texts.insert(path.clone());
        }
        if let Some(secret) = self.config.external_secret(source, path, &text) {
            self.resolved.insert(path.clone());
            return secret
                .map(Value::from)
                .map_err(|reason| ConfigError::ExternalSecret {
                    key: path.to_string(),
                    origin: self.config.origin_of(path),
                    reason,
                });
        }
        if !matches!(source, LayerSource::File | LayerSource::CommandLine) || !text.contains("${") {
            return Ok(Value::from(text));
        }
        let environment = self.config.environment();
        let resolved =
            substitute(&text, |name| environment.variable(name)).map_err(|reference| {
                let (key, origin) = (path.to_string(), self.config.origin_of(path));
                match reference {
                    BadReference::Unset(variable) => ConfigError::UnsetVariable {
                        variable,
                        key,
                        origin,
                    },
                    BadReference::Nested(text) => {
                        ConfigError::NestedReference { text, key, origin }
                    }
                }
            })?;
        if resolved != text {
            self.resolved.insert(path.clone());
        }
        if !is_sole_reference(&text) {
            return Ok(Value::from(resolved));
        }
        self.texts.insert(path.clone());
        let shape = self.config.shape.at(path.parts());
        Ok(typed(&resolved, shape.and_then(KeyShape::leaf_default)))
    }

    fn figment_value(&self, value: &Value, path: &KeyPath) -> Result<FigmentValue, ConfigError> {
        FigmentValue::serialize(value).map_err(|error| self.refusal(&error, path))
    }

    /// Deserializes the section.
    pub(crate) fn into_typed<T: DeserializeOwned>(mut self) -> Result<T, ConfigError> {
        loop {
            let error = match T::deserialize(&self.value) {
                Ok(section) => return Ok(section),
                Err(error) => error,
            };
            let place = self.path.join(&error.path);
            let is_text = matches!(
                &error.kind,
                Kind::InvalidType(figment::error::Actual::Str(_), _)
            );
            if !is_text || !self.texts.remove(&place) || !self.read_as_json(&error.path)? {
                return Err(self.refusal(&error, &place));
            }
        }
    }

    /// Parses the text at a path below this section as JSON; returns `false` if it is not JSON.
    fn read_as_json(&mut self, below: &[String]) -> Result<bool, ConfigError> {
        let path = self.path.join(below);
        let found = below.iter().try_fold(&mut self.value, step);
        let Some(FigmentValue::String(_, text)) = found else {
            return Ok(false);
        };
        let Ok(json) = serde_json::from_str::<Value>(text) else {
            return Ok(false);
        };
        let value = self.figment_value(&json, &path)?;
        if let Some(found) = below.iter().try_fold(&mut self.value, step) {
            *found = value;
        }
        Ok(true)
    }

    fn refusal(&self, error: &FigmentError, path: &KeyPath) -> ConfigError {
        let key = path.to_string();
        let origin = self.config.origin_of(path);
        let hidden = is_secret(path.parts()) || self.resolved.contains(path);
        match &error.kind {
            Kind::InvalidType(found, wanted) | Kind::InvalidValue(found, wanted) => {
                ConfigError::WrongType {
                    key,
                    origin,
                    found: describe::actual(found, hidden),
                    wanted: describe::wanted(wanted),
                }
            }
            Kind::UnknownVariant(_, allowed) if hidden => {
                unacceptable(key, origin, one_of(allowed))
            }
            Kind::UnknownVariant(found, allowed) => ConfigError::WrongType {
                key,
                origin,
                found: describe::json(&Value::from(found.as_str()), false),
                wanted: one_of(allowed),
            },
            _ if hidden => unacceptable(key, origin, "its value does not fit".to_owned()),
            other => unacceptable(key, origin, other.to_string()),
        }
    }
}

fn unacceptable(key: String, origin: ValueOrigin, reason: String) -> ConfigError {
    ConfigError::Unacceptable {
        key,
        origin,
        reason,
    }
}

fn one_of(allowed: &[&str]) -> String {
    let quoted: Vec<String> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
    format!("one of {}", quoted.join(", "))
}

fn step<'v>(value: &'v mut FigmentValue, part: &String) -> Option<&'v mut FigmentValue> {
    match value {
        FigmentValue::Dict(_, dict) => dict.get_mut(part),
        FigmentValue::Array(_, items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    }
}

/// Rejects values whose JSON type differs from that of their default. No more can be checked for a
/// section whose type is not known. A default of `null` allows every type.
pub(crate) fn check_classes(
    config: &Config,
    path: &KeyPath,
    value: &Value,
) -> Result<(), ConfigError> {
    let shape = config.shape.at(path.parts());
    if let Value::Object(map) = value
        && shape.is_none_or(|shape| shape.is_section())
    {
        return map
            .iter()
            .try_for_each(|(name, value)| check_classes(config, &path.child(name), value));
    }
    let Some(default) = shape.and_then(|shape| shape.defaults()) else {
        return Ok(());
    };
    let same = matches!(
        (&default, value),
        (Value::Null, _)
            | (Value::Bool(_), Value::Bool(_))
            | (Value::Number(_), Value::Number(_))
            | (Value::String(_), Value::String(_))
            | (Value::Array(_), Value::Array(_))
            | (Value::Object(_), Value::Object(_))
    );
    if same {
        // Only bounds of numbers need the descriptions of keys, which are made when first used.
        return match value {
            Value::Number(_) => check_bounds(config, path, value),
            _ => Ok(()),
        };
    }
    Err(ConfigError::WrongType {
        key: path.to_string(),
        origin: config.origin_of(path),
        found: describe::json(value, is_secret(path.parts())),
        wanted: describe::wanted_like(&default).to_owned(),
    })
}

fn check_bounds(config: &Config, path: &KeyPath, value: &Value) -> Result<(), ConfigError> {
    let Some(shape) = config.described().at(path.parts()) else {
        return Ok(());
    };
    let checked = shape.facts().check(value, is_secret(path.parts()));
    checked.map_err(|reason| ConfigError::Unacceptable {
        key: path.to_string(),
        origin: config.origin_of(path),
        reason,
    })
}
