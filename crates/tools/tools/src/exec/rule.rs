//! The rule of a permission that also covers later commands.
//!
//! Decision: a rule is exactly one program with exactly these words, as the parser reads them. A
//! command that decides only when it runs what it does (a shell, an interpreter, a program that runs
//! another one, an expansion) has no rule, so each of its runs needs a permission of its own.

use super::{
    guard::{SHELLS, WRAPPERS},
    shell::{self, PipelineStage, Word, WordPart},
};

/// Programs that do what their arguments, their input or other files say, beside shells and wrappers.
/// A name covers all that begin with it and continue with digits and dots (`python3.13`).
const DECIDE_LATER: [&str; 29] = [
    ".",
    "awk",
    "bun",
    "deno",
    "doas",
    "eval",
    "expect",
    "find",
    "flock",
    "gawk",
    "gdb",
    "ipython",
    "lua",
    "mawk",
    "node",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pwsh",
    "python",
    "ruby",
    "script",
    "sed",
    "source",
    "ssh",
    "su",
    "sudo",
    "tclsh",
];

/// Returns the rule of a command; `None` if it has none.
pub(super) fn rule_of(command: &str) -> Option<String> {
    let script = shell::parse(command).ok()?;
    let [stage] = script.stages.as_slice() else {
        return None;
    };
    let PipelineStage {
        words,
        redirects,
        nested,
        subshell,
        piped: _,
    } = stage;
    let is_plain = redirects.is_empty()
        && nested.is_empty()
        && subshell.is_none()
        && script.documents.is_empty();
    if !is_plain {
        return None;
    }
    let words: Vec<String> = words.iter().map(literal).collect::<Option<_>>()?;
    let program = words.first()?;
    let is_name = !program.is_empty()
        && program
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c));
    if !is_name || decides_later(program) {
        return None;
    }
    Some(
        words
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" "),
    )
}

fn decides_later(program: &str) -> bool {
    let mut names = DECIDE_LATER.iter().chain(&SHELLS).chain(&WRAPPERS);
    names.any(|name| {
        program
            .strip_prefix(name)
            .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
    })
}

/// Returns a word without expansions.
fn literal(word: &Word) -> Option<String> {
    let texts = word.parts.iter().map(|part| match part {
        WordPart::Text(text) => Some(text.as_str()),
        WordPart::Home | WordPart::Variable(_) | WordPart::Glob(_) | WordPart::Unknown => None,
    });
    texts.collect()
}

fn quoted(word: &str) -> String {
    let is_simple = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._+-/:=,@%".contains(c));
    match is_simple {
        true => word.to_owned(),
        false => nanobot_escape::shell_word(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_plain_program_has_a_rule() {
        for (command, expected) in [
            ("git status", Some("git status")),
            ("  git   'status' ", Some("git status")),
            ("ls -la 'my files'", Some("ls -la 'my files'")),
            ("cargo test --locked", Some("cargo test --locked")),
            ("python3 x.py", None),
            ("python3.13 -c 'print(1)'", None),
            ("bash -c ls", None),
            ("env ls", None),
            ("find . -name a", None),
            ("ls | wc", None),
            ("ls; id", None),
            ("ls && id", None),
            ("ls > out", None),
            ("ls $HOME", None),
            ("ls $(id)", None),
            ("ls ~", None),
            ("ls *", None),
            ("cat <<E\nx\nE", None),
            ("(ls)", None),
            ("X=1 ls", None),
            ("if true; then id; fi", None),
            ("./run.sh", None),
            ("/bin/ls", None),
            ("ls 'a", None),
            ("", None),
        ] {
            assert_eq!(rule_of(command).as_deref(), expected, "{command}");
        }
    }
}
