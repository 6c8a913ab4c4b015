//! The secrets of a configuration, and a writer that redacts them in logs.

use std::io::{self, Write};
use std::path::Path;

use nanobot_config::Config;
use nanobot_redact::{SHORTEST, Secrets, is_searched, is_secret_name, without_issued_keys};
use nanobot_tools::{ToolsConfig, search_key_variables};
use serde_json::Value;

/// Maximum size of a channel's note that is searched for tokens, in bytes; larger ones hold none.
const MAX_NOTE_SIZE: u64 = 256 << 10;

/// Returns the secrets in use with a configuration: its own values with references resolved, API
/// keys of vendors and search from the environment, tokens in the notes of channels, and tokens of
/// logins at MCP servers and providers.
#[must_use]
pub fn secrets(config: &Config) -> Secrets {
    Secrets::new(values(config))
}

/// Returns every value, including those too short to be redacted.
pub(crate) fn values(config: &Config) -> Vec<String> {
    let mut values: Vec<String> = config
        .secrets()
        .into_iter()
        .map(|secret| secret.value)
        .collect();
    let vendors = nanobot_providers::TABLE
        .iter()
        .flat_map(|vendor| vendor.environment.iter().copied());
    let variables = vendors
        .chain(search_key_variables())
        .filter_map(|name| config.environment().variable(name));
    values.extend(variables.map(str::to_owned));
    let passed = secret_variables(config).into_iter();
    values
        .extend(passed.filter_map(|name| config.environment().variable(&name).map(str::to_owned)));
    collect_noted(&config.paths().channel_notes, &mut values);
    values.extend(super::mcp::tokens(config));
    let logins = super::provider_sections::token_folder(config);
    values.extend(nanobot_providers::known_tokens(&logins));
    values
}

/// Returns the variables with secret names that commands of `exec` receive.
pub(crate) fn secret_variables(config: &Config) -> Vec<String> {
    let tools: Result<ToolsConfig, _> = config.section("tools");
    let mut names = tools
        .map(|tools| tools.exec.allowed_env_keys)
        .unwrap_or_default();
    names.retain(|name| is_secret_name(name));
    names
}

/// Returns the keys of secrets that are too short or too ordinary to be redacted.
pub(crate) fn too_short(config: &Config) -> Vec<String> {
    let secrets = config.secrets();
    let is_short = |value: &str| !is_searched(value);
    // A key may have a long value and a short part of it, such as an address with a short name.
    let mut keys: Vec<String> = secrets
        .iter()
        .filter(|secret| is_short(&secret.value))
        .map(|secret| secret.key.clone())
        .collect();
    keys.retain(|key| {
        secrets
            .iter()
            .filter(|secret| secret.key == *key)
            .all(|secret| is_short(&secret.value))
    });
    keys.dedup();
    keys
}

/// Returns the warning about such a key.
pub(crate) fn short_warning(key: &str) -> String {
    format!(
        "{key} has fewer than {SHORTEST} characters, or is an ordinary word: replies, results and logs are not searched for it"
    )
}

/// Adds tokens in the notes of channels: string values under secret names.
fn collect_noted(root: &Path, values: &mut Vec<String>) {
    let entries = |folder: &Path| {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
    };
    for file in entries(root).flat_map(|folder| entries(&folder.path())) {
        if file
            .metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_NOTE_SIZE)
            && let Ok(text) = std::fs::read_to_string(file.path())
        {
            values.extend(tokens_in(&text));
        }
    }
}

/// Returns the string values under secret names in a note.
pub(crate) fn tokens_in(note: &str) -> Vec<String> {
    let Ok(Value::Object(note)) = serde_json::from_str(note) else {
        return Vec::new();
    };
    let secret = note.iter().filter(|(name, _)| is_secret_name(name));
    secret
        .filter_map(|(_, value)| value.as_str().map(str::to_owned))
        .collect()
}

/// Redacts secrets in a log: exact values, and unknown ones of a known form. Each write has to be whole lines, as those of `tracing` are.
#[derive(Debug)]
pub struct RedactedWriter<W> {
    inner: W,
    secrets: Secrets,
}

impl<W> RedactedWriter<W> {
    /// Returns a writer that writes to `inner`.
    #[must_use]
    pub fn new(inner: W, secrets: Secrets) -> Self {
        Self { inner, secrets }
    }
}

impl<W: Write> Write for RedactedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.inner
            .write_all(without_issued_keys(&self.secrets.redact(&text)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use nanobot_config::Environment;

    use super::*;
    use crate::LoadOptions;
    use crate::Runtime;
    use crate::assembly::runtime::in_environment;

    fn loaded(home: &Path, file: &str, variables: &[(&str, &str)]) -> Runtime {
        std::fs::write(home.join("config.json"), file).unwrap();
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = Environment::new(variables, Some("/nowhere".into()), "/".into());
        let options = LoadOptions {
            config: Some(home.join("config.json")),
            ..LoadOptions::default()
        };
        in_environment(environment, options)
    }

    #[test]
    fn secrets_are_collected_and_short_ones_reported() {
        let home = tempfile::tempdir().unwrap();
        let file =
            r#"{"providers": {"custom": {"apiKey": "${OWN}"}}, "gateway": {"token": "tiny"}}"#;
        let runtime = loaded(
            home.path(),
            file,
            &[("OWN", "own-words-here"), ("BRAVE_API_KEY", "brave-words")],
        );
        let config = runtime.config();
        let notes = config.paths().channel_notes.join("email");
        std::fs::create_dir_all(&notes).unwrap();
        std::fs::write(
            notes.join("refresh-token"),
            r#"{"insteadOf": "mark-of-it", "refreshToken": "newer-words"}"#,
        )
        .unwrap();
        let shown = secrets(config)
            .redact("own-words-here brave-words newer-words mark-of-it tiny")
            .into_owned();
        assert_eq!(shown, "*** *** *** mark-of-it tiny");
        assert_eq!(too_short(config), ["gateway.token"]);
    }

    #[test]
    fn log_redacts_plain_and_json_escaped_secrets() {
        let mut written = Vec::new();
        let issued = format!("{}{}", "sk-", "Fake0Test1Fake2Test3Fake4");
        let mut log =
            RedactedWriter::new(&mut written, Secrets::new(["a\"quoted\"secret".to_owned()]));
        log.write_all("one a\"quoted\"secret, {\"two\":\"a\\\"quoted\\\"secret\"}\n".as_bytes())
            .unwrap();
        log.write_all(format!("session_key=cli:direct error=\"401: {issued}\"\n").as_bytes())
            .unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "one ***, {\"two\":\"***\"}\nsession_key=cli:direct error=\"401: ***\"\n"
        );
    }
}
