//! Finds the command inside a wrapper such as `env` or `sh -c`.

use super::Argument;
use crate::exec::shell::{self, PipelineStage, ShellScript, Word};

/// Keywords of the shell's grammar that may come before a command.
const KEYWORDS: [&str; 14] = [
    "!", "{", "}", "(", "do", "done", "then", "else", "elif", "if", "fi", "while", "until", "esac",
];

/// Words that begin a construct whose first stage is not a command.
const CONSTRUCTS: [&str; 4] = ["for", "select", "case", "in"];

/// Programs that run the command in their arguments, after options, assignments and numbers.
pub(in crate::exec) const WRAPPERS: [&str; 14] = [
    "builtin", "busybox", "command", "coproc", "env", "exec", "ionice", "nice", "nohup", "setsid",
    "stdbuf", "time", "timeout", "xargs",
];

pub(in crate::exec) const SHELLS: [&str; 8] =
    ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh"];
const DOWNLOADERS: [&str; 3] = ["curl", "wget", "aria2c"];

/// Other programs that read from elsewhere.
const REMOTE: [&str; 9] = [
    "gh", "lynx", "nc", "ncat", "scp", "sftp", "ssh", "telnet", "w3m",
];

/// The command that a wrapper runs.
pub(super) enum Wrapped<'a> {
    /// A program with its arguments.
    Command(&'a [Argument]),
    /// A script.
    Text(String),
}

/// Strips leading keywords and assignments from `arguments`; empty for constructs.
pub(super) fn without_prelude(mut arguments: &[Argument]) -> &[Argument] {
    while let Some((first, rest)) = arguments.split_first() {
        let text = first.text.as_str();
        if CONSTRUCTS.contains(&text) {
            return &[];
        }
        if text == "function" {
            arguments = rest.get(1..).unwrap_or_default();
            continue;
        }
        if !KEYWORDS.contains(&text) && !is_assignment(text) {
            break;
        }
        arguments = rest;
    }
    arguments
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns the command that `name` runs with these arguments, if it runs one.
pub(super) fn wrapped<'a>(name: &str, arguments: &'a [Argument]) -> Option<Wrapped<'a>> {
    match name {
        "eval" => Some(Wrapped::Text(super::effect::line(arguments))),
        "find" => after_exec(arguments).map(Wrapped::Command),
        // It prints where a program is.
        "command"
            if arguments
                .first()
                .is_some_and(|a| a.text.eq_ignore_ascii_case("-v")) =>
        {
            None
        }
        shell if SHELLS.contains(&shell) => script_operand(arguments).map(Wrapped::Text),
        wrapper if WRAPPERS.contains(&wrapper) => after_options(arguments),
        _ => None,
    }
}

/// Returns the command behind the options of a wrapper. A word that has several words is a script,
/// as in `env -S 'rm file'`.
fn after_options(arguments: &[Argument]) -> Option<Wrapped<'_>> {
    let is_of_wrapper = |argument: &Argument| {
        let text = argument.text.as_str();
        text.starts_with(['-', '{'])
            || text.starts_with(|c: char| c.is_ascii_digit())
            || is_assignment(text)
    };
    let start = arguments
        .iter()
        .position(|argument| !is_of_wrapper(argument))?;
    let inner = arguments.get(start..)?;
    let first = inner.first()?;
    Some(match first.text.contains(char::is_whitespace) {
        true => Wrapped::Text(first.text.clone()),
        false => Wrapped::Command(inner),
    })
}

/// Returns the command of `find … -exec command`.
fn after_exec(arguments: &[Argument]) -> Option<&[Argument]> {
    let at = arguments
        .iter()
        .position(|a| matches!(a.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"))?;
    arguments.get(at + 1..)
}

/// Returns the script of `sh -c script`; the option may be combined with others (`-lc`).
fn script_operand(arguments: &[Argument]) -> Option<String> {
    let at = arguments
        .iter()
        .position(|argument| is_short_option(argument, 'c'))?;
    arguments
        .get(at + 1..)?
        .iter()
        .find(|a| !a.text.starts_with('-'))
        .map(|a| a.text.clone())
}

fn is_short_option(argument: &Argument, letter: char) -> bool {
    let text = argument.text.as_str();
    text.starts_with('-') && !text.starts_with("--") && text.contains(letter)
}

/// `true` if a shell with these arguments reads its script from standard input.
pub(super) fn reads_script_from_input(arguments: &[Argument]) -> bool {
    let operand = arguments.iter().find(|a| !a.text.starts_with('-'));
    let reads = operand.is_none_or(|operand| operand.text == "/dev/stdin")
        || arguments.iter().any(|a| is_short_option(a, 's'));
    reads && script_operand(arguments).is_none()
}

/// `true` if `stage` is a shell that reads its script from standard input.
pub(super) fn is_bare_shell(stage: &PipelineStage) -> bool {
    let words: Vec<_> = stage
        .words
        .iter()
        .map(|word| Argument::literal(word.written()))
        .collect();
    without_prelude(&words)
        .split_first()
        .is_some_and(|(program, rest)| {
            SHELLS.contains(&program.program().as_str()) && reads_script_from_input(rest)
        })
}

/// `true` if one of `scripts` downloads something.
pub(super) fn downloads(scripts: &[ShellScript]) -> bool {
    any_stage(scripts, &|words| names_any(words, &DOWNLOADERS))
}

/// `true` if the output of `command` may be text from elsewhere, as far as its words show: it names
/// a URL, a program that connects, or an update by Git.
pub(in crate::exec) fn reads_from_elsewhere(command: &str) -> bool {
    let Ok(script) = shell::parse(command) else {
        return false;
    };
    any_stage(&[script], &|words| {
        words.iter().any(|word| word.contains("://"))
            || names_any(words, &DOWNLOADERS)
            || names_any(words, &REMOTE)
            || (names_any(words, &["git"]) && names_any(words, &["clone", "fetch", "pull"]))
    })
}

fn names_any(words: &[String], programs: &[&str]) -> bool {
    let mut words = words.iter().flat_map(|word| word.split_whitespace());
    words.any(|word| programs.contains(&Argument::literal(word).program().as_str()))
}

/// `true` if the words of a stage, or of one inside it, match.
fn any_stage(scripts: &[ShellScript], matches: &dyn Fn(&[String]) -> bool) -> bool {
    let stages = scripts.iter().flat_map(|script| &script.stages);
    stages.into_iter().any(|stage| {
        let words: Vec<String> = stage.words.iter().map(Word::written).collect();
        let subshell = stage.subshell.as_ref().map(std::slice::from_ref);
        matches(&words)
            || any_stage(&stage.nested, matches)
            || any_stage(subshell.unwrap_or_default(), matches)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_read_from_elsewhere_are_recognised() {
        for (command, expected) in [
            ("curl -s example.com", true),
            ("cat notes; (wget -qO- a.example | head)", true),
            ("echo $(gh issue view 3)", true),
            ("bash -c 'curl a.example'", true),
            ("pip install git+https://a.example/x", true),
            ("git pull --rebase", true),
            ("git status && git log", false),
            ("cat curling.txt", false),
            ("echo 'open", false),
        ] {
            assert_eq!(reads_from_elsewhere(command), expected, "{command}");
        }
    }
}
