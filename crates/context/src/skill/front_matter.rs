//! The header of a skill file: the lines between two `---` at its start.
//!
//! Reads what skills in the field use: `key: value`, quoted values, and text that goes on in
//! indented lines. Nested maps and lists are passed over, except JSON on one line. It expands
//! nothing, so no header can grow.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The members of `metadata` that hold our settings.
const METADATA_KEYS: [&str; 2] = ["nanobot", "openclaw"];

/// A header and what follows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter {
    fields: Option<BTreeMap<String, String>>,
    body: String,
}

impl FrontMatter {
    /// Splits a file. One without a complete header is all body.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.replace("\r\n", "\n");
        match split(&text) {
            Some((header, body)) => Self { fields: Some(fields(header)), body: body.trim().to_owned() },
            None => Self { fields: None, body: text.trim().to_owned() },
        }
    }

    /// Whether there is no complete header.
    pub(crate) fn is_missing(&self) -> bool {
        self.fields.is_none()
    }

    /// A field, unquoted.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.fields.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether a field says yes. `false` is not yes.
    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| ["true", "yes", "on", "1"].contains(&value.to_lowercase().as_str()))
    }

    /// Our settings inside `metadata`; empty when there are none.
    pub(crate) fn metadata(&self) -> Map<String, Value> {
        let parsed = self.get("metadata").and_then(|text| serde_json::from_str::<Value>(text).ok());
        let ours = METADATA_KEYS.iter().find_map(|key| parsed.as_ref()?.get(key)?.as_object());
        ours.cloned().unwrap_or_default()
    }

    /// What follows the header.
    pub(crate) fn into_body(self) -> String {
        self.body
    }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?;
    let (dashes, rest) = rest.split_once('\n')?;
    if !dashes.trim().is_empty() {
        return None;
    }
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((rest.get(..end)?, rest.get(end + line.len()..)?));
        }
        end += line.len();
    }
    None
}

fn fields(header: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    // The field that indented lines continue, and whether they do.
    let mut open: Option<(String, String)> = None;
    for line in header.lines() {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = open.as_mut().filter(|(_, value)| !value.is_empty()) {
                value.push(' ');
                value.push_str(line.trim());
            }
            continue;
        }
        let Some((key, value)) = line.split_once(':').filter(|(key, _)| is_key(key)) else { continue };
        fields.extend(open.replace((key.to_owned(), value.trim().to_owned())).map(close));
    }
    fields.extend(open.map(close));
    fields
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|character| character.is_ascii_alphanumeric() || "-_".contains(character))
}

fn close((key, value): (String, String)) -> (String, String) {
    let folded = [">-", "|-", ">+", "|+", ">", "|"].iter().find_map(|mark| value.strip_prefix(*mark));
    let value = match folded {
        Some(text) => text.trim().to_owned(),
        None => unquote(&value),
    };
    (key, value)
}

fn unquote(value: &str) -> String {
    let between = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
    if let Some(inner) = between('\'') {
        return inner.replace("''", "'");
    }
    match between('"') {
        Some(inner) => serde_json::from_str(value).unwrap_or_else(|_| inner.to_owned()),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_field_are_read() {
        let file = "---\r\nname: weather\r\ndescription: \"Say \\\"rain\\\": or not\"\r\n# a remark\r\n\
                    homepage: https://example.org/a\r\nquoted: 'it''s'\r\nalways: false\r\nlong: >-\r\n  two\r\n  lines\r\n\
                    plain: starts\r\n  and goes on\r\nnested:\r\n  deep: 1\r\nlist:\r\n- one\r\n---\r\n\r\nBody.\r\n---\r\nrest\r\n";
        let read = FrontMatter::parse(file);
        let expected = [
            ("name", "weather"),
            ("description", "Say \"rain\": or not"),
            ("homepage", "https://example.org/a"),
            ("quoted", "it's"),
            ("always", "false"),
            ("long", "two lines"),
            ("plain", "starts and goes on"),
            ("nested", ""),
            ("list", ""),
        ];
        let fields = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(read, FrontMatter { fields: Some(fields), body: "Body.\n---\nrest".to_owned() });
        assert!(!read.is_true("always"));
    }

    #[test]
    fn a_file_without_a_complete_header_is_all_body() {
        for file in ["Just text", "---\nname: a\n", "--- x\nname: a\n---\n", "", "---"] {
            assert_eq!(
                FrontMatter::parse(file),
                FrontMatter { fields: None, body: file.trim().to_owned() },
                "{file:?}"
            );
        }
    }

    #[test]
    fn metadata_is_json_bare_or_quoted_under_either_name() {
        let table = [
            r#"metadata: {"nanobot":{"always":true}}"#,
            r#"metadata: {"openclaw": {"always": true}}"#,
            r#"metadata: '{"nanobot":{"always":true}}'"#,
            r#"metadata: "{\"nanobot\":{\"always\":true}}""#,
        ];
        for line in table {
            let read = FrontMatter::parse(&format!("---\n{line}\n---\n"));
            assert_eq!(Value::Object(read.metadata()), serde_json::json!({"always": true}), "{line}");
        }
        assert!(FrontMatter::parse("---\nmetadata: {broken\n---\n").metadata().is_empty());
    }
}
