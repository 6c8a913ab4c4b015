//! The command guard: refuses obviously dangerous commands before they start.
//!
//! **This is advice to the model, not a security boundary.** A check of the text cannot be
//! complete: a variable, an interpreter or an encoded text bypasses it. The operating-system
//! sandbox of a [`CommandRunner`](super::CommandRunner) is the actual protection. The guard exists
//! so that honest mistakes end early, with a reason.
//!
//! It parses the command like a shell, looks through wrappers (`env`, `timeout`, `sh -c`, `xargs`,
//! `find -exec`, substitutions), and checks each stage on its own, so that a harmless first command
//! hides nothing and no allow pattern covers a whole line. It checks names of dangerous programs,
//! paths against the [`PathPolicy`], and URLs against the [`UrlGuard`].

mod argument;
mod files;
mod patterns;
mod programs;
mod wrapper;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nanobot_guard::{PathPolicy, UrlGuard};

use self::{argument::Argument, patterns::Patterns};
use super::shell::{self, PipelineStage, ShellScript};
use crate::{ToolsError, config::ExecConfig, operation::blocking};

/// Maximum nesting of scripts within scripts (`sh -c "sh -c …"`).
const MAX_DEPTH: u32 = 16;

/// Reason why a command is not run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GuardRefusal {
    /// A built-in rule considers it harmful.
    Dangerous(String),
    /// A deny pattern of the operator matches.
    Denied(String),
    /// No allow pattern of the operator matches.
    NotAllowed(String),
    /// It accesses a path that is closed to tools.
    Path(String),
    /// It names a URL that may not be connected to.
    Address(String),
    /// It cannot be parsed.
    Unreadable(&'static str),
}

impl fmt::Display for GuardRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dangerous(what) => write!(f, "dangerous pattern detected: {what}"),
            Self::Denied(pattern) => write!(f, "deny pattern '{pattern}' matches"),
            Self::NotAllowed(stage) => write!(f, "not in allowlist: {stage}"),
            Self::Path(what) => write!(f, "path not allowed: {what}"),
            Self::Address(what) => write!(f, "internal or forbidden URL: {what}"),
            Self::Unreadable(why) => f.write_str(why),
        }
    }
}

/// Checks commands against patterns, the path policy and the URL guard.
#[derive(Debug)]
pub(super) struct CommandGuard {
    policy: Arc<PathPolicy>,
    /// The same policy, always confined, for removing directory trees.
    confined: PathPolicy,
    urls: Arc<UrlGuard>,
    patterns: Patterns,
}

impl CommandGuard {
    pub(super) fn new(
        config: &ExecConfig,
        policy: Arc<PathPolicy>,
        urls: Arc<UrlGuard>,
    ) -> Result<Self, ToolsError> {
        let patterns = Patterns::new(&config.deny_patterns, &config.allow_patterns)?;
        Ok(Self {
            confined: policy.confined(),
            policy,
            urls,
            patterns,
        })
    }

    /// Decides whether `command` may be started in `directory`. Returns `Ok(Err(refusal))` if not,
    /// and `Err` if the check itself was interrupted.
    pub(super) async fn check(
        self: &Arc<Self>,
        command: &str,
        directory: &Path,
    ) -> Result<Result<(), GuardRefusal>, String> {
        let (guard, command) = (Arc::clone(self), command.to_owned());
        let directory = directory.to_owned();
        let inspected = blocking(move || {
            let mut inspection = Inspection::new(&guard, directory);
            Ok(inspection.text(&command).map(|()| inspection.urls))
        });
        let urls = match inspected.await? {
            Ok(urls) => urls,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for url in urls {
            if let Err(denied) = self.urls.check(&url).await {
                return Ok(Err(GuardRefusal::Address(format!("{url}: {denied}"))));
            }
        }
        Ok(Ok(()))
    }
}

/// State of the inspection of one command.
struct Inspection<'a> {
    guard: &'a CommandGuard,
    /// Current directory of the shell, as far as `cd` commands show.
    directory: PathBuf,
    /// URLs to check once everything else has passed.
    urls: Vec<String>,
    depth: u32,
}

/// Context of a stage within its pipeline.
#[derive(Clone, Copy)]
struct PipelineContext<'a> {
    /// The input of the stage is the previous stage.
    piped: bool,
    /// An earlier stage of the pipeline downloads something.
    downloaded: bool,
    /// Scripts in its substitutions.
    nested: &'a [ShellScript],
}

impl<'a> Inspection<'a> {
    const fn new(guard: &'a CommandGuard, directory: PathBuf) -> Self {
        Self {
            guard,
            directory,
            urls: Vec::new(),
            depth: 0,
        }
    }

    /// Inspects a script given as text.
    fn text(&mut self, text: &str) -> Result<(), GuardRefusal> {
        if text.contains('\0') {
            return Err(GuardRefusal::Unreadable("the command contains a NUL byte"));
        }
        if self.depth > MAX_DEPTH {
            return Err(GuardRefusal::Unreadable("commands are nested too deeply"));
        }
        patterns::fork_bomb(text)?;
        let script = shell::parse(text).map_err(|shell::ParseError| {
            GuardRefusal::Unreadable("the command has an open quote or bracket")
        })?;
        self.depth += 1;
        self.script(&script)?;
        self.depth -= 1;
        Ok(())
    }

    fn script(&mut self, script: &ShellScript) -> Result<(), GuardRefusal> {
        let mut downloaded = false;
        for stage in &script.stages {
            downloaded &= stage.piped;
            self.stage(stage, downloaded)?;
            downloaded |= wrapper::downloads(stage);
        }
        if script.stages.iter().any(wrapper::is_bare_shell) {
            for document in &script.documents {
                self.text(document)?;
            }
        }
        Ok(())
    }

    fn stage(&mut self, stage: &PipelineStage, downloaded: bool) -> Result<(), GuardRefusal> {
        for nested in stage.nested.iter().chain(&stage.subshell) {
            // A subshell's change of directory ends with the subshell.
            let directory = self.directory.clone();
            self.script(nested)?;
            self.directory = directory;
        }
        for redirect in &stage.redirects {
            let target = self.expand(&redirect.target);
            if redirect.writes {
                self.may_write(&target)?;
            } else {
                self.may_read(&target)?;
            }
        }
        let arguments: Vec<Argument> = stage.words.iter().map(|word| self.expand(word)).collect();
        let surroundings = PipelineContext {
            piped: stage.piped,
            downloaded,
            nested: &stage.nested,
        };
        self.command(&arguments, surroundings)
    }

    /// Inspects a command with its arguments, and the commands that it wraps.
    fn command(
        &mut self,
        arguments: &[Argument],
        surroundings: PipelineContext<'_>,
    ) -> Result<(), GuardRefusal> {
        let mut arguments = wrapper::without_prelude(arguments);
        loop {
            let Some((program, rest)) = arguments.split_first() else {
                return Ok(());
            };
            let name = program.program();
            let allowed = self.guard.patterns.check(&name, rest)?;
            self.paths(program, &name, rest)?;
            self.program(&name, rest, surroundings)?;
            match wrapper::wrapped(&name, rest) {
                Some(wrapper::Wrapped::Command(inner)) if !inner.is_empty() => arguments = inner,
                Some(wrapper::Wrapped::Text(text)) => return self.text(&text),
                _ if allowed => return Ok(()),
                _ => return Err(GuardRefusal::NotAllowed(patterns::line(&name, rest))),
            }
        }
    }
}
