//! Redacts secrets in JSON.

use serde_json::{Map, Value};

use crate::{HIDDEN, is_secret_name};

/// Applies `text` to all strings of a value. Values under the name of a secret are replaced by
/// [`hidden`].
#[must_use]
pub fn redacted(value: &Value, text: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(plain) => Value::String(text(plain)),
        Value::Array(items) => items.iter().map(|item| redacted(item, text)).collect(),
        Value::Object(map) => {
            let shown = |name: &String, value: &Value| match is_secret_name(name) {
                true => hidden(value),
                false => redacted(value, text),
            };
            Value::Object(
                map.iter()
                    .map(|(name, value)| (name.clone(), shown(name, value)))
                    .collect(),
            )
        }
    }
}

/// Replaces all non-empty strings of a value by [`HIDDEN`], keeping its shape.
#[must_use]
pub fn hidden(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) if text.is_empty() => value.clone(),
        Value::String(_) => HIDDEN.into(),
        Value::Array(items) => items.iter().map(hidden).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, value)| (name.clone(), hidden(value)))
                .collect::<Map<_, _>>(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::without_secrets;

    #[test]
    fn redacts_values_below_secret_names() {
        let value = json!({
            "token": "a",
            "maxTokens": 10,
            "headers": {"X-Api-Key": "b", "Accept": "text/html"},
            "credentials": {"user": "ann", "pins": ["1", "2"]},
            "command": "export KEY=1 SECRET=2",
            "empty": {"password": ""}
        });
        assert_eq!(
            redacted(&value, &without_secrets),
            json!({
                "token": "***",
                "maxTokens": 10,
                "headers": {"X-Api-Key": "***", "Accept": "text/html"},
                "credentials": {"user": "***", "pins": ["***", "***"]},
                "command": "export KEY=1 SECRET=***",
                "empty": {"password": ""}
            })
        );
    }
}
