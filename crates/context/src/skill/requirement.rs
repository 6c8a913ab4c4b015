//! What a skill needs of the machine. Looked up, never run, and no value is ever shown.

use std::path::Path;

use serde_json::Value;

/// What is not there: programs first, then variables.
pub(crate) fn missing(requires: &Value) -> Vec<String> {
    let programs = names(requires, "bins").filter(|name| !is_on_path(name)).map(|name| format!("CLI: {name}"));
    let variables = names(requires, "env").filter(|name| !is_set(name)).map(|name| format!("ENV: {name}"));
    programs.chain(variables).collect()
}

fn names<'a>(requires: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    requires.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a variable has a value. A name that no variable can have is not set.
fn is_set(name: &str) -> bool {
    let possible = !name.is_empty() && !name.contains(['=', '\0']);
    possible && std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Whether a program lies in a folder of `PATH`. A name with more than plain characters is none.
fn is_on_path(name: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.+".contains(character);
    if name.is_empty() || !name.chars().all(plain) {
        return false;
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| {
        let candidate = folder.join(name);
        is_program(&candidate) || (cfg!(windows) && is_program(&candidate.with_added_extension("exe")))
    })
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_named_and_nothing_is_run() {
        let shell = if cfg!(windows) { "cmd" } else { "sh" };
        let table = [
            (json!(null), vec![]),
            (json!({"bins": [shell], "env": ["PATH"]}), vec![]),
            (
                json!({"bins": ["no-such-program", "x; touch pwned", "../sh", ""], "env": ["NO_SUCH_VARIABLE", "A=B"]}),
                vec![
                    "CLI: no-such-program",
                    "CLI: x; touch pwned",
                    "CLI: ../sh",
                    "CLI: ",
                    "ENV: NO_SUCH_VARIABLE",
                    "ENV: A=B",
                ],
            ),
            (json!({"bins": "gh", "env": [5]}), vec![]),
        ];
        for (requires, expected) in table {
            assert_eq!(missing(&requires), expected, "{requires}");
        }
    }
}
