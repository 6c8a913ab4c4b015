//! The command guard: refuses obviously dangerous commands before they start.
//!
//! **This is advice to the model, not a security boundary.** A check of the text cannot be
//! complete: a variable, an interpreter or an encoded text bypasses it. The operating-system
//! sandbox of a [`CommandRunner`](super::CommandRunner) is the actual protection. The guard exists
//! so that honest mistakes end early, with a reason, and that a person is not asked about commands
//! that would fail.
//!
//! It parses the command like a shell, looks through wrappers (`env`, `timeout`, `sh -c`, `xargs`,
//! `find -exec`, substitutions), and checks each stage on its own, so that a harmless first command
//! hides nothing and no allow pattern covers a whole line. It checks programs against the
//! [rules](rules), paths against the [`PathPolicy`], and URLs against the [`UrlGuard`].

mod addresses;
mod argument;
mod effect;
mod files;
mod inspection;
mod rules;
mod wrapper;

use std::{fmt, path::Path, sync::Arc};

use nanobot_guard::{PathPolicy, UrlGuard};
use regex_lite::Regex;

pub(super) use self::wrapper::{SHELLS, WRAPPERS, reads_from_elsewhere};
use self::{argument::Argument, inspection::Inspection, rules::Rules};
use crate::{ToolsError, config::ExecConfig, operation::blocking};

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
    /// A built-in rule breaks this example, so no command is run.
    BrokenRule(&'static str),
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
            Self::BrokenRule(example) => write!(f, "a rule breaks its example {example}"),
        }
    }
}

/// Checks commands against the rules, the operator's patterns, the path policy and the URL guard.
#[derive(Debug)]
pub(super) struct CommandGuard {
    policy: Arc<PathPolicy>,
    /// The same policy, always confined, for removing directory trees.
    confined: PathPolicy,
    urls: Arc<UrlGuard>,
    /// The operator's patterns.
    deny: Vec<Regex>,
    allow: Vec<Regex>,
}

impl CommandGuard {
    pub(super) fn new(
        config: &ExecConfig,
        policy: Arc<PathPolicy>,
        urls: Arc<UrlGuard>,
    ) -> Result<Self, ToolsError> {
        Ok(Self {
            confined: policy.confined(),
            policy,
            urls,
            deny: compiled(&config.deny_patterns)?,
            allow: compiled(&config.allow_patterns)?,
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

    /// Applies the rules and the operator's patterns to a command. Returns `true` if the command
    /// matches an allow pattern or there are none. An allowed command is exempt from rules and deny
    /// patterns.
    fn patterns(&self, name: &str, arguments: &[Argument]) -> Result<bool, GuardRefusal> {
        let line = format!("{name} {}", effect::line(arguments));
        if self.allow.iter().any(|pattern| pattern.is_match(&line)) {
            return Ok(true);
        }
        let rules = Rules::built_in().map_err(GuardRefusal::BrokenRule)?;
        if let Some(reason) = rules.refusal(name, arguments) {
            return Err(GuardRefusal::Dangerous(reason.to_owned()));
        }
        match self.deny.iter().find(|pattern| pattern.is_match(&line)) {
            Some(pattern) => Err(GuardRefusal::Denied(pattern.as_str().to_owned())),
            None => Ok(self.allow.is_empty()),
        }
    }
}

/// Returns the operator's patterns, which ignore the case of letters.
fn compiled(patterns: &[String]) -> Result<Vec<Regex>, ToolsError> {
    let compile = |pattern: &String| {
        rules::ignoring_case(pattern).map_err(|source| ToolsError::Pattern {
            pattern: pattern.clone(),
            source,
        })
    };
    patterns.iter().map(compile).collect()
}
