//! Parses the header (front matter) of a SKILL.md: YAML between two `---` lines at its start.
//!
//! Older releases read a header line by line, so `description: Use it: now`, which is invalid YAML,
//! worked. A header that is invalid YAML but consists only of plain `key: value` lines is still
//! read that way, with a remark. Any other invalid YAML is reported as broken.

use serde_json::{Map, Value};

use crate::yaml::{self, YamlError, scalar_text};

/// Maximum size of a header, in bytes.
const LIMIT: usize = 64 * 1024;

/// Members of `metadata` that hold our settings.
const METADATA_KEYS: [&str; 2] = ["nanobot", "openclaw"];

/// Characters that start YAML syntax. In the line-by-line fallback no value may begin with one,
/// because the author meant YAML there.
const MARKS: &str = "[]{}\"'&*!|>%@`-?#,";

/// A parsed file.
#[derive(Debug, PartialEq)]
pub(crate) struct SkillDocument {
    /// The header.
    pub(crate) header: Header,
    /// The text after the header, trimmed.
    pub(crate) body: String,
}

/// Result of parsing a header.
#[derive(Debug, PartialEq)]
pub(crate) enum Header {
    /// There is no header, or it is not closed.
    Missing,
    /// The header was parsed.
    Read(Fields),
    /// The header is invalid, for this reason.
    Broken(String),
    /// The header exceeds a limit, for this reason.
    TooLarge(String),
}

/// The fields of a header.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Fields {
    members: Map<String, Value>,
    /// `true` if the header is invalid YAML and was read line by line.
    pub(crate) by_line: bool,
}

impl SkillDocument {
    /// Parses a file. Without a complete header, all of it is body.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.replace("\r\n", "\n");
        match split(&text) {
            Some((header, body)) => Self {
                header: Header::parse(header),
                body: body.trim().to_owned(),
            },
            None => Self {
                header: Header::Missing,
                body: text.trim().to_owned(),
            },
        }
    }
}

impl Header {
    fn parse(text: &str) -> Self {
        if text.len() > LIMIT {
            return Self::TooLarge(format!("its header is larger than {LIMIT} bytes"));
        }
        let mut fields = match yaml::parse(text) {
            Ok(Value::Object(members)) => Fields {
                members,
                by_line: false,
            },
            Ok(Value::Null) => Fields::default(),
            Ok(_) => return Self::Broken("its header is not made of keys and values".to_owned()),
            Err(YamlError::TooLarge) => {
                return Self::TooLarge(format!("its header: {}", YamlError::TooLarge));
            }
            Err(error) => match by_line(text) {
                Some(members) => Fields {
                    members,
                    by_line: true,
                },
                None => return Self::Broken(format!("its header is no YAML ({error})")),
            },
        };
        match fields.unfold() {
            Some(problem) => Self::Broken(problem),
            None => Self::Read(fields),
        }
    }
}

impl Fields {
    /// Returns a field as trimmed text, line breaks included; `None` if it is empty or a list or
    /// map.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.members
            .get(key)
            .and_then(scalar_text)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    }

    /// `true` if the header asks for inclusion in every prompt, at the top level or in its
    /// metadata.
    pub(crate) fn always(&self) -> bool {
        [
            self.members.get("always"),
            self.settings().and_then(|settings| settings.get("always")),
        ]
        .into_iter()
        .flatten()
        .any(is_true)
    }

    /// Returns a setting from the metadata, else from the top level.
    pub(crate) fn setting(&self, key: &str) -> Option<&Value> {
        self.settings()
            .and_then(|settings| settings.get(key))
            .or_else(|| self.members.get(key))
    }

    fn settings(&self) -> Option<&Map<String, Value>> {
        let metadata = self.members.get("metadata")?;
        METADATA_KEYS
            .iter()
            .find_map(|key| metadata.get(key)?.as_object())
    }

    /// Parses `metadata` and `requires` if they are JSON in a string. Returns the problem if one of
    /// them cannot be parsed.
    fn unfold(&mut self) -> Option<String> {
        for key in ["metadata", "requires"] {
            let Some(Value::String(text)) = self.members.get(key) else {
                continue;
            };
            let text = text.trim();
            if !text.starts_with(['{', '[']) {
                continue;
            }
            match serde_json::from_str(text) {
                Ok(value) => self.members.insert(key.to_owned(), value),
                Err(error) => return Some(format!("`{key}` is no JSON ({error})")),
            };
        }
        None
    }
}

/// `true` for the boolean and for the words `true`, `yes` and `on`. A quoted `'false'` is false.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(is_true) => *is_true,
        Value::String(text) => {
            ["true", "yes", "on"].contains(&text.trim().to_ascii_lowercase().as_str())
        }
        _ => false,
    }
}

/// Splits a file into its header and the text after it; `None` without a complete header.
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

/// Reads a header that has only `key: value` lines; `None` if any line has another form.
fn by_line(text: &str) -> Option<Map<String, Value>> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    let mut members = Map::new();
    for line in text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let (key, value) = line.split_once(':')?;
        let value = value.trim();
        let is_json = ["metadata", "requires"].contains(&key) && value.starts_with('{');
        if key.is_empty()
            || !key.chars().all(is_plain)
            || (value.starts_with(|mark| MARKS.contains(mark)) && !is_json)
        {
            return None;
        }
        members.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(header: &str) -> Fields {
        match SkillDocument::parse(&format!("---\n{header}\n---\nBody.")) {
            SkillDocument {
                header: Header::Read(fields),
                body,
            } if body == "Body." => fields,
            other => panic!("{header}: {other:?}"),
        }
    }

    #[test]
    fn parses_common_headers() {
        let file = "---\r\nname: weather\r\ndescription: \"Say \\\"rain\\\": or not\"\r\n# a remark\r\n\
                    homepage: https://example.org/a\r\nquoted: 'it''s'\r\nalways: false\r\nlong: >-\r\n  two\r\n  lines\r\n\
                    plain: starts\r\n  and goes on\r\nnested:\r\n  deep: 1\r\nlist:\r\n- one\r\n---\r\n\r\nBody.\r\n---\r\nrest\r\n";
        let members = json!({
            "name": "weather", "description": "Say \"rain\": or not", "homepage": "https://example.org/a",
            "quoted": "it's", "always": false, "long": "two lines", "plain": "starts and goes on",
            "nested": {"deep": 1}, "list": ["one"],
        });
        let fields = Fields {
            members: members.as_object().unwrap().clone(),
            by_line: false,
        };
        let document = SkillDocument {
            header: Header::Read(fields),
            body: "Body.\n---\nrest".to_owned(),
        };
        assert_eq!(SkillDocument::parse(file), document);
    }

    #[test]
    fn a_file_without_a_complete_header_is_all_body() {
        for file in [
            "Just text",
            "---\nname: a\n",
            "--- x\nname: a\n---\n",
            "",
            "---",
        ] {
            let document = SkillDocument {
                header: Header::Missing,
                body: file.trim().to_owned(),
            };
            assert_eq!(SkillDocument::parse(file), document, "{file:?}");
        }
    }

    #[test]
    fn reads_metadata_in_every_form() {
        let table = [
            r#"metadata: {"nanobot":{"requires":{"bins":["gh"]},"always":true}}"#,
            r#"metadata: {"openclaw": {"requires": {"bins": ["gh"]}, "always": true}}"#,
            r#"metadata: '{"nanobot":{"requires":{"bins":["gh"]},"always":true}}'"#,
            r#"metadata: "{\"nanobot\":{\"requires\":{\"bins\":[\"gh\"]},\"always\":true}}""#,
            "metadata:\n  nanobot:\n    always: true\n    requires:\n      bins:\n        - gh",
            "metadata: {nanobot: {always: true, requires: {bins: [gh]}}}",
            "always: true\nrequires: {\"bins\": [\"gh\"]}",
            "description: so: and so\nmetadata: {\"nanobot\":{\"requires\":{\"bins\":[\"gh\"]},\"always\":true}}",
        ];
        for header in table {
            let fields = read(header);
            assert_eq!(
                (fields.setting("requires"), fields.always()),
                (Some(&json!({"bins": ["gh"]})), true),
                "{header}"
            );
        }
    }

    #[test]
    fn only_true_values_enable_always() {
        for (value, always) in [
            ("true", true),
            ("'True'", true),
            ("yes", true),
            ("false", false),
            ("'false'", false),
            ("no", false),
            ("", false),
            ("1", false),
            ("[true]", false),
        ] {
            assert_eq!(
                read(&format!("always: {value}")).always(),
                always,
                "{value}"
            );
            assert_eq!(
                read(&format!("metadata: {{nanobot: {{always: {value}}}}}")).always(),
                always,
                "{value}"
            );
        }
    }

    #[test]
    fn falls_back_to_lines_only_for_plain_text() {
        let fields = read("name: a\ndescription: Use when: it rains");
        assert_eq!(
            (fields.by_line, fields.text("description").as_deref()),
            (true, Some("Use when: it rains"))
        );
        for header in [
            "name: [unclosed",
            "description: \"unclosed",
            "name: a\n\tdescription: b: c",
            "name: a\n  - b: c: d\nx",
            "metadata: {broken",
            "metadata: '{\"nanobot\": '",
            "- a\n- b",
            "just words",
        ] {
            let document = SkillDocument::parse(&format!("---\n{header}\n---\nBody."));
            assert!(
                matches!(document.header, Header::Broken(_)),
                "{header}: {document:?}"
            );
        }
    }
}
