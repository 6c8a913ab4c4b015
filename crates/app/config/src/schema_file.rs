//! The JSON Schema as a file beside the configuration, for editors.
//!
//! A configuration file that this program creates names its schema. A file that exists is the
//! user's, so the key is never added to it: the Python program refuses a file with a root key that
//! it does not know.

use std::fs;
use std::path::PathBuf;

use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};
use serde_json::{Value, json};

use crate::document::{Member, Node, TextPosition};
use crate::json_schema::TITLE;
use crate::{Config, ConfigDraft, ConfigError, file};

/// Key with which a file names its JSON Schema.
pub(crate) const SCHEMA_KEY: &str = "$schema";

/// Name of the schema's file.
const SCHEMA_FILE: &str = "config.schema.json";

/// Value of the key in a file beside the schema.
const SCHEMA_REFERENCE: &str = "./config.schema.json";

/// Returns the JSON Schema of the key.
pub(crate) fn schema_key() -> Value {
    json!({
        "description": "JSON Schema of this file, for editors; nanobot itself does not read it. \
                        `nanobot config schema --write` writes `config.schema.json`.",
        "type": "string"
    })
}

impl ConfigDraft {
    /// Names the schema beside the file, in its first key.
    pub fn name_schema(&mut self) {
        let Node::Object(members) = &mut self.root else {
            return;
        };
        members.retain(|member| member.name != SCHEMA_KEY);
        let member = Member {
            name: SCHEMA_KEY.to_owned(),
            written: SCHEMA_KEY.to_owned(),
            known: true,
            place: TextPosition { line: 0, column: 0 },
            value: Node::from_value(&Value::from(SCHEMA_REFERENCE)),
        };
        members.insert(0, member);
    }
}

impl Config {
    /// Returns the line that names the schema in the configuration file.
    #[must_use]
    pub fn schema_line() -> String {
        format!("\"{SCHEMA_KEY}\": \"{SCHEMA_REFERENCE}\"")
    }

    /// Returns `true` if the configuration file names the schema beside it.
    #[must_use]
    pub fn names_schema(&self) -> bool {
        let named = self.root.at(&[SCHEMA_KEY.to_owned()]).map(Node::to_value);
        let named = named.as_ref().and_then(Value::as_str).unwrap_or_default();
        named == SCHEMA_REFERENCE || named == SCHEMA_FILE
    }

    /// Writes the schema of this version beside the configuration file. A link is followed. Returns
    /// the file, and `true` if it was written, `false` if it had this content.
    ///
    /// # Errors
    /// Returns [`ConfigError::NotOurs`] if there is another file of that name, and
    /// [`ConfigError::Read`] or [`ConfigError::Write`] if the system fails.
    pub fn write_schema(&self) -> Result<(PathBuf, bool), ConfigError> {
        let named = self.paths().config_file.with_file_name(SCHEMA_FILE);
        let file = fs::canonicalize(&named).unwrap_or_else(|_| named.clone());
        let text = self.schema_text();
        match file::read(&file)? {
            Some(old) if old == text.as_bytes() => return Ok((named, false)),
            Some(old) if !is_schema_of_config(&old) => {
                return Err(ConfigError::NotOurs { path: named });
            }
            _ => {}
        }
        let written = replace_file(
            &LocalDisk,
            &file,
            text.as_bytes(),
            FileDraft::Random,
            Durability::Disk,
        );
        written.map_err(|source| ConfigError::Write { path: file, source })?;
        Ok((named, true))
    }

    /// Does the same if the configuration file names the schema, or if there is one beside it.
    /// Returns the file if it was written.
    ///
    /// # Errors
    /// Returns the errors of [`Config::write_schema`].
    pub fn refresh_schema(&self) -> Result<Option<PathBuf>, ConfigError> {
        let is_there = self
            .paths()
            .config_file
            .with_file_name(SCHEMA_FILE)
            .exists();
        if !self.names_schema() && !is_there {
            return Ok(None);
        }
        match self.write_schema() {
            Ok((file, is_new)) => Ok(is_new.then_some(file)),
            // The file of another program is a problem only where the configuration names it.
            Err(ConfigError::NotOurs { .. }) if !self.names_schema() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn schema_text(&self) -> String {
        format!("{:#}\n", self.json_schema())
    }
}

/// `true` for a schema that some version of this program wrote.
fn is_schema_of_config(bytes: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    value.get("title").and_then(Value::as_str) == Some(TITLE)
}
