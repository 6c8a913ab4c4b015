//! Reading of a section of the configuration.
//!
//! Decision: a section is read leniently where it is unambiguous (both spellings of a key, `null`
//! for an absent key, keys of other readers). An unreadable value is reported by its key and never
//! by its value, which may be a secret in the wrong place.

use nanobot_channel::{ChannelError, Map, Value};
use serde::de::DeserializeOwned;

/// Reads settings with keys in camelCase; `snake_case` is accepted, too. `expected` returns the
/// advice for an unreadable key, which it gets in camelCase.
///
/// # Errors
/// [`ChannelError::Config`] naming the key as it is written in the section.
pub fn read_section<C: DeserializeOwned>(
    section: &Value,
    expected: fn(&str) -> &'static str,
) -> Result<C, ChannelError> {
    let nothing = Map::new();
    let keys = match section {
        Value::Null => &nothing,
        Value::Object(keys) => keys,
        _ => return Err(wrong("", "has to be an object")),
    };
    let spoken = keys.iter().filter(|(_, value)| !value.is_null());
    let spoken: Map = spoken
        .map(|(key, value)| (camel_case(key), value.clone()))
        .collect();
    serde_json::from_value(Value::Object(spoken))
        .map_err(|error| blame::<C>(keys, expected, &error))
}

/// Returns an error about one key.
#[must_use]
pub fn wrong(key: &str, message: &str) -> ChannelError {
    ChannelError::Config {
        key: key.to_owned(),
        message: message.to_owned(),
    }
}

pub(crate) fn camel_case(key: &str) -> String {
    let mut camel = String::new();
    let mut starts_word = false;
    for letter in key.chars() {
        if letter == '_' {
            starts_word = !camel.is_empty();
        } else if std::mem::take(&mut starts_word) {
            camel.extend(letter.to_uppercase());
        } else {
            camel.push(letter);
        }
    }
    camel
}

/// Finds the key that cannot be read.
fn blame<C: DeserializeOwned>(
    keys: &Map,
    expected: fn(&str) -> &'static str,
    error: &serde_json::Error,
) -> ChannelError {
    for (key, value) in keys {
        let kind = match value {
            Value::Null => continue,
            Value::String(_) => "a text",
            Value::Number(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        let camel = camel_case(key);
        let alone = Map::from_iter([(camel.clone(), value.clone())]);
        if serde_json::from_value::<C>(Value::Object(alone)).is_err() {
            return wrong(
                key,
                &format!(
                    "holds {kind} that cannot be used here; {}",
                    expected(&camel)
                ),
            );
        }
    }
    wrong("", &format!("cannot be read at column {}", error.column()))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Settings {
        api_base: String,
        is_open: bool,
    }

    fn expected(key: &str) -> &'static str {
        if key == "isOpen" {
            "write true or false"
        } else {
            "write a text in quotes"
        }
    }

    #[test]
    fn section_accepts_both_spellings_and_null() {
        let settings = |api_base: &str, is_open| Settings {
            api_base: api_base.to_owned(),
            is_open,
        };
        let table = [
            (json!(null), settings("", false)),
            (json!({"apiBase": "x", "isOpen": true}), settings("x", true)),
            (
                json!({"api_base": "x", "is__open": true, "allowFrom": [1]}),
                settings("x", true),
            ),
            (json!({"apiBase": null}), settings("", false)),
        ];
        for (section, settings) in table {
            assert_eq!(
                read_section::<Settings>(&section, expected).unwrap(),
                settings
            );
        }
    }

    #[test]
    fn unreadable_key_is_reported_as_written_without_value() {
        let table = [
            (json!([]), "has to be an object"),
            (
                json!({"api_base": "x", "is_open": "s3cret"}),
                "is_open: holds a text that cannot be used here; write true or false",
            ),
            (
                json!({"apiBase": 5}),
                "apiBase: holds a number that cannot be used here; write a text in quotes",
            ),
        ];
        for (section, text) in table {
            assert_eq!(
                read_section::<Settings>(&section, expected)
                    .unwrap_err()
                    .to_string(),
                text
            );
        }
    }
}
