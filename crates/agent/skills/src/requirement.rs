//! Requirements of a skill on the machine. They are looked up but never run, and no value of a
//! variable is ever shown.

use std::ffi::OsStr;

use nanobot_skill::Blocker;
use serde_json::Value;

use crate::header::Fields;

/// Requirements declared in a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// Programs that must be on `PATH`.
    pub(crate) programs: Vec<String>,
    /// Programs of which one must be on `PATH`.
    pub(crate) any_program: Vec<String>,
    /// Environment variables that must have a value.
    pub(crate) variables: Vec<String>,
    /// Supported operating systems; empty for any.
    pub(crate) systems: Vec<String>,
}

impl Requirements {
    /// Reads the requirements from a header.
    pub(crate) fn of(fields: &Fields) -> Self {
        let requires = fields.setting("requires");
        let listed = |key: &str| names(requires.and_then(|requires| requires.get(key)));
        Self {
            programs: listed("bins"),
            any_program: listed("anyBins"),
            variables: listed("env"),
            systems: names(fields.setting("os")),
        }
    }

    /// Returns the requirements that are not met: programs, variables, operating system.
    pub(crate) fn blockers(&self) -> Vec<Blocker> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_missing = |name: &&String| !is_on_path(name, &path);
        let mut blockers: Vec<Blocker> = self
            .programs
            .iter()
            .filter(is_missing)
            .cloned()
            .map(Blocker::Program)
            .collect();
        if !self.any_program.is_empty() && self.any_program.iter().all(|name| is_missing(&name)) {
            blockers.push(Blocker::Program(self.any_program.join(" or ")));
        }
        blockers.extend(
            self.variables
                .iter()
                .filter(|name| !is_set(name))
                .cloned()
                .map(Blocker::Variable),
        );
        if !self.systems.is_empty() && !self.systems.iter().any(|name| is_this_system(name)) {
            blockers.push(Blocker::System(self.systems.join(" or ")));
        }
        blockers
    }
}

/// Reads a list of names, or a single name.
fn names(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        Some(Value::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    }
}

fn is_this_system(name: &str) -> bool {
    let ours = match std::env::consts::OS {
        "macos" => &["macos", "darwin"][..],
        "windows" => &["windows", "win32"],
        "linux" => &["linux"],
        other => &[other],
    };
    ours.iter()
        .any(|system| system.eq_ignore_ascii_case(name.trim()))
}

/// `true` if the environment variable has a value. An invalid name counts as unset.
fn is_set(name: &str) -> bool {
    let possible = !name.is_empty() && !name.contains(['=', '\0']);
    possible && std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// `true` if the program is in a folder of `path`. Only names of plain characters are looked up, so
/// that a path or a shell command never matches.
fn is_on_path(name: &str, path: &OsStr) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.+".contains(character);
    if name.is_empty() || !name.chars().all(plain) {
        return false;
    }
    nanobot_programs::find_in_path(path, name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Header, SkillDocument};

    fn blockers(header: &str) -> Vec<String> {
        match SkillDocument::parse(&format!("---\n{header}\n---\n")).header {
            Header::Read(fields) => Requirements::of(&fields)
                .blockers()
                .iter()
                .map(Blocker::to_string)
                .collect(),
            other => panic!("{header}: {other:?}"),
        }
    }

    #[test]
    fn names_missing_requirements_without_running_them() {
        let shell = if cfg!(windows) { "cmd" } else { "sh" };
        let here = std::env::consts::OS;
        let table = [
            (String::new(), vec![]),
            (format!("requires: {{bins: [{shell}], env: [PATH]}}\nos: [{here}, darwin]"), vec![]),
            (
                "requires: {bins: [no-such-program, 'x; touch pwned', ../sh, ''], env: [NO_SUCH_VARIABLE, A=B]}"
                    .to_owned(),
                vec![
                    "CLI: no-such-program",
                    "CLI: x; touch pwned",
                    "CLI: ../sh",
                    "CLI: ",
                    "ENV: NO_SUCH_VARIABLE",
                    "ENV: A=B",
                ],
            ),
            (format!("requires: {{anyBins: [no-such-program, {shell}]}}"), vec![]),
            ("requires: {anyBins: [no-such-program, nor-this]}".to_owned(), vec!["CLI: no-such-program or nor-this"]),
            ("requires: {bins: no-such-program, env: [5]}".to_owned(), vec!["CLI: no-such-program"]),
            ("metadata: {nanobot: {os: [plan9, beos]}}".to_owned(), vec!["OS: plan9 or beos"]),
            ("requires: text".to_owned(), vec![]),
        ];
        for (header, expected) in table {
            assert_eq!(blockers(&header), expected, "{header}");
        }
    }
}
