//! The tree of known keys: lookup, spelling, defaults and descriptions.
//!
//! It is built by a [`Schema`](super::Schema). Loading a file adds the entries of its maps.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::ANY;
use crate::ConfigError;
use crate::facts::KeyFacts;
use crate::key::{KeyPath, camel};

/// The known keys at one position of the tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyShape {
    pub(super) children: BTreeMap<String, Self>,
    pub(super) default: Option<Value>,
    entries: Option<Box<Entries>>,
    pub(super) verbatim: bool,
    pub(super) later: bool,
    /// `true` if an empty text is a value.
    empty_counts: bool,
    /// `true` if its name is chosen by the user and must match exactly.
    is_entry: bool,
    /// The kind of an entry.
    kind: Option<String>,
    /// The description that its section gives.
    facts: Option<Box<KeyFacts>>,
}

/// Rules for the entries of a map.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries {
    pub(crate) template: KeyShape,
    /// `true` if an entry of unknown kind is accepted.
    pub(crate) open: bool,
    pub(crate) discriminator: Option<String>,
    pub(crate) kinds: BTreeMap<String, KeyShape>,
    pub(crate) names: BTreeSet<String>,
}

/// Result of looking up a key in the schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyLookup {
    /// A key of a section, or the name of an entry.
    Known(String),
    /// The key is in no section.
    Unknown(String),
}

impl KeyShape {
    pub(super) fn of(section: &str, defaults: &impl Serialize) -> Result<Self, ConfigError> {
        let failed = |reason: String| ConfigError::Defaults {
            section: section.to_owned(),
            reason,
        };
        match serde_json::to_value(defaults).map_err(|error| failed(error.to_string()))? {
            value @ Value::Object(_) => Ok(Self::from_default(value)),
            other => Err(failed(format!(
                "{} is not an object",
                crate::describe::json(&other, true)
            ))),
        }
    }

    fn from_default(value: Value) -> Self {
        match value {
            Value::Object(map) if !map.is_empty() => Self {
                children: map
                    .into_iter()
                    .map(|(name, value)| (name, Self::from_default(value)))
                    .collect(),
                ..Self::default()
            },
            leaf => Self {
                default: Some(leaf),
                ..Self::default()
            },
        }
    }

    pub(super) fn entries(&mut self) -> &mut Entries {
        self.entries.get_or_insert_default()
    }

    pub(super) fn at_pattern<'a>(&mut self, parts: impl Iterator<Item = &'a str>) -> &mut Self {
        let mut shape = self;
        for part in parts {
            shape = if part == ANY {
                &mut shape.entries().template
            } else {
                shape.children.entry(part.to_owned()).or_default()
            };
        }
        shape
    }

    pub(super) fn let_empty_count(&mut self, parts: &[&str]) {
        match parts.split_first() {
            None => self.empty_counts = true,
            Some((part, rest)) if *part == ANY => {
                let Entries {
                    template, kinds, ..
                } = self.entries();
                for shape in kinds.values_mut().chain([template]) {
                    shape.let_empty_count(rest);
                }
            }
            Some((part, rest)) => {
                if let Some(child) = self.children.get_mut(*part) {
                    child.let_empty_count(rest);
                }
            }
        }
    }

    /// Takes the descriptions of the keys at a path, also for the entries that are known there.
    pub(crate) fn learn_at(&mut self, parts: &[&str], kind: Option<&str>, schema: &Value) {
        let Some((part, rest)) = parts.split_first() else {
            return match kind {
                None => self.learn(schema),
                Some(kind) => self.learn_kind(kind, schema),
            };
        };
        if *part == ANY {
            for entry in self.children.values_mut().filter(|child| child.is_entry) {
                entry.learn_at(rest, kind, schema);
            }
            self.entries().template.learn_at(rest, kind, schema);
        } else {
            let entries = self.entries.as_mut();
            let of_kind = entries.and_then(|entries| entries.kinds.get_mut(*part));
            for child in self.children.get_mut(*part).into_iter().chain(of_kind) {
                child.learn_at(rest, kind, schema);
            }
        }
    }

    fn learn_kind(&mut self, kind: &str, schema: &Value) {
        let known = self
            .entries
            .as_mut()
            .and_then(|entries| entries.kinds.get_mut(kind));
        let entries = self.children.values_mut();
        let entries = entries.filter(|child| child.kind.as_deref() == Some(kind));
        for shape in entries.chain(known) {
            shape.learn(schema);
        }
    }

    /// Takes the descriptions of the keys below from the JSON Schema of an object.
    fn learn(&mut self, schema: &Value) {
        if !schema.is_object() {
            return;
        }
        self.facts = Some(Box::new(KeyFacts::parse(schema)));
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Some(child) = self.children.get_mut(name) {
                child.learn(property);
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (name, child) in other.children {
            self.children
                .entry(name)
                .or_insert_with(|| Self {
                    later: child.later,
                    ..Self::default()
                })
                .merge(child);
        }
        if other.default.is_some() {
            self.default = other.default;
        }
        if other.entries.is_some() {
            self.entries = other.entries;
        }
        if other.facts.is_some() {
            self.facts = other.facts;
        }
        self.verbatim |= other.verbatim;
        self.empty_counts |= other.empty_counts;
        self.later &= other.later;
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.get(name)
    }

    pub(crate) fn child_mut(&mut self, name: &str) -> Option<&mut Self> {
        self.children.get_mut(name)
    }

    pub(crate) fn at_mut(&mut self, path: &[String]) -> Option<&mut Self> {
        path.iter()
            .try_fold(self, |shape, part| shape.child_mut(part))
    }

    pub(crate) fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |shape, part| shape.child(part))
    }

    /// Adds the keys of another shape, which takes precedence.
    pub(crate) fn add(&mut self, other: &Self) {
        self.merge(other.clone());
    }

    /// Returns the known keys directly below, without entries of maps that a file added.
    pub(crate) fn registered(&self) -> impl Iterator<Item = (&String, &Self)> {
        self.children.iter().filter(|(_, child)| !child.is_entry)
    }

    /// Returns the known keys directly below, with entries of maps.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &Self)> {
        self.children.iter()
    }

    /// Returns the rules for entries, if this is a map.
    pub(crate) fn entry_rules(&self) -> Option<&Entries> {
        self.entries.as_deref()
    }

    /// Returns meaning, type and allowed values: as described, or as the default shows them.
    pub(crate) fn facts(&self) -> KeyFacts {
        match (&self.facts, &self.default) {
            (Some(facts), _) if !facts.types.is_empty() || self.default.is_none() => {
                facts.as_ref().clone()
            }
            (facts, default) => KeyFacts {
                meaning: facts.as_ref().and_then(|facts| facts.meaning.clone()),
                ..KeyFacts::of_default(default.as_ref().unwrap_or(&Value::Null))
            },
        }
    }

    pub(crate) fn leaf_default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Returns `true` if an empty text is a value here.
    pub(crate) fn empty_is_a_value(&self) -> bool {
        self.empty_counts
    }

    /// Returns `true` if everything below is user data.
    pub(crate) fn is_data(&self) -> bool {
        let empty_map = self
            .default
            .as_ref()
            .and_then(Value::as_object)
            .is_some_and(Map::is_empty);
        self.verbatim || (empty_map && self.children.is_empty() && self.entries.is_none())
    }

    pub(crate) fn is_later(&self) -> bool {
        self.later
    }

    /// Returns `true` if this is a section, so that an unknown key in it is reported.
    pub(crate) fn is_section(&self) -> bool {
        !self.later && (!self.children.is_empty() || self.entries.is_some())
    }

    /// Returns the canonical name of a key found here; `value` is its value if that is an object.
    /// The name of a map's entry becomes a child with the entry's own shape.
    pub(crate) fn admit(&mut self, written: &str, value: Option<&Value>) -> KeyLookup {
        let folded = camel(written);
        if self.children.contains_key(written) {
            return KeyLookup::Known(written.to_owned());
        }
        if self
            .children
            .get(&folded)
            .is_some_and(|child| !child.is_entry)
        {
            return KeyLookup::Known(folded);
        }
        let (Some(entries), Some(value)) = (&self.entries, value) else {
            return KeyLookup::Unknown(folded);
        };
        let name = if entries.names.contains(&folded) {
            folded
        } else {
            written.to_owned()
        };
        match entries.shape_of(&name, value) {
            Some(shape) => {
                self.children.insert(name.clone(), shape);
                KeyLookup::Known(name)
            }
            None => KeyLookup::Unknown(name),
        }
    }

    /// Returns the name that a part of an environment variable refers to, ignoring case.
    pub(crate) fn name_from_variable(&self, part: &str) -> String {
        let wanted = crate::key::flat(part);
        let names = self.entries.iter().flat_map(|entries| &entries.names);
        self.children
            .keys()
            .chain(names)
            .find(|name| crate::key::flat(name) == wanted)
            .cloned()
            .unwrap_or_else(|| part.to_lowercase())
    }

    /// Returns the known key that was most likely meant.
    pub(crate) fn nearest(&self, written: &str) -> Option<String> {
        let chosen = self
            .entries
            .iter()
            .flat_map(|entries| entries.kinds.keys().chain(&entries.names));
        let read = self.children.iter().filter(|(_, child)| !child.later);
        crate::key::nearest(
            written,
            read.map(|(name, _)| name).chain(chosen).map(String::as_str),
        )
    }

    /// Returns all defaults from here down, as one value; `None` if there are none.
    pub(crate) fn defaults(&self) -> Option<Value> {
        let children: Map<String, Value> = self
            .children
            .iter()
            .filter_map(|(name, child)| Some((name.clone(), child.defaults()?)))
            .collect();
        if children.is_empty() {
            self.default.clone()
        } else {
            Some(Value::Object(children))
        }
    }

    /// Returns `path` with every part in its canonical spelling. Nothing is added to the schema.
    pub(crate) fn canonical(&self, path: &KeyPath) -> KeyPath {
        let mut shape = Some(self);
        let mut parts = Vec::new();
        for part in path.parts() {
            let name = match shape {
                Some(here) if here.is_data() => part.clone(),
                Some(here) => here.spelling(part),
                None => camel(part),
            };
            shape = shape.and_then(|here| {
                if here.is_data() {
                    Some(here)
                } else {
                    here.below(&name)
                }
            });
            parts.push(name);
        }
        parts.into()
    }

    /// Returns the shape under a name, or the one that a new entry of that name would get.
    fn below(&self, name: &str) -> Option<&Self> {
        let entry = || {
            let entries = self.entries.as_deref()?;
            Some(entries.kinds.get(name).unwrap_or(&entries.template))
        };
        self.child(name).or_else(entry)
    }

    fn spelling(&self, part: &str) -> String {
        let folded = camel(part);
        let is_name = self
            .entries
            .as_ref()
            .is_some_and(|entries| !entries.names.contains(&folded));
        if self.children.contains_key(part) || (is_name && !self.children.contains_key(&folded)) {
            part.to_owned()
        } else {
            folded
        }
    }
}

impl Entries {
    fn shape_of(&self, name: &str, value: &Value) -> Option<KeyShape> {
        let said = self
            .discriminator
            .as_ref()
            .and_then(|key| value.get(key))
            .and_then(Value::as_str);
        let said = said.unwrap_or(name);
        let kind = self.kinds.get(said);
        if kind.is_none() && !self.open {
            return None;
        }
        let mut shape = self.template.clone();
        shape.is_entry = true;
        if let Some(key) = &self.discriminator {
            shape.children.entry(key.clone()).or_default();
        }
        if let Some(keys) = kind {
            shape.merge(keys.clone());
            shape.kind = Some(said.to_owned());
        }
        Some(shape)
    }
}
