//! The names and defaults of keys, but not their types.
//!
//! The owner of a section registers its serialized defaults (`Default` of the section's struct);
//! the keys of the defaults are the known keys. This gives the rule for spelling:
//!
//! - Every key is folded to camelCase, at every level.
//! - Below [`Schema::map`] and [`Schema::variants`] the *names* of the entries are chosen by users
//!   and are kept as written (except spellings of the names given with [`Schema::names`]); the keys
//!   inside an entry are folded again.
//! - Everything below [`Schema::verbatim`], and below a default that is an empty object, is user
//!   data: kept as written, empty values included, never reported as unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::description::{Description, Descriptions};
use crate::facts::KeyFacts;
use crate::key::{KeyPath, camel};
use crate::schema_file::{SCHEMA_KEY, schema_key_facts};
use crate::{ConfigError, upstream};

const ANY: &str = "*";

/// The sections of a program: known keys, defaults, and user-chosen names.
///
/// Keys of the Python program that no section registers are predefined as "kept but not read";
/// registering a section that has them makes them read.
#[derive(Debug, Clone)]
pub struct Schema {
    root: KeyShape,
    descriptions: Vec<Description>,
}

impl Default for Schema {
    fn default() -> Self {
        Self::new()
    }
}

impl Schema {
    /// Creates a schema without sections.
    #[must_use]
    pub fn new() -> Self {
        let mut root = KeyShape::default();
        let schema_key = root.at_pattern(std::iter::once(SCHEMA_KEY));
        schema_key.facts = Some(Box::new(schema_key_facts()));
        schema_key.default = Some(Value::Null);
        for path in upstream::NOT_READ {
            root.at_pattern(path.split('.')).later = true;
        }
        for path in upstream::VERBATIM {
            root.at_pattern(path.split('.')).verbatim = true;
        }
        Self {
            root,
            descriptions: Vec::new(),
        }
    }

    /// Registers a section: `defaults` is the default of its struct, with camelCase keys.
    /// Registering a path again, or a path inside another section, adds to the existing keys.
    ///
    /// # Errors
    /// Returns [`ConfigError::Defaults`] if `defaults` is not an object of JSON values.
    pub fn section(mut self, path: &str, defaults: &impl Serialize) -> Result<Self, ConfigError> {
        let shape = KeyShape::of(path, defaults)?;
        self.read_at(path).merge(shape);
        Ok(self)
    }

    /// Declares that the keys directly below `path` are user-chosen names, each of a section with
    /// these `defaults`: `tools.mcpServers`, `modelPresets`.
    ///
    /// # Errors
    /// Returns [`ConfigError::Defaults`] if `defaults` is not an object of JSON values.
    pub fn map(mut self, path: &str, defaults: &impl Serialize) -> Result<Self, ConfigError> {
        let shape = KeyShape::of(path, defaults)?;
        let entries = self.read_at(path).entries();
        entries.open = true;
        entries.template.merge(shape);
        Ok(self)
    }

    /// Like [`Schema::map`] for entries of several kinds. The kind of an entry is the value of its
    /// key `discriminator` (one lower-case word), or else its name. An entry of unknown kind is
    /// kept and reported. Further calls add kinds.
    ///
    /// # Errors
    /// Returns [`ConfigError::Defaults`] if the defaults of a kind are not an object.
    pub fn variants<'a>(
        mut self,
        path: &str,
        discriminator: &str,
        kinds: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, ConfigError> {
        let level = self.read_at(path);
        level.entries().discriminator = Some(discriminator.to_owned());
        for (kind, defaults) in kinds {
            let shape = KeyShape::of(&format!("{path}.{kind}"), &defaults)?;
            let not_read = match level.child(kind).is_some_and(|child| child.later) {
                true => level
                    .children
                    .remove(kind)
                    .map(|older| older.children)
                    .unwrap_or_default(),
                false => BTreeMap::new(),
            };
            let known = level.entries().kinds.entry(kind.to_owned()).or_default();
            known.merge(shape);
            // Keys of the kind that are kept but not read stay so, unless the new defaults have
            // them.
            for (name, child) in not_read {
                known.children.entry(name).or_insert(child);
            }
        }
        Ok(self)
    }

    /// Adds meanings, types and allowed values to the keys at `path` (`*` is any entry of a map),
    /// from the JSON Schema of an object. Properties that are not registered keys are ignored.
    /// `schema` is called when a description is first needed; a value that is no object describes
    /// nothing.
    #[must_use]
    pub fn describe(
        mut self,
        path: &str,
        schema: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        self.descriptions.push(Description {
            path: path.to_owned(),
            kind: None,
            schema: Arc::new(schema),
        });
        self
    }

    /// Does the same for the entries of one kind of [`Schema::variants`].
    #[must_use]
    pub fn describe_kind(
        mut self,
        path: &str,
        kind: &str,
        schema: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        self.descriptions.push(Description {
            path: path.to_owned(),
            kind: Some(kind.to_owned()),
            schema: Arc::new(schema),
        });
        self
    }

    /// Declares names below a map that are spelled in camelCase and recognized in every spelling:
    /// the built-in providers.
    #[must_use]
    pub fn names<'a>(mut self, path: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let entries = self.root.at_pattern(path.split('.')).entries();
        entries.names.extend(names.into_iter().map(camel));
        self
    }

    /// Declares everything below `path` as user data; `*` is any entry of a map:
    /// `tools.mcpServers.*.env`.
    #[must_use]
    pub fn verbatim(mut self, path: &str) -> Self {
        self.root.at_pattern(path.split('.')).verbatim = true;
        self
    }

    /// Declares that an empty text at this registered key is a value and does not count as absent
    /// when it is written in the file: `tools.web.proxy`, `channels.*.proxy`. Kinds of entries
    /// without the key are unaffected.
    #[must_use]
    pub fn empty_counts(mut self, path: &str) -> Self {
        let parts: Vec<&str> = path.split('.').collect();
        self.root.let_empty_count(&parts);
        self
    }

    /// Declares a key that is accepted and kept but not read; a registered section takes
    /// precedence.
    #[must_use]
    pub fn not_read(mut self, path: &str) -> Self {
        let shape = self.root.at_pattern(path.split('.'));
        shape.later = shape.default.is_none() && shape.children.is_empty();
        self
    }

    /// Returns the shape at the path of a section that is read, clearing "not read" on its parents.
    fn read_at(&mut self, path: &str) -> &mut KeyShape {
        let mut shape = &mut self.root;
        for part in path.split('.') {
            shape = shape.at_pattern(std::iter::once(part));
            shape.later = false;
        }
        shape
    }

    pub(crate) fn into_parts(self) -> (KeyShape, Descriptions) {
        (self.root, Descriptions::new(self.descriptions))
    }
}

/// The known keys at one position of the tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyShape {
    children: BTreeMap<String, Self>,
    default: Option<Value>,
    entries: Option<Box<Entries>>,
    verbatim: bool,
    later: bool,
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
    fn of(section: &str, defaults: &impl Serialize) -> Result<Self, ConfigError> {
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

    fn entries(&mut self) -> &mut Entries {
        self.entries.get_or_insert_default()
    }

    fn at_pattern<'a>(&mut self, parts: impl Iterator<Item = &'a str>) -> &mut Self {
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

    fn let_empty_count(&mut self, parts: &[&str]) {
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

    fn merge(&mut self, other: Self) {
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
