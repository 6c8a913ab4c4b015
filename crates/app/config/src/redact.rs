//! Redacts secrets in configuration values.
//!
//! A value is redacted because of the name of its key, because it is a header or a variable of a
//! child's environment, or because of its form (a password in a URL, an argument after `--token`).
//! Numbers and flags are always shown: `maxTokens` is not a secret. A lone `${VARIABLE}` is shown,
//! because the name of a variable reveals nothing; so are a `file:` reference, the URL that issues tokens
//! (`oauthTokenUrl`) and the path of a file that contains them. The names that users give to
//! channels and providers are ignored: `channels.monkey` is no key.

use nanobot_redact::{HIDDEN, begins_like_key};
use serde_json::Value;

use crate::external::is_file_reference;
use crate::key::flat;
use crate::reference::is_sole_reference;

/// Maps whose values are redacted whatever their keys are.
const SECRET_MAPS: &[&str] = &["env", "headers", "extraheaders", "extraquery", "extrabody"];

/// Suffixes of names whose value is a location, or the name of a variable.
const WHERE: &[&str] = &[
    "url", "uri", "endpoint", "path", "file", "envkey", "envkeys",
];

/// Stricter than the check for text: a list of tokens contains tokens, and numbers of tokens are
/// shown anyway.
fn is_secret_name(name: &str) -> bool {
    let flat = flat(name);
    let ends = |ends: &[&str]| ends.iter().any(|end| flat.ends_with(end));
    !ends(WHERE)
        && (flat.contains("token")
            || ends(&["key", "keys"])
            || nanobot_redact::is_secret_name(&flat))
}

/// Returns `true` if the value at this path is redacted because of its keys.
pub(crate) fn is_secret(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let path = below_chosen_names(&path);
    let above = path.split_last().map_or(&[][..], |(_, above)| above);
    path.iter().any(|part| is_secret_name(part))
        || above
            .iter()
            .any(|part| SECRET_MAPS.contains(&flat(part).as_str()))
}

/// Returns the path below a user-chosen name of a channel, provider or the like.
fn below_chosen_names<'a>(path: &'a [&'a str]) -> &'a [&'a str] {
    match path {
        ["channels", _, "groups", _, below @ ..]
        | ["channels" | "providers" | "modelPresets", _, below @ ..]
        | ["tools", "mcpServers", _, below @ ..]
            if !below.is_empty() =>
        {
            below
        }
        _ => path,
    }
}

/// Replaces every secret in a value by [`HIDDEN`]; `path` is the location of the value.
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
                    after_flag = is_secret_flag(text);
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

/// Returns the secrets in a string of the configuration; empty for most strings. `after_flag` is
/// set if the string follows `--token` or the like in a list of arguments.
///
/// Narrower than [`redacted`], because these values are searched for in all output: headers and
/// variables of a child's environment count only if their name or form is that of a secret.
pub(crate) fn secrets_in(path: &[String], text: &str, after_flag: bool) -> Vec<String> {
    let is_issued = begins_like_key(text) || is_secret(path);
    let looks_secret = is_issued && nanobot_redact::without_secrets(text) == HIDDEN;
    if looks_secret || after_flag || is_named_secret(path) {
        // In `Authorization: Bearer …` the token alone is a secret, too.
        let credential = text
            .split_once(' ')
            .map(|(_, credential)| credential.trim());
        let is_one_word = |word: &&str| !word.contains(char::is_whitespace);
        return std::iter::once(text)
            .chain(credential.filter(is_one_word))
            .map(str::to_owned)
            .collect();
    }
    if let Some((name, value)) = text.split_once('=')
        && text.starts_with('-')
        && is_secret_name(name)
    {
        return vec![value.to_owned()];
    }
    secrets_of_address(text)
}

/// Returns `true` if the argument after this one is a secret.
pub(crate) fn is_secret_flag(text: &str) -> bool {
    text.starts_with('-') && !text.contains('=') && is_secret_name(text)
}

/// Returns `true` if a key's own name marks its value as a secret; being a header is not enough.
pub(crate) fn is_named_secret(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let path = below_chosen_names(&path);
    match path
        .iter()
        .rposition(|part| SECRET_MAPS.contains(&flat(part).as_str()))
    {
        Some(map) => path.iter().skip(map + 1).any(|part| is_secret_name(part)),
        None => path.iter().any(|part| is_secret_name(part)),
    }
}

/// Returns the password and the secret parameters of a URL, both as written and decoded.
fn secrets_of_address(text: &str) -> Vec<String> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let password = authority
        .rsplit_once('@')
        .and_then(|(user, _)| user.split_once(':'))
        .map(|(_, password)| password);
    let query = rest
        .split_once('?')
        .map(|(_, query)| query.split('#').next().unwrap_or_default());
    let parameters = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter_map(|one| one.split_once('='));
    let secret = parameters
        .filter(|(name, _)| is_secret_name(name))
        .map(|(_, value)| value);
    password
        .into_iter()
        .chain(secret)
        .flat_map(|value| [value.to_owned(), decoded(value)])
        .collect()
}

/// Percent-decodes a text; invalid escapes are kept.
fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece
            .split_at_checked(2)
            .filter(|(digits, _)| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|(digits, rest)| Some((u8::from_str_radix(digits, 16).ok()?, rest))) {
            Some((byte, rest)) => {
                bytes.push(byte);
                bytes.extend(rest.bytes());
            }
            None => bytes.extend(std::iter::once(b'%').chain(piece.bytes())),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hide(text: &str) -> String {
    if text.is_empty() || is_sole_reference(text) || is_file_reference(text) {
        text.to_owned()
    } else {
        HIDDEN.to_owned()
    }
}

fn redacted_text(path: &[String], text: &str) -> String {
    if is_secret(path) || begins_like_key(text) {
        return hide(text);
    }
    // The scheme of a proxy may be omitted, and then the value does not look like a URL.
    let is_proxy = path.last().is_some_and(|name| flat(name) == "proxy") && !text.contains("://");
    match text.rsplit_once('@') {
        Some((_, host)) if is_proxy => format!("{HIDDEN}@{host}"),
        _ => redacted_url(text),
    }
}

/// Redacts the value of `--api-key=abc`.
fn redacted_argument(text: &str) -> String {
    match text.split_once('=') {
        Some((name, value)) if is_secret_name(name) => format!("{name}={}", hide(value)),
        _ => text.to_owned(),
    }
}

/// Redacts the password and secret parameters of a URL.
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
            "provider": "xai-grok",
            "fallbackModels": ["xai-grok/grok-4.5", "xai-grok-abcdefgh"],
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
                "provider": "xai-grok",
                "fallbackModels": ["xai-grok/grok-4.5", "***"],
                "home": "https://example.org/path"
            })
        );
    }

    #[test]
    fn secret_keys_are_recognised_by_name() {
        let hidden = [
            "channels.telegram.token",
            "channels.monkey.token",
            "channels.email.oauthRefreshToken",
            "channels.discord.proxyPassword",
            "channels.botToken",
            "providers.tokenhub.apiKey",
            "providers.custom.extraHeaders.Accept",
            "tools.mcpServers.monkey.env.DEBUG",
            "tools.web.search.apiKey",
            "api_keys",
            "private-key",
        ];
        let shown = [
            "channels.email.oauthTokenUrl",
            "channels.monkey.kind",
            "channels.slack.groups.C0MONKEY.policy",
            "providers.tokenhub.apiBase",
            "modelPresets.monkey.model",
            "tools.mcpServers.tokens.command",
            "tools.exec.allowedEnvKeys",
            "channels.websocket.tokenIssuePath",
            "channels.websocket.sslKeyfile",
            "oauth_token_url",
            "secretFile",
            "channels.telegram.groups",
        ];
        let table = hidden
            .map(|key| (key, true))
            .into_iter()
            .chain(shown.map(|key| (key, false)));
        for (key, is_hidden) in table {
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            assert_eq!(is_secret(&path), is_hidden, "{key}");
        }
    }

    #[test]
    fn proxy_password_without_scheme_is_hidden() {
        let value = json!({"proxy": "me:w@rd@proxy:80", "address": "me@proxy"});
        assert_eq!(
            redacted(&[], &value),
            json!({"proxy": "***@proxy:80", "address": "me@proxy"})
        );
    }
}
