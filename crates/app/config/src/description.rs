//! The descriptions of a schema's keys, made when they are first needed.
//!
//! Decision: a start needs the names and defaults of keys, but no meanings and types. Deriving these
//! for every section took a quarter of the instructions of a one-shot turn.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::schema::shape::KeyShape;
use crate::upstream;

/// The JSON Schema of one section, as a function that makes it.
#[derive(Clone)]
pub(crate) struct Description {
    pub(crate) path: String,
    /// The kind of the entries below `path` that are described; `None` describes `path` itself.
    pub(crate) kind: Option<String>,
    pub(crate) schema: Arc<dyn Fn() -> Value + Send + Sync>,
}

impl fmt::Debug for Description {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Description")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// The descriptions of all sections, and the keys with them once they were needed.
#[derive(Debug)]
pub(crate) struct Descriptions {
    sources: Vec<Description>,
    described: OnceLock<KeyShape>,
}

impl Descriptions {
    pub(crate) fn new(sources: Vec<Description>) -> Self {
        Self {
            sources,
            described: OnceLock::new(),
        }
    }

    /// Returns `shape` with the facts of every described key. `shape` is the same in every call.
    pub(crate) fn of(&self, shape: &KeyShape) -> &KeyShape {
        self.described.get_or_init(|| {
            let mut described = shape.clone();
            for (path, meaning) in upstream::MEANINGS {
                let parts: Vec<&str> = path.split('.').collect();
                described.learn_at(&parts, None, &json!({ "description": meaning }));
            }
            // The keys of a kind are described more closely than those of all entries.
            let (kinds, general): (Vec<_>, Vec<_>) = self
                .sources
                .iter()
                .partition(|source| source.kind.is_some());
            for source in general.into_iter().chain(kinds) {
                let parts: Vec<&str> = source.path.split('.').collect();
                described.learn_at(&parts, source.kind.as_deref(), &(source.schema)());
            }
            described
        })
    }
}
