//! The names, defaults and descriptions of keys, but not the types of sections.
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

pub(crate) mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

pub(crate) use self::shape::{KeyLookup, KeyShape};

use crate::description::{Description, Descriptions};
use crate::key::camel;
use crate::schema_file::{SCHEMA_KEY, schema_key};
use crate::{ConfigError, upstream};

/// Any entry of a map, in a path.
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
        root.at_pattern(std::iter::once(SCHEMA_KEY)).default = Some(Value::Null);
        for path in upstream::NOT_READ {
            root.at_pattern(path.split('.')).later = true;
        }
        for path in upstream::VERBATIM {
            root.at_pattern(path.split('.')).verbatim = true;
        }
        let schema = Self {
            root,
            descriptions: Vec::new(),
        };
        schema.describe(SCHEMA_KEY, schema_key)
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
