//! `exec`: runs shell commands.
//!
//! The guard checks a command, which is then started in its own process group with a minimal
//! environment. Its output is bounded while it is read. The group is killed when the command ends,
//! times out or is stopped, so that it leaves no process running. A [`CommandRunner`] creates the
//! process: in a sandbox, unless the operator switched it off.

mod environment;
mod guard;
mod output;
mod process;
mod rule;
mod runner;
mod session;
mod session_tools;
mod shell;

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use nanobot_guard::{PathDenied, PathPolicy, UrlGuard};
use nanobot_tool::{CallReview, CallRisk, ToolContext};
use nanobot_types::{Effect, Severity, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use self::runner::{
    CommandRequest, CommandRunner, DirectRunner, PreparedCommand, SandboxRunner,
};
pub(crate) use self::session::CommandSessions;
use self::session::SessionCommand;
pub(crate) use self::session_tools::{ListExecSessions, WriteStdin};
use self::{
    guard::CommandGuard,
    output::RenderedOutput,
    process::{FinishedProcess, ProcessEnd},
};
use crate::{
    ToolsError,
    config::ExecConfig,
    operation::{Operation, answer, blocking},
};

/// Maximum timeout in seconds, unless the configuration sets no limit at all.
const MAX_TIMEOUT: u64 = 600;
/// Characters reserved in a result for the text around the output: truncation notes, the reason for
/// stopping, a hint.
const AROUND: usize = 200;

pub(crate) struct Exec {
    config: ExecConfig,
    policy: Arc<PathPolicy>,
    guard: Arc<CommandGuard>,
    runner: Arc<dyn CommandRunner>,
    sessions: Arc<CommandSessions>,
}

#[derive(Deserialize)]
pub(crate) struct ExecArguments {
    command: String,
    working_dir: Option<String>,
    timeout: Option<u64>,
    yield_time_ms: Option<u64>,
}

impl Exec {
    pub(crate) fn new(
        config: ExecConfig,
        policy: Arc<PathPolicy>,
        urls: Arc<UrlGuard>,
        runner: Arc<dyn CommandRunner>,
        sessions: Arc<CommandSessions>,
    ) -> Result<Self, ToolsError> {
        let guard = Arc::new(CommandGuard::new(&config, Arc::clone(&policy), urls)?);
        Ok(Self {
            config,
            policy,
            guard,
            runner,
            sessions,
        })
    }

    async fn execute(
        &self,
        arguments: &ExecArguments,
        context: &ToolContext,
    ) -> Result<ToolResult, String> {
        let policy = self
            .policy
            .within(context.session.as_str())
            .map_err(|denied| denied.to_string())?;
        let directory = directory(&policy, arguments.working_dir.as_deref())?;
        if let Err(refusal) = self.guard.check(&arguments.command, &directory).await? {
            return Err(format!("Command blocked by safety guard ({refusal})"));
        }
        let limit = self.limit(arguments);
        let request = CommandRequest {
            script: arguments.command.clone(),
            directory,
            environment: environment::minimal(&self.config),
            limit,
        };
        let runner = Arc::clone(&self.runner);
        let command = blocking(move || Ok(runner.command(&request)))
            .await?
            .map_err(|error| format!("cannot run commands: {error}"))?;
        let is_untrusted =
            self.runner.has_network() && guard::reads_from_elsewhere(&arguments.command);
        let untrusted = is_untrusted.then_some(Self::NAME);
        if let Some(milliseconds) = arguments.yield_time_ms {
            let command = SessionCommand {
                script: arguments.command.clone(),
                prepared: command,
                limit,
                untrusted,
            };
            let session = self.sessions.start(&context.session, command)?;
            let time = session_tools::wait(Some(milliseconds));
            return Ok(session_tools::report(&self.sessions, &session, time, context).await);
        }
        let finished = process::run(command.process, limit, &context.cancel)
            .await
            .map_err(|error| format!("cannot start the command: {error}"))?;
        drop(command.needs);
        let mut result = result(&finished, context.max_result_chars);
        if !result.success
            && let Some(hint) = self.runner.hint(&result.output)
        {
            result.output.push_str(&format!("\n[{hint}]"));
        }
        Ok(match untrusted {
            Some(origin) => result.from_strangers(origin),
            None => result,
        })
    }
}

impl Exec {
    /// Describes a command. One that the guard refuses is no risk: it does not run.
    async fn describe(&self, arguments: &ExecArguments, context: &ToolContext) -> CallReview {
        let policy = self.policy.within(context.session.as_str());
        let directory = policy
            .ok()
            .and_then(|policy| directory(&policy, arguments.working_dir.as_deref()).ok());
        let Some(directory) = directory else {
            return CallReview::default();
        };
        match self.guard.check(&arguments.command, &directory).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return CallReview::default(),
        }
        CallReview {
            risk: CallRisk::NeedsConsent("runs a command".to_owned()),
            destination: None,
            circumstances: format!(
                "in {}\nenvironment {}",
                directory.display(),
                digest(&environment::minimal(&self.config))
            ),
            rule: rule::rule_of(&arguments.command),
        }
    }

    /// Returns the time after which a command is killed. One that may go on after the call has no
    /// limit unless the call gives one.
    fn limit(&self, arguments: &ExecArguments) -> Option<Duration> {
        let default = match arguments.yield_time_ms {
            Some(_) => 0,
            None => self.config.timeout,
        };
        let seconds = arguments.timeout.map_or(default, |given| given.max(1));
        (seconds > 0).then(|| Duration::from_secs(seconds.min(MAX_TIMEOUT)))
    }
}

/// Returns the SHA-256 of an environment, in hexadecimal.
fn digest(environment: &[(OsString, OsString)]) -> String {
    let mut hash = Sha256::new();
    for text in environment.iter().flat_map(|(name, value)| [name, value]) {
        hash.update(text.as_encoded_bytes());
        // No name and no value contains it.
        hash.update([0]);
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the folder that a command starts in.
fn directory(policy: &PathPolicy, given: Option<&str>) -> Result<PathBuf, String> {
    let Some(given) = given.filter(|given| !given.is_empty()) else {
        let base = policy.base();
        // The workspace itself may be inside a secret path, which is closed to tools.
        return match policy.read(base) {
            Err(denied @ PathDenied::Secret { .. }) => Err(denied.to_string()),
            _ => Ok(base.to_owned()),
        };
    };
    let directory = policy.read(given).map_err(|denied| denied.to_string())?;
    if !directory.path().is_dir() {
        return Err(format!("working_dir is not a directory: {given}"));
    }
    Ok(directory.path().to_owned())
}

fn result(
    FinishedProcess {
        stdout,
        stderr,
        end,
    }: &FinishedProcess,
    max_chars: usize,
) -> ToolResult {
    let limit = output::LIMIT.min(max_chars.saturating_sub(AROUND));
    let stopped = |reason: String| {
        let RenderedOutput { text, whole } = output::render(stdout, stderr, None, limit);
        let before = if text.is_empty() {
            text
        } else {
            format!("\n\nOutput until then:\n{text}")
        };
        ToolResult {
            whole,
            ..ToolResult::error(format!("Error: {reason}{before}"))
        }
    };
    match end {
        ProcessEnd::Exited(code) => {
            let RenderedOutput { text, whole } = output::render(stdout, stderr, Some(*code), limit);
            let severity = (*code != 0).then_some(Severity::Warning);
            ToolResult {
                success: *code == 0,
                severity,
                whole,
                ..ToolResult::ok(text)
            }
        }
        ProcessEnd::TimedOut(limit) => stopped(format!(
            "Command timed out after {} seconds",
            limit.as_secs()
        )),
        ProcessEnd::Cancelled => stopped("Command was stopped".to_owned()),
    }
}

impl Operation for Exec {
    type Arguments = ExecArguments;
    const NAME: &'static str = "exec";
    const DESCRIPTION: &'static str = "Run a shell command. What it starts ends with it.";
    const EFFECT: Effect = Effect::Irreversible;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "working_dir": {"type": "string"},
                "timeout": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT, "description": "Seconds (default 60)"},
                "yield_time_ms": {"type": "integer", "description": "Then leave it running; write_stdin reads on"},
            },
            "required": ["command"],
        })
    }

    async fn review(&self, arguments: &Value, context: &ToolContext) -> CallReview {
        match ExecArguments::deserialize(arguments) {
            Ok(arguments) => self.describe(&arguments, context).await,
            // Such a call fails.
            Err(_) => CallReview::default(),
        }
    }

    async fn run(&self, arguments: ExecArguments, context: &ToolContext) -> ToolResult {
        self.execute(&arguments, context)
            .await
            .unwrap_or_else(|reason| answer(Err(reason)))
    }
}

/// `true` if `command` can be parsed.
pub(crate) fn is_readable(command: &str) -> bool {
    shell::parse(command).is_ok()
}
