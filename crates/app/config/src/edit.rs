//! A change of one key in the file, checked before it is written.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::external::ExternalSecret;
use crate::facts::KeyFacts;
use crate::redact::{is_secret, redacted};
use crate::reference::is_sole_reference;
use crate::registry::ResolvedKey;
use crate::{Config, ConfigDraft, ConfigError, SavedConfig, ValueOrigin};

/// A change of one key that is not written yet. Its values have secrets redacted.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConfigEdit {
    /// The canonical key.
    pub key: String,
    /// The value in the file; `None` if the file does not have the key.
    pub old: Option<Value>,
    /// The new value; `None` if the key is removed.
    pub new: Option<Value>,
    /// The built-in value, if there is one.
    pub default: Option<Value>,
    /// `true` if the value is a secret.
    pub is_secret: bool,
    /// Layer above the file that sets the key too, so that the change has no effect yet.
    pub overridden_by: Option<ValueOrigin>,
    draft: ConfigDraft,
}

impl ConfigEdit {
    /// Returns the file as it will be, secrets included.
    #[must_use]
    pub fn text(&self) -> String {
        self.draft.text()
    }

    /// Writes the file, as [`ConfigDraft::save`] does.
    ///
    /// # Errors
    /// Returns the errors of [`ConfigDraft::save`].
    pub fn save(&self, now: DateTime<Utc>) -> Result<SavedConfig, ConfigError> {
        self.draft.save(now)
    }
}

impl Config {
    /// Prepares to set a key to a value. A key of text takes `text` as it is; for any other, it is
    /// read as JSON. A lone `${NAME}` is a value of every type.
    ///
    /// # Errors
    /// Returns [`ConfigError::UnknownKey`], and [`ConfigError::NotSettable`] if the key is a
    /// section or does not accept the value.
    pub fn edit_to(&self, key: &str, text: &str) -> Result<ConfigEdit, ConfigError> {
        let resolved = self.resolve(key, Some(text))?;
        let refused = |reason: String| ConfigError::NotSettable {
            key: resolved.path.to_string(),
            reason,
        };
        if resolved.is_later {
            return Err(refused("this version does not read it".to_owned()));
        }
        if resolved.shape.is_section() && !resolved.shape.is_data() {
            return Err(refused(
                "it is a section; set its keys one by one".to_owned(),
            ));
        }
        let is_hidden = is_secret(resolved.path.parts());
        let value = parsed(&resolved, text, is_hidden).map_err(refused)?;
        self.edit(&resolved, Some(&value), is_hidden)
    }

    /// Prepares to remove a key, or a whole section, from the file.
    ///
    /// # Errors
    /// Returns [`ConfigError::UnknownKey`], and [`ConfigError::NotSettable`] if the file does not
    /// have the key.
    pub fn edit_out(&self, key: &str) -> Result<ConfigEdit, ConfigError> {
        let resolved = self.resolve(key, None)?;
        if self.root.member_at(resolved.path.parts()).is_none() {
            return Err(ConfigError::NotSettable {
                key: resolved.path.to_string(),
                reason: format!("it is not in {}", self.paths().config_file.display()),
            });
        }
        let is_hidden = is_secret(resolved.path.parts());
        self.edit(&resolved, None, is_hidden)
    }

    fn edit(
        &self,
        resolved: &ResolvedKey,
        new: Option<&Value>,
        is_secret: bool,
    ) -> Result<ConfigEdit, ConfigError> {
        let ResolvedKey { path, shape, .. } = resolved;
        let hidden = |value: &Value| redacted(path.parts(), value);
        let mut draft = self.draft();
        match new {
            Some(value) => draft.set_at(path, value)?,
            None => draft.remove_at(path),
        }
        let stronger = |origin: &ValueOrigin| {
            matches!(
                origin,
                ValueOrigin::Environment { .. } | ValueOrigin::CommandLine { .. }
            )
        };
        Ok(ConfigEdit {
            key: path.to_string(),
            old: self
                .root
                .at(path.parts())
                .map(|node| hidden(&node.to_value())),
            new: new.map(hidden),
            default: shape.defaults().as_ref().map(hidden),
            is_secret,
            overridden_by: Some(self.origin_of(path)).filter(stronger),
            draft,
        })
    }
}

/// Reads the text of a value. The error is the reason why the key does not accept it.
fn parsed(resolved: &ResolvedKey, text: &str, is_secret: bool) -> Result<Value, String> {
    let facts = match resolved.is_data {
        true => KeyFacts::default(),
        false => resolved.shape.facts(),
    };
    let is_external = is_secret && ExternalSecret::parse(text).is_some();
    if is_external || is_sole_reference(text) {
        return Ok(Value::from(text));
    }
    let value = if facts.is_text() {
        Value::from(text)
    } else {
        match serde_json::from_str(text) {
            Ok(Value::String(inner)) if !facts.allows_text() => Value::from(inner),
            Ok(Value::Null) => {
                return Err("null counts as absent; use `nanobot config unset`".to_owned());
            }
            Ok(value) => value,
            Err(_) => Value::from(text),
        }
    };
    facts.check(&value, is_secret)?;
    Ok(value)
}
