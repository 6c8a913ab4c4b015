//! What the loader is told about keys: their names and defaults, never their types.
//!
//! Whoever owns a section registers its defaults as serialised (`Default` of the section's
//! struct); the keys of the defaults are the known keys. The rule for spelling follows from that:
//!
//! - Every key is folded to camelCase, at every level.
//! - Below [`Schema::map`] and [`Schema::variants`] the *names* of the entries are people's own
//!   words and are kept as written (except spellings of the names given with [`Schema::names`]);
//!   the keys inside an entry are folded again.
//! - Everything below [`Schema::verbatim`], and below a default that is an empty object, is
//!   people's data: kept as written, empty values included, never reported as unknown.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::key::{KeyPath, camel};
use crate::{ConfigError, upstream};

const ANY: &str = "*";

/// The sections of a program: known keys, defaults, and which keys are names.
///
/// Keys of the Python program that nothing registers are known from the start as "kept but not
/// read"; registering a section that has them makes them read.
#[derive(Debug, Clone)]
pub struct Schema {
    root: Shape,
}

impl Default for Schema {
    fn default() -> Self {
        Self::new()
    }
}

impl Schema {
    /// A schema without sections.
    #[must_use]
    pub fn new() -> Self {
        let mut root = Shape::default();
        for path in upstream::NOT_READ {
            root.at_pattern(path.split('.')).later = true;
        }
        for path in upstream::VERBATIM {
            root.at_pattern(path.split('.')).verbatim = true;
        }
        Self { root }
    }

    /// Registers a section: `defaults` is the default of its struct, with camelCase keys.
    /// Registering a path again, or a path inside another section, adds to what is there.
    ///
    /// # Errors
    /// [`ConfigError::Defaults`] if `defaults` is not an object of JSON values.
    pub fn section(mut self, path: &str, defaults: &impl Serialize) -> Result<Self, ConfigError> {
        let shape = Shape::of(path, defaults)?;
        self.read_at(path).merge(shape);
        Ok(self)
    }

    /// Declares that the keys directly under `path` are names that people choose, each for a
    /// section with these `defaults`: `tools.mcpServers`, `modelPresets`.
    ///
    /// # Errors
    /// [`ConfigError::Defaults`] if `defaults` is not an object of JSON values.
    pub fn map(mut self, path: &str, defaults: &impl Serialize) -> Result<Self, ConfigError> {
        let shape = Shape::of(path, defaults)?;
        let entries = self.read_at(path).entries();
        entries.open = true;
        entries.template.merge(shape);
        Ok(self)
    }

    /// Like [`Schema::map`] for entries of several kinds: an entry is of the kind that its key
    /// `discriminator` (one lower-case word) says, else of the kind that it is named after. An
    /// entry of no known kind is kept and reported. Further calls add kinds.
    ///
    /// # Errors
    /// [`ConfigError::Defaults`] if the defaults of a kind are not an object.
    pub fn variants<'a>(
        mut self,
        path: &str,
        discriminator: &str,
        kinds: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, ConfigError> {
        let level = self.read_at(path);
        level.entries().discriminator = Some(discriminator.to_owned());
        for (kind, defaults) in kinds {
            let shape = Shape::of(&format!("{path}.{kind}"), &defaults)?;
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
            // Keys of the kind that are kept and not read stay so, unless it reads them.
            for (name, child) in not_read {
                known.children.entry(name).or_insert(child);
            }
        }
        Ok(self)
    }

    /// Names under a map that are spelled in camelCase and understood in every spelling:
    /// the built-in providers.
    #[must_use]
    pub fn names<'a>(mut self, path: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let entries = self.root.at_pattern(path.split('.')).entries();
        entries.names.extend(names.into_iter().map(camel));
        self
    }

    /// Declares everything below `path` as people's data; `*` stands for any entry of a map:
    /// `tools.mcpServers.*.env`.
    #[must_use]
    pub fn verbatim(mut self, path: &str) -> Self {
        self.root.at_pattern(path.split('.')).verbatim = true;
        self
    }

    /// Declares that an empty text at this key, which must be registered, says something and does
    /// not count as absent when it is written in the file: `tools.web.proxy`, `channels.*.proxy`.
    /// Where a kind of entries has no such key, nothing changes.
    #[must_use]
    pub fn empty_counts(mut self, path: &str) -> Self {
        let parts: Vec<&str> = path.split('.').collect();
        self.root.let_empty_count(&parts);
        self
    }

    /// Declares a key that is accepted and kept but not read; a registered section wins.
    #[must_use]
    pub fn not_read(mut self, path: &str) -> Self {
        let shape = self.root.at_pattern(path.split('.'));
        shape.later = shape.default.is_none() && shape.children.is_empty();
        self
    }

    /// The place of something that is read, so that nothing above it is "not read".
    fn read_at(&mut self, path: &str) -> &mut Shape {
        let mut shape = &mut self.root;
        for part in path.split('.') {
            shape = shape.at_pattern(std::iter::once(part));
            shape.later = false;
        }
        shape
    }

    pub(crate) fn into_root(self) -> Shape {
        self.root
    }
}

/// What is known at one place of the tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    children: BTreeMap<String, Self>,
    default: Option<Value>,
    entries: Option<Box<Entries>>,
    verbatim: bool,
    later: bool,
    /// Whether an empty text is a value.
    empty_counts: bool,
    /// Whether its name is somebody's own word, to be matched exactly.
    is_entry: bool,
}

/// How names under a map become sections.
#[derive(Debug, Clone, Default)]
struct Entries {
    template: Shape,
    /// Whether an entry of no known kind is as good as any other.
    open: bool,
    discriminator: Option<String>,
    kinds: BTreeMap<String, Shape>,
    names: BTreeSet<String>,
}

/// How a key of a file relates to the schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A key of a section, or the name of an entry.
    Known(String),
    /// No section has it.
    Unknown(String),
}

impl Shape {
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

    pub(crate) fn leaf_default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Whether an empty text here is a value.
    pub(crate) fn empty_is_a_value(&self) -> bool {
        self.empty_counts
    }

    /// Whether what is below is people's data.
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

    /// Whether this is a section, so that a key it does not have is worth a word.
    pub(crate) fn is_section(&self) -> bool {
        !self.later && (!self.children.is_empty() || self.entries.is_some())
    }

    /// The canonical name of a key found here; `value` is what it holds if that is an object.
    /// The name of a map's entry becomes a child with the entry's own shape.
    pub(crate) fn admit(&mut self, written: &str, value: Option<&Value>) -> Standing {
        let folded = camel(written);
        if self.children.contains_key(written) {
            return Standing::Known(written.to_owned());
        }
        if self
            .children
            .get(&folded)
            .is_some_and(|child| !child.is_entry)
        {
            return Standing::Known(folded);
        }
        let (Some(entries), Some(value)) = (&self.entries, value) else {
            return Standing::Unknown(folded);
        };
        let name = if entries.names.contains(&folded) {
            folded
        } else {
            written.to_owned()
        };
        match entries.shape_of(&name, value) {
            Some(shape) => {
                self.children.insert(name.clone(), shape);
                Standing::Known(name)
            }
            None => Standing::Unknown(name),
        }
    }

    /// The name that an environment variable's part stands for, case being lost.
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

    /// The known key that was most likely meant.
    pub(crate) fn nearest(&self, written: &str) -> Option<String> {
        let kinds = self.entries.iter().flat_map(|entries| entries.kinds.keys());
        crate::key::nearest(
            written,
            self.children.keys().chain(kinds).map(String::as_str),
        )
    }

    /// All defaults from here down, as one value; `None` if there are none.
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

    /// The full path of `path` with every part in its canonical spelling, nothing added.
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

    /// What is, or would be, known under a name.
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
    fn shape_of(&self, name: &str, value: &Value) -> Option<Shape> {
        let said = self
            .discriminator
            .as_ref()
            .and_then(|key| value.get(key))
            .and_then(Value::as_str);
        let kind = self.kinds.get(said.unwrap_or(name));
        if kind.is_none() && !self.open {
            return None;
        }
        let mut shape = self.template.clone();
        shape.is_entry = true;
        if let Some(key) = &self.discriminator {
            shape.children.entry(key.clone()).or_default();
        }
        if let Some(kind) = kind {
            shape.merge(kind.clone());
        }
        Some(shape)
    }
}
