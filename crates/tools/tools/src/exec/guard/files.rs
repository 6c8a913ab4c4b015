//! Checks the paths in arguments.

use std::path::{Path, PathBuf};

use nanobot_guard::{PathDenied, ResolvedPath};

use super::{
    Argument, CommandGuard, GuardRefusal,
    argument::Variables,
    effect::{Effect, operands},
};
use crate::exec::shell::Word;

/// Device files that any command may use.
const HARMLESS_DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
];

/// Folders of installed programs. Naming a program there runs it and does not read the file.
const PROGRAM_FOLDERS: [&str; 5] = ["/bin", "/sbin", "/usr", "/opt", "/nix/store"];

/// Programs that print or ignore their arguments.
pub(super) const PRINTERS: [&str; 5] = ["echo", "printf", ":", "true", "false"];

/// Programs whose first operand is a pattern or a script.
const MATCHERS: [&str; 10] = [
    "grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "jq", "yq", "expr",
];

/// Checks paths against the policy, in the current directory of the shell.
pub(super) struct Files<'a> {
    guard: &'a CommandGuard,
    /// Current directory, as far as `cd` commands show.
    pub(super) directory: PathBuf,
}

impl<'a> Files<'a> {
    pub(super) const fn new(guard: &'a CommandGuard, directory: PathBuf) -> Self {
        Self { guard, directory }
    }

    /// Fills in the variables of a word.
    pub(super) fn expand(&self, word: &Word) -> Argument {
        let variables = Variables {
            home: self.guard.policy.home(),
            directory: &self.directory,
        };
        variables.expand(word)
    }

    /// Resolves `path` against the current directory.
    fn absolute(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    /// Checks everything that looks like a path among the words of a command.
    pub(super) fn check(
        &self,
        program: &Argument,
        name: &str,
        arguments: &[Argument],
    ) -> Result<(), GuardRefusal> {
        let installed = PROGRAM_FOLDERS
            .iter()
            .any(|folder| Path::new(&program.text).starts_with(folder));
        if program.text.contains('/') && !installed {
            self.may_read(program)?;
        }
        if PRINTERS.contains(&name) {
            return Ok(());
        }
        let mut pattern_ahead = MATCHERS.contains(&name);
        for argument in arguments {
            if pattern_ahead && !argument.text.starts_with('-') {
                pattern_ahead = false;
                continue;
            }
            self.argument_path(argument)?;
        }
        Ok(())
    }

    fn argument_path(&self, argument: &Argument) -> Result<(), GuardRefusal> {
        let text = argument.text.as_str();
        // `-C/path`, `-I../path`: the path follows the option directly.
        let option = if text.starts_with('-') {
            text.len()
                - text
                    .trim_start_matches(|c: char| c == '-' || c.is_ascii_alphanumeric())
                    .len()
        } else {
            0
        };
        let mut starts = vec![option];
        starts.extend(text.find('=').map(|at| at + 1));
        starts.extend(text.find('@').map(|at| at + 1));
        for candidate in starts.into_iter().map(|start| argument.from(start)) {
            if self.is_path(&candidate) {
                self.may_read(&candidate)?;
            }
        }
        Ok(())
    }

    /// `true` if the argument is a path: it exists, or it is written like one.
    fn is_path(&self, candidate: &Argument) -> bool {
        let text = candidate.text.as_str();
        let Some(place) = candidate.certain_path().filter(|place| !place.is_empty()) else {
            return false;
        };
        if text.contains("://") {
            return false;
        }
        let written = !text.contains(char::is_whitespace) && (text.contains('/') || text == "..");
        written || self.absolute(place).symlink_metadata().is_ok()
    }

    pub(super) fn may_read(&self, target: &Argument) -> Result<(), GuardRefusal> {
        let Some(place) = certain_place(target)? else {
            return Ok(());
        };
        match self.guard.policy.read(self.absolute(place)) {
            Err(PathDenied::Special { .. }) if !self.guard.policy.is_restricted() => Ok(()),
            // Text that only looks like an absolute path.
            Err(PathDenied::Outside { .. }) if is_nowhere(place) => Ok(()),
            verdict => refused(verdict),
        }
    }

    pub(super) fn may_write(&self, target: &Argument) -> Result<(), GuardRefusal> {
        match certain_place(target)? {
            Some(place) => refused(self.guard.policy.write(self.absolute(place))),
            None => Ok(()),
        }
    }

    pub(super) fn may_affect(&self, effect: &Effect) -> Result<(), GuardRefusal> {
        match effect {
            Effect::Writes(file) => self.may_write(file),
            Effect::Removes(file) => self.may_remove(file),
            Effect::RemovesTree(folder) => self.may_remove_tree(folder),
        }
    }

    fn may_remove(&self, target: &Argument) -> Result<(), GuardRefusal> {
        match target.certain_path().filter(|_| target.is_literal()) {
            Some(place) => refused(self.guard.policy.remove(self.absolute(place))),
            None => Ok(()),
        }
    }

    /// Checks the removal of a directory tree. It must be inside the workspace or another open
    /// root, whether tools are confined or not, and the path must be certain.
    fn may_remove_tree(&self, target: &Argument) -> Result<(), GuardRefusal> {
        let Some(place) = target.certain_path() else {
            let reason = format!(
                "recursive deletion of '{}', which only running would tell",
                target.text
            );
            return Err(GuardRefusal::Dangerous(reason));
        };
        refused(self.guard.confined.remove(self.absolute(place)))
    }

    /// Checks a change of directory, and follows it.
    pub(super) fn change_directory(&mut self, arguments: &[Argument]) -> Result<(), GuardRefusal> {
        let home = || self.guard.policy.home().unwrap_or(Path::new(""));
        let target = match operands(arguments).into_iter().next() {
            Some(target) => target,
            None => Argument::literal(home().to_string_lossy()),
        };
        self.may_read(&target)?;
        if target.is_literal() && !target.text.is_empty() {
            self.directory = self.absolute(&target.text);
        }
        Ok(())
    }
}

/// Returns the place that `target` is certainly in; `None` for one that is unknown, and for a device
/// that any command may use.
fn certain_place(target: &Argument) -> Result<Option<&str>, GuardRefusal> {
    let place = target.certain_path();
    if place.is_some_and(|p| p.starts_with("/dev/tcp/") || p.starts_with("/dev/udp/")) {
        let what = "a network device of the shell".to_owned();
        return Err(GuardRefusal::Dangerous(what));
    }
    let is_harmless =
        |place: &&str| HARMLESS_DEVICES.contains(place) || place.starts_with("/dev/fd/");
    Ok(place.filter(|place| !is_harmless(place)))
}

/// Turns a denial into a refusal. A path that cannot be resolved is left to the shell, which will
/// report it.
fn refused(verdict: Result<ResolvedPath, PathDenied>) -> Result<(), GuardRefusal> {
    match verdict {
        Ok(_) | Err(PathDenied::Unresolvable { .. } | PathDenied::Malformed) => Ok(()),
        Err(denied) => Err(GuardRefusal::Path(denied.to_string())),
    }
}

/// `true` if not even the first component of an absolute path exists.
fn is_nowhere(place: &str) -> bool {
    let mut components = Path::new(place).components();
    let root = components.next();
    let first = components.next();
    match (root, first) {
        (Some(root), Some(first)) => {
            let top = Path::new(&root).join(first);
            place.starts_with('/') && top.symlink_metadata().is_err()
        }
        _ => false,
    }
}
