//! Normalizes a document by the schema: canonical names first, then findings, then plain values.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::document::{Member, Node, TextPosition};
use crate::key::{KeyPath, camel};
use crate::schema::{KeyLookup, KeyShape};
use crate::{ConfigError, ConfigFinding, ValueOrigin};

/// Gives every key of the document its canonical name; entries of maps are added to `shape`.
///
/// Two spellings of one key are a finding if their values are equal and an error if they differ.
/// Unknown keys keep their spelling if folding would merge two of them.
pub(crate) fn fold(
    node: &mut Node,
    shape: &mut KeyShape,
    file: &Path,
    findings: &mut Vec<ConfigFinding>,
) -> Result<(), ConfigError> {
    Folding { file, findings }.node(node, Some(shape), &KeyPath::default())
}

struct Folding<'a> {
    file: &'a Path,
    findings: &'a mut Vec<ConfigFinding>,
}

impl Folding<'_> {
    fn node(
        &mut self,
        node: &mut Node,
        mut shape: Option<&mut KeyShape>,
        path: &KeyPath,
    ) -> Result<(), ConfigError> {
        match node {
            Node::Scalar { .. } => Ok(()),
            Node::List(items) => {
                let is_data = shape.is_some_and(|shape| shape.is_data());
                for item in items.iter_mut().filter(|_| !is_data) {
                    self.node(item, None, path)?;
                }
                Ok(())
            }
            Node::Object(members) => {
                name_members(members, shape.as_deref_mut());
                self.merge_repeated(members, path)?;
                if shape.as_deref().is_some_and(KeyShape::is_data) {
                    return Ok(());
                }
                for member in members {
                    let below = shape
                        .as_deref_mut()
                        .and_then(|shape| shape.child_mut(&member.name));
                    self.node(&mut member.value, below, &path.child(&member.name))?;
                }
                Ok(())
            }
        }
    }

    /// Removes repeated members, leaving one per name.
    fn merge_repeated(
        &mut self,
        members: &mut Vec<Member>,
        path: &KeyPath,
    ) -> Result<(), ConfigError> {
        let mut seen: Vec<Member> = Vec::with_capacity(members.len());
        for member in members.drain(..) {
            let Some(first) = seen.iter().find(|first| first.name == member.name) else {
                seen.push(member);
                continue;
            };
            let key = path.child(&member.name).to_string();
            if first.value.to_value() != member.value.to_value() {
                return Err(ConfigError::Conflict {
                    path: self.file.to_path_buf(),
                    key,
                    first: first.written.clone(),
                    first_line: first.place.line,
                    second: member.written,
                    second_line: member.place.line,
                });
            }
            self.findings.push(ConfigFinding::Repeated {
                key,
                origin: in_file(self.file, member.place),
                first_line: first.place.line,
            });
        }
        *members = seen;
        Ok(())
    }
}

fn name_members(members: &mut [Member], mut shape: Option<&mut KeyShape>) {
    if shape.as_deref().is_some_and(KeyShape::is_data) {
        return;
    }
    for member in members.iter_mut() {
        let value = matches!(member.value, Node::Object(_)).then(|| member.value.to_value());
        let standing = shape.as_deref_mut().map_or_else(
            || KeyLookup::Unknown(camel(&member.written)),
            |shape| shape.admit(&member.written, value.as_ref()),
        );
        (member.name, member.known) = match standing {
            KeyLookup::Known(name) => (name, true),
            KeyLookup::Unknown(name) => (name, false),
        };
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for member in members.iter() {
        *counts.entry(member.name.clone()).or_default() += 1;
    }
    for member in members.iter_mut().filter(|member| !member.known) {
        if counts.get(&member.name).is_some_and(|count| *count > 1) {
            member.name = member.written.clone();
        }
    }
}

/// Reports unknown keys and keys that are not read yet. Blank values have no effect and are
/// ignored.
pub(crate) fn review(
    node: &Node,
    shape: &KeyShape,
    file: &Path,
    findings: &mut Vec<ConfigFinding>,
) {
    review_below(node, shape, file, &KeyPath::default(), findings);
}

fn review_below(
    node: &Node,
    shape: &KeyShape,
    file: &Path,
    path: &KeyPath,
    findings: &mut Vec<ConfigFinding>,
) {
    if !shape.is_section() || shape.is_data() {
        return;
    }
    for member in node
        .members()
        .iter()
        .filter(|member| !member.value.is_blank())
    {
        let origin = in_file(file, member.place);
        match shape.child(&member.name) {
            None => {
                let key = path.child(&member.written).to_string();
                let nearest = shape.nearest(&member.written);
                findings.push(ConfigFinding::UnknownKey {
                    key,
                    origin,
                    nearest,
                });
            }
            Some(child) if child.is_later() => {
                let key = path.child(&member.name).to_string();
                findings.push(ConfigFinding::NotRead { key, origin });
            }
            Some(child) => {
                review_below(
                    &member.value,
                    child,
                    file,
                    &path.child(&member.name),
                    findings,
                );
            }
        }
    }
}

/// The values of a document, and the position of each.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) tree: Map<String, Value>,
    pub(crate) places: BTreeMap<KeyPath, TextPosition>,
    /// Keys that are present but blank, and so count as absent.
    pub(crate) blanks: BTreeMap<KeyPath, TextPosition>,
}

/// Returns the document as plain values without blank ones. User data keeps them, and so does a key
/// for which an empty text is a value.
pub(crate) fn values(node: &Node, shape: &KeyShape) -> Values {
    let mut values = Values::default();
    values.tree = values.object(node, Some(shape), &KeyPath::default());
    values
}

impl Values {
    fn object(
        &mut self,
        node: &Node,
        shape: Option<&KeyShape>,
        path: &KeyPath,
    ) -> Map<String, Value> {
        let is_data = shape.is_some_and(KeyShape::is_data);
        let mut tree = Map::new();
        for member in node.members() {
            let key = path.child(&member.name);
            let below = if is_data {
                shape
            } else {
                shape.and_then(|shape| shape.child(&member.name))
            };
            let says_none =
                below.is_some_and(KeyShape::empty_is_a_value) && member.value.is_empty_text();
            if member.value.is_blank() && !is_data && !says_none {
                self.blanks.insert(key, member.place);
                continue;
            }
            self.places.insert(key.clone(), member.place);
            let value = match &member.value {
                object @ Node::Object(_) => Value::Object(self.object(object, below, &key)),
                other => other.to_value(),
            };
            tree.insert(member.name.clone(), value);
        }
        tree
    }
}

pub(crate) fn in_file(file: &Path, place: TextPosition) -> ValueOrigin {
    ValueOrigin::File {
        path: file.to_path_buf(),
        line: place.line,
        column: place.column,
    }
}
