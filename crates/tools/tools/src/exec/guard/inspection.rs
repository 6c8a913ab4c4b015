//! Walks through a command: its scripts, stages, and the commands that others run.

use std::path::PathBuf;

use super::{
    Argument, CommandGuard, GuardRefusal, SHELLS, addresses, effect,
    files::{Files, PRINTERS},
    wrapper,
};
use crate::exec::shell::{self, PipelineStage, ShellScript};

/// Maximum nesting of scripts within scripts (`sh -c "sh -c …"`).
const MAX_DEPTH: u32 = 16;
/// Maximum number of functions that are compared with their own text.
const MAX_FUNCTIONS: usize = 100;

/// State of the inspection of one command.
pub(super) struct Inspection<'a> {
    guard: &'a CommandGuard,
    files: Files<'a>,
    /// URLs to check once everything else has passed.
    pub(super) urls: Vec<String>,
    depth: u32,
}

impl<'a> Inspection<'a> {
    pub(super) const fn new(guard: &'a CommandGuard, directory: PathBuf) -> Self {
        Self {
            guard,
            files: Files::new(guard, directory),
            urls: Vec::new(),
            depth: 0,
        }
    }

    /// Inspects a script given as text.
    pub(super) fn text(&mut self, text: &str) -> Result<(), GuardRefusal> {
        if text.contains('\0') {
            return Err(GuardRefusal::Unreadable("the command contains a NUL byte"));
        }
        if self.depth > MAX_DEPTH {
            return Err(GuardRefusal::Unreadable("commands are nested too deeply"));
        }
        let script = shell::parse(text).map_err(|shell::ParseError| {
            GuardRefusal::Unreadable("the command has an open quote or bracket")
        })?;
        if is_fork_bomb(text) {
            return Err(GuardRefusal::Dangerous("a fork bomb".to_owned()));
        }
        self.depth += 1;
        self.script(&script)?;
        self.depth -= 1;
        Ok(())
    }

    fn script(&mut self, script: &ShellScript) -> Result<(), GuardRefusal> {
        for stage in &script.stages {
            self.stage(stage)?;
        }
        if script.stages.iter().any(wrapper::is_bare_shell) {
            for document in &script.documents {
                self.text(document)?;
            }
        }
        Ok(())
    }

    fn stage(&mut self, stage: &PipelineStage) -> Result<(), GuardRefusal> {
        for nested in stage.nested.iter().chain(&stage.subshell) {
            // A subshell's change of directory ends with the subshell.
            let directory = self.files.directory.clone();
            self.script(nested)?;
            self.files.directory = directory;
        }
        for redirect in &stage.redirects {
            let target = self.files.expand(&redirect.target);
            if redirect.writes {
                self.files.may_write(&target)?;
            } else {
                self.files.may_read(&target)?;
            }
        }
        let arguments: Vec<Argument> = stage
            .words
            .iter()
            .map(|word| self.files.expand(word))
            .collect();
        self.command(&arguments, stage)
    }

    /// Inspects a command with its arguments, and the commands that it wraps.
    fn command(
        &mut self,
        arguments: &[Argument],
        stage: &PipelineStage,
    ) -> Result<(), GuardRefusal> {
        let mut arguments = wrapper::without_prelude(arguments);
        loop {
            let Some((program, rest)) = arguments.split_first() else {
                return Ok(());
            };
            let name = program.program();
            let is_allowed = self.guard.patterns(&name, rest)?;
            self.files.check(program, &name, rest)?;
            runs_unknown_script(&name, rest, stage)?;
            if !PRINTERS.contains(&&*name) {
                self.urls.extend(addresses::of(&name, rest));
            }
            for effect in effect::of(&name, rest) {
                self.files.may_affect(&effect)?;
            }
            if matches!(&*name, "cd" | "pushd") {
                self.files.change_directory(rest)?;
            }
            match wrapper::wrapped(&name, rest) {
                Some(wrapper::Wrapped::Command(inner)) if !inner.is_empty() => {
                    arguments = wrapper::without_prelude(inner);
                }
                Some(wrapper::Wrapped::Text(text)) => return self.text(&text),
                _ if is_allowed => return Ok(()),
                _ => {
                    let line = format!("{name} {}", effect::line(rest));
                    return Err(GuardRefusal::NotAllowed(line));
                }
            }
        }
    }
}

/// Refuses a shell that runs a script from a pipe, and anything that runs a download.
fn runs_unknown_script(
    name: &str,
    arguments: &[Argument],
    stage: &PipelineStage,
) -> Result<(), GuardRefusal> {
    let is_shell = SHELLS.contains(&name);
    let what = if (is_shell || ["eval", "source", "."].contains(&name))
        && wrapper::downloads(&stage.nested)
    {
        "running what was just downloaded"
    } else if is_shell && stage.piped && wrapper::reads_script_from_input(arguments) {
        "a shell that runs whatever a pipe delivers"
    } else {
        return Ok(());
    };
    Err(GuardRefusal::Dangerous(what.to_owned()))
}

/// `true` if one of the first functions pipes into itself.
fn is_fork_bomb(text: &str) -> bool {
    let squeezed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut functions = squeezed.match_indices("(){").take(MAX_FUNCTIONS);
    functions.any(|(at, _)| {
        let (before, body) = squeezed.split_at_checked(at).unwrap_or_default();
        let start = before
            .rfind([';', '&', '|', '}'])
            .map_or(0, |found| found + 1);
        let name = before.get(start..).unwrap_or_default();
        let name = name.strip_prefix("function").unwrap_or(name);
        !name.is_empty() && body.contains(&format!("{name}|{name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_bomb_is_detected_under_any_name_of_its_function() {
        for bomb in [
            ":(){ :|:& };:",
            "f () { f | f & } ; f",
            "function b(){ b|b; }; b",
        ] {
            assert!(is_fork_bomb(bomb), "{bomb}");
        }
        assert!(!is_fork_bomb("f() { echo hi | cat; }; f"));
    }
}
