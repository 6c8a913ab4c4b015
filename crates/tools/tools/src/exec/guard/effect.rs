//! Effects of a command on files, as far as its arguments show.

use std::fmt;

use super::Argument;

/// Effect of a command.
#[derive(Debug)]
pub(super) enum Effect {
    /// It writes this file.
    Writes(Argument),
    /// It removes this file.
    Removes(Argument),
    /// It removes this folder with everything in it.
    RemovesTree(Argument),
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writes(file) => write!(f, "writes {}", file.text),
            Self::Removes(file) => write!(f, "removes {}", file.text),
            Self::RemovesTree(folder) => write!(f, "removes all of {}", folder.text),
        }
    }
}

/// Returns the effects of the program `name` with these arguments.
pub(super) fn of(name: &str, arguments: &[Argument]) -> Vec<Effect> {
    let has = |short, long| arguments.iter().any(|a| is_flag(a, short, long));
    let operands = operands(arguments);
    match name {
        "tee" | "truncate" | "touch" | "mkdir" | "chmod" | "chown" | "chgrp" => writes(operands),
        // Without `-e` or `-f`, the first operand is the script.
        "sed" if has('i', "--in-place") => {
            let scripts = usize::from(!has('e', "--expression") && !has('f', "--file"));
            writes(operands.into_iter().skip(scripts))
        }
        "rm" if has('r', "--recursive") || has('R', "--recursive") => {
            operands.into_iter().map(Effect::RemovesTree).collect()
        }
        "rm" | "rmdir" | "unlink" | "shred" => operands.into_iter().map(Effect::Removes).collect(),
        "cp" | "install" | "ln" | "rsync" | "scp" | "mv" => transfer(name, arguments, operands),
        "find" => finds(arguments),
        _ => Vec::new(),
    }
}

fn writes(files: impl IntoIterator<Item = Argument>) -> Vec<Effect> {
    files.into_iter().map(Effect::Writes).collect()
}

/// Returns the effects of a copy or a move to the last operand or the value of `-t`, which may be a
/// folder.
fn transfer(name: &str, arguments: &[Argument], mut sources: Vec<Argument>) -> Vec<Effect> {
    let option = arguments.iter().position(|argument| argument.text == "-t");
    let target = match option.and_then(|at| arguments.get(at + 1)) {
        Some(target) => {
            sources.retain(|source| source != target);
            Some(target.clone())
        }
        None => sources.pop(),
    };
    let Some(target) = target else {
        return Vec::new();
    };
    let in_folder: Vec<_> = sources
        .iter()
        .map(|source| target.join(source.text.rsplit('/').next().unwrap_or_default()))
        .collect();
    let removed = sources.into_iter().filter(|_| name == "mv");
    let mut effects: Vec<_> = removed.map(Effect::Removes).collect();
    effects.push(Effect::Writes(target));
    effects.extend(writes(in_folder));
    effects
}

/// Returns the effects of a search below the folders that it starts from.
fn finds(arguments: &[Argument]) -> Vec<Effect> {
    let removes = |argument: &Argument| argument.text == "-delete" || argument.program() == "rm";
    let starts = arguments
        .iter()
        .skip_while(|argument| ["-H", "-L", "-P"].contains(&argument.text.as_str()))
        .take_while(|argument| !argument.text.starts_with(['-', '(', '!']))
        .filter(|_| arguments.iter().any(removes));
    starts
        .map(|start| Effect::RemovesTree(start.join("found")))
        .collect()
}

/// Joins arguments into a line.
pub(super) fn line(arguments: &[Argument]) -> String {
    let texts: Vec<_> = arguments.iter().map(|a| a.text.as_str()).collect();
    texts.join(" ")
}

/// Returns the arguments that are not options.
pub(super) fn operands(arguments: &[Argument]) -> Vec<Argument> {
    let mut options = true;
    let mut is_operand = |argument: &&Argument| {
        let is_option = options && argument.text.starts_with('-') && argument.text.len() > 1;
        options &= argument.text != "--";
        !is_option
    };
    arguments
        .iter()
        .filter(|argument| is_operand(argument))
        .cloned()
        .collect()
}

/// `true` if `argument` is the option `long`, possibly abbreviated or with a value, or contains
/// `short` among its short options.
fn is_flag(argument: &Argument, short: char, long: &str) -> bool {
    let text = argument.text.split('=').next().unwrap_or_default();
    match text.strip_prefix("--") {
        Some(rest) => !rest.is_empty() && long.starts_with(text),
        None => text.starts_with('-') && text.contains(short),
    }
}
