//! The environment of a command: variables a shell needs, and none of the assistant's own.

use std::ffi::OsString;

use crate::config::ExecConfig;

/// Variables that every command inherits if they are set. API keys of providers and tokens of
/// channels are not among them.
const NEEDED: &[&str] = if cfg!(windows) {
    &[
        "SystemRoot",
        "ComSpec",
        "PATHEXT",
        "USERPROFILE",
        "TEMP",
        "TMP",
        "HOME",
        "LANG",
        "TERM",
        "TZ",
    ]
} else {
    &["HOME", "LANG", "LC_ALL", "TERM", "TZ", "TMPDIR"]
};

/// Returns the environment variables of a command.
pub(super) fn minimal(config: &ExecConfig) -> Vec<(OsString, OsString)> {
    let allowed = config.allowed_env_keys.iter().map(String::as_str);
    let mut variables: Vec<(OsString, OsString)> = NEEDED
        .iter()
        .copied()
        .chain(allowed)
        .filter(|key| *key != "PATH")
        .filter_map(|key| Some((key.into(), std::env::var_os(key)?)))
        .collect();
    variables.push(("PATH".into(), path(config)));
    variables
}

/// Returns `PATH` with the configured folders before and after it.
fn path(config: &ExecConfig) -> OsString {
    let separator = if cfg!(windows) { ";" } else { ":" };
    let inherited =
        std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut path = OsString::new();
    for part in [
        config.path_prepend.as_str().into(),
        inherited,
        config.path_append.as_str().into(),
    ] {
        let part: OsString = part;
        if part.is_empty() {
            continue;
        }
        if !path.is_empty() {
            path.push(separator);
        }
        path.push(part);
    }
    path
}
