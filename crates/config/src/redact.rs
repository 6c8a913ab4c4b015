//! Which values are never shown.
//!
//! A value is hidden for the name of its key, for sitting among headers or a child's
//! environment, or for what it looks like (a password in a URL, an argument after `--token`).
//! Numbers and flags are always shown: `maxTokens` is not a secret. A lone `${VARIABLE}` is shown;
//! the name of a variable says where to look and gives nothing away.

use nanobot_redact::{HIDDEN, KEY_PREFIXES};
use serde_json::Value;

use crate::key::flat;
use crate::reference::is_sole_reference;

/// Maps whose values are hidden whatever their keys are.
const SECRET_MAPS: &[&str] = &["env", "headers", "extraheaders", "extraquery", "extrabody"];

/// Stricter than for texts: a list of tokens holds tokens, and numbers of them are shown anyway.
fn is_secret_name(name: &str) -> bool {
    let flat = flat(name);
    flat.contains("token")
        || ["key", "keys"].iter().any(|end| flat.ends_with(end))
        || nanobot_redact::is_secret_name(&flat)
}

/// Whether what is at this path is hidden for its keys.
pub(crate) fn is_secret(path: &[String]) -> bool {
    let is_named = path.iter().any(|part| is_secret_name(part));
    let above = path.split_last().map_or(&[][..], |(_, above)| above);
    is_named || above.iter().any(|part| SECRET_MAPS.contains(&flat(part).as_str()))
}

/// The value with every secret replaced by [`HIDDEN`]; `path` is where it stands.
pub(crate) fn redacted(path: &[String], value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::from(redacted_text(path, text)),
        Value::Array(items) => {
            let mut after_flag = false;
            let items = items.iter().map(|item| match item {
                Value::String(text) if after_flag => {
                    after_flag = false;
                    Value::from(hide(text))
                }
                Value::String(text) => {
                    after_flag = text.starts_with('-') && !text.contains('=') && is_secret_name(text);
                    Value::from(redacted_text(path, &redacted_argument(text)))
                }
                other => redacted(path, other),
            });
            Value::Array(items.collect())
        }
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, value)| {
                    let mut below = path.to_vec();
                    below.push(name.clone());
                    (name.clone(), redacted(&below, value))
                })
                .collect(),
        ),
    }
}

fn hide(text: &str) -> String {
    if text.is_empty() || is_sole_reference(text) { text.to_owned() } else { HIDDEN.to_owned() }
}

fn redacted_text(path: &[String], text: &str) -> String {
    let looks_secret = KEY_PREFIXES.iter().any(|start| text.starts_with(start));
    if is_secret(path) || looks_secret {
        return hide(text);
    }
    redacted_url(text)
}

/// `--api-key=abc` without its value.
fn redacted_argument(text: &str) -> String {
    match text.split_once('=') {
        Some((name, value)) if is_secret_name(name) => format!("{name}={}", hide(value)),
        _ => text.to_owned(),
    }
}

/// A URL without the password and without secret parameters.
fn redacted_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let (authority, tail) = match rest.find(['/', '?', '#']) {
        Some(index) => rest.split_at(index),
        None => (rest, ""),
    };
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_owned(),
    };
    let tail = match tail.split_once('?') {
        Some((path, query)) => {
            let query: Vec<String> = query.split('&').map(redacted_argument).collect();
            format!("{path}?{}", query.join("&"))
        }
        None => tail.to_owned(),
    };
    format!("{scheme}://{authority}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_shown() {
        let value = json!({
            "maxTokens": 10,
            "token": "123:abc",
            "tokens": ["123:abc"],
            "apiKey": "",
            "proxy": "http://me:word@proxy:80/x?api_key=abc&y=1",
            "other": "${KEY}",
            "secretToken": "${KEY}",
            "clientSecret": "a${KEY}",
            "env": {"DEBUG": "1"},
            "args": ["-y", "--token", "abc", "--api-key=abc", "plain"],
            "model": "sk-abc",
            "home": "https://example.org/path"
        });
        assert_eq!(
            redacted(&[], &value),
            json!({
                "maxTokens": 10,
                "token": "***",
                "tokens": ["***"],
                "apiKey": "",
                "proxy": "http://***@proxy:80/x?api_key=***&y=1",
                "other": "${KEY}",
                "secretToken": "${KEY}",
                "clientSecret": "***",
                "env": {"DEBUG": "***"},
                "args": ["-y", "--token", "***", "--api-key=***", "plain"],
                "model": "***",
                "home": "https://example.org/path"
            })
        );
    }
}
