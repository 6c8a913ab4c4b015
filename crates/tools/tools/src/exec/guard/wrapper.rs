//! Finds the command inside a wrapper such as `env` or `sh -c`.

use super::Argument;
use crate::exec::shell::{PipelineStage, ShellScript, Word};

/// Keywords of the shell's grammar that may come before a command.
const KEYWORDS: [&str; 14] = [
    "!", "{", "}", "(", "do", "done", "then", "else", "elif", "if", "fi", "while", "until", "esac",
];

/// Words that begin a construct whose first stage is not a command.
const CONSTRUCTS: [&str; 4] = ["for", "select", "case", "in"];

/// Programs that run the command in their arguments: name, options that take a value as a separate
/// word, and number of operands before the command.
const WRAPPERS: [(&str, &[&str], usize); 27] = [
    ("command", &[], 0),
    ("builtin", &[], 0),
    ("exec", &["-a"], 0),
    ("nohup", &[], 0),
    ("setsid", &[], 0),
    ("time", &["-f", "-o"], 0),
    ("coproc", &[], 0),
    ("nice", &["-n", "--adjustment"], 0),
    ("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    ("chrt", &["-T", "-P", "-D"], 1),
    ("taskset", &[], 1),
    ("timeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    (
        "stdbuf",
        &["-i", "-o", "-e", "--input", "--output", "--error"],
        0,
    ),
    ("unbuffer", &[], 0),
    ("env", &["-u", "-C", "--unset", "--chdir"], 0),
    ("flock", &["-w", "-E", "--timeout"], 1),
    ("chroot", &[], 1),
    ("unshare", &[], 0),
    ("nsenter", &["-t"], 0),
    ("strace", &["-e", "-o", "-s", "-p"], 0),
    ("ltrace", &["-e", "-o", "-s", "-p"], 0),
    ("watch", &["-n", "--interval"], 0),
    ("busybox", &[], 0),
    ("toybox", &[], 0),
    ("parallel", &["-j"], 0),
    ("systemd-run", &["-p", "--unit"], 0),
    (
        "xargs",
        &["-I", "-n", "-P", "-L", "-d", "-E", "-s", "-a"],
        0,
    ),
];

pub(super) const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh"];
const DOWNLOADERS: [&str; 7] = ["curl", "wget", "aria2c", "fetch", "http", "https", "lynx"];

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
        "eval" => return Some(Wrapped::Text(joined(arguments))),
        "trap" => {
            return arguments
                .first()
                .map(|script| Wrapped::Text(script.text.clone()));
        }
        "command"
            if arguments
                .first()
                .is_some_and(|a| a.text == "-v" || a.text == "-V") =>
        {
            return None;
        }
        "find" => return after_exec(arguments).map(Wrapped::Command),
        "env" => {
            if let Some(text) = split_string(arguments) {
                return Some(Wrapped::Text(text));
            }
        }
        shell if SHELLS.contains(&shell) => return script_operand(arguments).map(Wrapped::Text),
        _ => {}
    }
    let (_, valued, operands) = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name)?;
    let inner = after_options(arguments, valued);
    let inner = inner.get(*operands..).unwrap_or_default();
    Some(Wrapped::Command(without_prelude(inner)))
}

fn joined(arguments: &[Argument]) -> String {
    arguments
        .iter()
        .map(|argument| argument.text.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Skips leading options and the values of those in `valued`.
fn after_options<'a>(mut arguments: &'a [Argument], valued: &[&str]) -> &'a [Argument] {
    while let Some((first, rest)) = arguments.split_first() {
        if first.text == "--" {
            return rest;
        }
        if !first.text.starts_with('-') {
            break;
        }
        let takes = valued.contains(&first.text.as_str());
        arguments = if takes {
            rest.get(1..).unwrap_or_default()
        } else {
            rest
        };
    }
    arguments
}

/// Returns the command of `find … -exec command`.
fn after_exec(arguments: &[Argument]) -> Option<&[Argument]> {
    let at = arguments
        .iter()
        .position(|a| matches!(a.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"))?;
    arguments.get(at + 1..)
}

/// Returns the command text of `env -S text`.
fn split_string(arguments: &[Argument]) -> Option<String> {
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        let text = first.text.as_str();
        if text == "-S" || text == "--split-string" {
            return Some(joined(after));
        }
        if let Some(glued) = text
            .strip_prefix("-S")
            .or_else(|| text.strip_prefix("--split-string="))
        {
            return Some(format!("{glued} {}", joined(after)));
        }
        rest = after;
    }
    None
}

/// Returns the script of `sh -c script`; the option may be combined with others (`-lc`).
fn script_operand(arguments: &[Argument]) -> Option<String> {
    let at = arguments.iter().position(|argument| {
        let text = argument.text.as_str();
        text.starts_with('-') && !text.starts_with("--") && text.contains('c')
    })?;
    arguments
        .get(at + 1..)?
        .iter()
        .find(|a| !a.text.starts_with('-'))
        .map(|a| a.text.clone())
}

/// `true` if a shell with these arguments reads its script from standard input.
pub(super) fn reads_script_from_input(arguments: &[Argument]) -> bool {
    const INPUTS: [&str; 3] = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
    let operand = arguments
        .iter()
        .find(|argument| !argument.text.starts_with('-'));
    let named = arguments
        .iter()
        .any(|a| a.text.starts_with('-') && !a.text.starts_with("--") && a.text.contains('s'));
    let input = operand.is_none_or(|operand| INPUTS.contains(&operand.text.as_str()));
    script_operand(arguments).is_none() && (named || input)
}

/// `true` if `stage` is a shell that reads its script from standard input.
pub(super) fn is_bare_shell(stage: &PipelineStage) -> bool {
    let words: Vec<Argument> = stage
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

/// `true` if `stage` downloads something.
pub(super) fn downloads(stage: &PipelineStage) -> bool {
    let named = |word: &Word| {
        let program = Argument::literal(word.written()).program();
        DOWNLOADERS.contains(&program.as_str())
    };
    stage.words.iter().any(named)
        || any_downloads(&stage.nested)
        || stage
            .subshell
            .as_ref()
            .is_some_and(|script| any_downloads(std::slice::from_ref(script)))
}

/// `true` if one of `scripts` downloads something.
pub(super) fn any_downloads(scripts: &[ShellScript]) -> bool {
    scripts
        .iter()
        .any(|script| script.stages.iter().any(downloads))
}
