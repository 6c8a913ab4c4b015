//! The values of secrets, for redaction.

use std::collections::BTreeSet;
use std::fmt;

use figment::value::Value as FigmentValue;

use crate::Config;
use crate::key::KeyPath;
use crate::layer::LayerSource;
use crate::redact::{is_secret_flag, secrets_in};
use crate::reference::{references, substitute};

/// A secret of the configuration. `Debug` shows only its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretValue {
    /// The key that holds it, in canonical spelling.
    pub key: String,
    /// The value, with `${VARIABLE}` resolved.
    pub value: String,
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretValue")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Returns the secrets in the merged configuration, with references resolved: values under the
    /// names of secrets, issued keys, passwords in URLs, and arguments after `--token`. A reference
    /// that cannot be resolved counts as empty; reading the section reports it.
    #[must_use]
    pub fn secrets(&self) -> Vec<SecretValue> {
        let mut found = BTreeSet::new();
        self.collect(&self.merged, &KeyPath::default(), false, &mut found);
        found
            .into_iter()
            .filter(|secret| !secret.value.is_empty())
            .collect()
    }

    fn collect(
        &self,
        value: &FigmentValue,
        path: &KeyPath,
        after_flag: bool,
        found: &mut BTreeSet<SecretValue>,
    ) {
        match value {
            FigmentValue::Dict(_, dict) => {
                dict.iter()
                    .for_each(|(name, value)| self.collect(value, &path.child(name), false, found));
            }
            FigmentValue::Array(_, items) => {
                let mut after_flag = false;
                for (index, item) in items.iter().enumerate() {
                    self.collect(item, &path.child(&index.to_string()), after_flag, found);
                    after_flag = item.as_str().is_some_and(is_secret_flag);
                }
            }
            FigmentValue::String(tag, text) if self.source_of(*tag) != LayerSource::Defaults => {
                let is_resolved = matches!(
                    self.source_of(*tag),
                    LayerSource::File | LayerSource::CommandLine
                );
                let variable = |name: &str| self.environment().variable(name).or(Some(""));
                let external = self.external_secret(self.source_of(*tag), path, text);
                let resolved = match (external, substitute(text, variable)) {
                    (Some(secret), _) => secret.unwrap_or_default(),
                    (None, Ok(resolved)) if is_resolved => resolved,
                    _ => text.clone(),
                };
                let mut values = secrets_in(path.parts(), &resolved, after_flag);
                if is_resolved && !values.is_empty() {
                    let held =
                        references(text).filter_map(|name| self.environment().variable(name));
                    values.extend(held.map(str::to_owned));
                }
                let key = path.to_string();
                found.extend(values.into_iter().map(|value| SecretValue {
                    key: key.clone(),
                    value,
                }));
            }
            _ => {}
        }
    }
}
