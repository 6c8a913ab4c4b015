//! The reference of all keys as a page of Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::Config;
use crate::key::KeyPath;
use crate::registry::{RegisteredKey, registered_keys};

impl Config {
    /// Returns a table of every registered key, for each section: type, default, allowed values and
    /// meaning. Nothing depends on the file.
    #[must_use]
    pub fn reference_tables(&self) -> String {
        let mut sections: BTreeMap<KeyPath, Vec<RegisteredKey>> = BTreeMap::new();
        for key in registered_keys(&self.shape) {
            let section = key.path.parent().unwrap_or_default();
            sections.entry(section).or_default().push(key);
        }
        let mut page = String::new();
        for (section, keys) in sections {
            let title = section.to_string();
            let rows: String = keys.iter().map(row).collect();
            // Writing to a text cannot fail.
            let _: Result<(), _> = write!(
                page,
                "\n## `{title}`\n\n| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n{rows}"
            );
        }
        page
    }
}

fn row(key: &RegisteredKey) -> String {
    let facts = &key.facts;
    let default = match &key.default {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "–".to_owned(),
        Some(value) => format!("`{value}`"),
    };
    let allowed = if facts.allowed.is_empty() {
        facts.allowed_text().unwrap_or_else(|| "–".to_owned())
    } else {
        let values = facts.allowed.iter().map(|one| match &one.meaning {
            Some(meaning) => format!("`{}`: {meaning}", one.value),
            None => format!("`{}`", one.value),
        });
        values.collect::<Vec<_>>().join("<br>")
    };
    let meaning = facts.meaning.as_deref().unwrap_or("–");
    let cells = [
        format!("`{}`", key.path.last()),
        facts.type_text(),
        default,
        allowed,
        meaning.to_owned(),
    ];
    let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", escaped.join(" | "))
}
