//! The registered keys: their list, and the search for one of them by name.

use serde_json::{Map, Value, json};

use crate::facts::KeyFacts;
use crate::key::{KeyPath, camel};
use crate::schema::{KeyLookup, KeyShape};
use crate::{Config, ConfigError};

/// Placeholder for a name that users choose, in the paths of registered keys.
const ANY_NAME: &str = "NAME";

/// A key of a section.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RegisteredKey {
    /// The path; `NAME` is a name that users choose.
    pub(crate) path: KeyPath,
    pub(crate) default: Option<Value>,
    pub(crate) facts: KeyFacts,
}

/// A key that was found by name, with the shape that it has or would get.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedKey {
    pub(crate) path: KeyPath,
    pub(crate) shape: KeyShape,
    /// `true` if the key is part of user data.
    pub(crate) is_data: bool,
    /// `true` if the key, or a section around it, is kept but not read.
    pub(crate) is_later: bool,
}

impl Config {
    /// Returns the registered keys without a meaning, a type or a default, and the keys that are
    /// kept but not read without a meaning, each with what it lacks. `null` is a default. `NAME` is
    /// a name that users choose.
    #[must_use]
    pub fn undescribed_keys(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        for key in registered_keys(self.described()) {
            let checks = [
                (key.facts.meaning.is_none(), "meaning"),
                (key.facts.types.is_empty(), "type"),
                (key.default.is_none(), "default"),
            ];
            let missing = checks.iter().filter(|(is_missing, _)| *is_missing);
            lacks.extend(missing.map(|(_, part)| format!("{}: {part}", key.path)));
        }
        let kept = kept_keys(self.described()).into_iter();
        lacks.extend(
            kept.filter(|(_, facts)| facts.meaning.is_none())
                .map(|(path, _)| format!("{path}: meaning")),
        );
        lacks
    }

    /// Finds a key that is registered, in the file, or both. `value` is the text that the key is
    /// about to get: it may be the kind of a new entry.
    pub(crate) fn resolve(
        &self,
        key: &str,
        value: Option<&str>,
    ) -> Result<ResolvedKey, ConfigError> {
        let parts = KeyPath::parse(key)?;
        let found = walk(self.described(), parts.parts(), value);
        let (failed_at, nearest) = match found {
            Ok(resolved) => return Ok(resolved),
            Err(failure) => failure,
        };
        let written = self.path(key)?;
        let is_written = self.find(&written).is_some()
            || self
                .layers
                .iter()
                .any(|layer| layer.blanks.contains_key(&written));
        if is_written {
            return Ok(ResolvedKey {
                shape: self
                    .described()
                    .at(written.parts())
                    .cloned()
                    .unwrap_or_default(),
                path: written,
                is_data: false,
                is_later: false,
            });
        }
        Err(ConfigError::UnknownKey {
            key: key.to_owned(),
            nearest: self.suggestion(parts.parts(), failed_at, nearest),
        })
    }

    /// Returns the known key that was most likely meant: with the nearest name in place of the
    /// unknown one, or else a key of the same name elsewhere.
    fn suggestion(
        &self,
        parts: &[String],
        failed_at: usize,
        nearest: Option<String>,
    ) -> Option<String> {
        if let Some(name) = nearest {
            let mut meant = parts.to_vec();
            if let Some(part) = meant.get_mut(failed_at) {
                *part = name;
            }
            return match walk(self.described(), &meant, None) {
                Ok(resolved) => Some(resolved.path.to_string()),
                Err((at, nearest)) if at > failed_at => self.suggestion(&meant, at, nearest),
                Err(_) => None,
            };
        }
        let written = KeyPath::from(parts.to_vec()).to_string();
        let last = camel(parts.last()?);
        let keys = registered_keys(self.described());
        let paths: Vec<String> = keys.iter().map(|key| key.path.to_string()).collect();
        let same_name = keys.iter().find(|key| key.path.last() == last);
        same_name.map(|key| key.path.to_string()).or_else(|| {
            let names = paths.iter().map(String::as_str);
            crate::key::nearest(&written, names)
        })
    }
}

/// Returns the shape at a path. The error is the index of the first unknown part, and the name
/// nearest to it.
fn walk(
    root: &KeyShape,
    parts: &[String],
    value: Option<&str>,
) -> Result<ResolvedKey, (usize, Option<String>)> {
    let mut shape = root.clone();
    let mut resolved = ResolvedKey {
        path: KeyPath::default(),
        shape: KeyShape::default(),
        is_data: false,
        is_later: false,
    };
    for (index, part) in parts.iter().enumerate() {
        resolved.is_later |= shape.is_later();
        resolved.is_data |= shape.is_data();
        if resolved.is_data || resolved.is_later {
            let name = if resolved.is_data {
                part.clone()
            } else {
                camel(part)
            };
            resolved.path = resolved.path.child(&name);
            shape = shape.child(&name).cloned().unwrap_or_default();
            continue;
        }
        let entry = entry_value(&shape, parts.get(index + 1), value);
        let name = match shape.admit(part, Some(&entry)) {
            KeyLookup::Known(name) => name,
            KeyLookup::Unknown(_) => return Err((index, shape.nearest(part))),
        };
        resolved.path = resolved.path.child(&name);
        shape = shape.child(&name).cloned().unwrap_or_default();
    }
    resolved.is_later |= shape.is_later();
    resolved.shape = shape;
    Ok(resolved)
}

/// Returns the value that a new entry would have, as far as it decides about the entry's kind.
fn entry_value(shape: &KeyShape, below: Option<&String>, value: Option<&str>) -> Value {
    let discriminator = shape
        .entry_rules()
        .and_then(|entries| entries.discriminator.as_ref());
    match (discriminator, below, value) {
        (Some(key), Some(below), Some(value)) if key == below => json!({ below: value }),
        _ => Value::Object(Map::new()),
    }
}

/// Returns every key that a section registered, in alphabetical order of sections.
pub(crate) fn registered_keys(root: &KeyShape) -> Vec<RegisteredKey> {
    let mut keys = Vec::new();
    collect(root, &KeyPath::default(), None, &mut keys);
    keys
}

/// `general` is the shape of all entries, whose keys are not repeated for each kind.
fn collect(
    shape: &KeyShape,
    path: &KeyPath,
    general: Option<&KeyShape>,
    keys: &mut Vec<RegisteredKey>,
) {
    let (sections, leaves): (Vec<_>, Vec<_>) = shape
        .registered()
        .filter(|(_, child)| !child.is_later())
        .partition(|(_, child)| child.is_section());
    for (name, child) in leaves {
        let inherited = general.and_then(|general| general.child(name));
        let is_same = |inherited: &KeyShape| {
            let default = child.leaf_default();
            default.is_none_or(Value::is_null) || default == inherited.leaf_default()
        };
        if !inherited.is_some_and(is_same) {
            let described = inherited.filter(|_| child.facts().meaning.is_none());
            keys.push(RegisteredKey {
                path: path.child(name),
                default: child.leaf_default().cloned(),
                facts: described.unwrap_or(child).facts(),
            });
        }
    }
    for (name, child) in sections {
        let inherited = general.and_then(|general| general.child(name));
        collect(child, &path.child(name), inherited, keys);
    }
    if let Some(entries) = shape.entry_rules() {
        collect(&entries.template, &path.child(ANY_NAME), None, keys);
        for (kind, child) in &entries.kinds {
            collect(child, &path.child(kind), Some(&entries.template), keys);
        }
    }
}

/// Returns every key that is kept but not read, in alphabetical order. Keys below one are not
/// repeated.
pub(crate) fn kept_keys(root: &KeyShape) -> Vec<(KeyPath, KeyFacts)> {
    let mut keys = Vec::new();
    collect_kept(root, &KeyPath::default(), &mut keys);
    keys.sort_by_key(|(path, _)| path.to_string());
    keys
}

fn collect_kept(shape: &KeyShape, path: &KeyPath, keys: &mut Vec<(KeyPath, KeyFacts)>) {
    for (name, child) in shape.registered() {
        let path = path.child(name);
        match child.is_later() {
            true => keys.push((path, child.facts())),
            false => collect_kept(child, &path, keys),
        }
    }
    if let Some(entries) = shape.entry_rules() {
        collect_kept(&entries.template, &path.child(ANY_NAME), keys);
        for (kind, child) in &entries.kinds {
            collect_kept(child, &path.child(kind), keys);
        }
    }
}
