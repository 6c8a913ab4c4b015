//! `write_stdin` and `list_exec_sessions`: commands that go on after `exec` returned.

use std::{sync::Arc, time::Duration};

use nanobot_tool::ToolContext;
use nanobot_types::{Effect, Severity, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    output::{self, CapturedStream},
    process::ProcessEnd,
    session::{CommandSession, CommandSessions, SessionInfo},
};
use crate::operation::{Operation, answer};

/// Time to wait for output if none is given, in milliseconds.
const DEFAULT_WAIT: u64 = 1_000;
/// Maximum time to wait for output, in milliseconds.
pub(super) const MAX_WAIT: u64 = 300_000;
/// Characters of a command in a list.
const COMMAND_CHARS: usize = 200;

pub(crate) struct WriteStdin(Arc<CommandSessions>);

pub(crate) struct ListExecSessions(Arc<CommandSessions>);

#[derive(Deserialize)]
pub(crate) struct WriteArguments {
    session_id: u32,
    chars: Option<String>,
    yield_time_ms: Option<u64>,
    #[serde(default)]
    close_stdin: bool,
    #[serde(default)]
    terminate: bool,
}

#[derive(Deserialize)]
pub(crate) struct NoArguments {}

impl WriteStdin {
    pub(crate) fn new(sessions: Arc<CommandSessions>) -> Self {
        Self(sessions)
    }

    async fn execute(
        &self,
        arguments: WriteArguments,
        context: &ToolContext,
    ) -> Result<ToolResult, String> {
        let id = arguments.session_id;
        let Some(session) = self.0.find(&context.session, id) else {
            return Err(format!("there is no running command with session_id {id}"));
        };
        if let Some(text) = arguments.chars.filter(|text| !text.is_empty()) {
            session
                .write(&text)
                .await
                .map_err(|reason| format!("session {id}: {reason}"))?;
        }
        if arguments.close_stdin {
            session.close_input().await;
        }
        if arguments.terminate {
            session.terminate();
        }
        let time = wait(arguments.yield_time_ms);
        Ok(report(&self.0, &session, time, context).await)
    }
}

/// Returns the time to wait for output.
pub(super) fn wait(milliseconds: Option<u64>) -> Duration {
    Duration::from_millis(milliseconds.unwrap_or(DEFAULT_WAIT).min(MAX_WAIT))
}

/// Waits for output of a session and describes it.
pub(super) async fn report(
    sessions: &CommandSessions,
    session: &CommandSession,
    time: Duration,
    context: &ToolContext,
) -> ToolResult {
    let (text, end) = session.read(time, &context.cancel).await;
    let id = session.id;
    let state = match &end {
        None => format!("[Session {id} is still running; write_stdin reads on.]"),
        Some(ProcessEnd::Exited(code)) => format!("Exit code: {code}"),
        Some(ProcessEnd::TimedOut(limit)) => {
            format!(
                "[Session {id} was ended after {} seconds.]",
                limit.as_secs()
            )
        }
        Some(ProcessEnd::Cancelled) => format!("[Session {id} was ended.]"),
    };
    if end.is_some() {
        sessions.forget(id);
    }
    let limit = output::LIMIT.min(context.max_result_chars.saturating_sub(super::AROUND));
    let shown = output::render(
        &CapturedStream::of(&text),
        &CapturedStream::default(),
        None,
        limit,
    );
    let success = matches!(end, None | Some(ProcessEnd::Exited(0)));
    let result = ToolResult {
        success,
        severity: (!success).then_some(Severity::Warning),
        whole: shown.whole,
        ..ToolResult::ok(format!("{}\n{state}", shown.text))
    };
    match session.untrusted {
        Some(origin) => result.from_strangers(origin),
        None => result,
    }
}

impl Operation for WriteStdin {
    type Arguments = WriteArguments;
    const NAME: &'static str = "write_stdin";
    const DESCRIPTION: &'static str =
        "Read more output of a command that exec left running, send it input, or end it.";
    const EFFECT: Effect = Effect::Irreversible;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "session_id": {"type": "integer", "minimum": 0},
                "chars": {"type": "string", "description": "Input; with \\n to end a line"},
                "yield_time_ms": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT, "description": "Time to wait for its end (default 1000)"},
                "close_stdin": {"type": "boolean"},
                "terminate": {"type": "boolean"},
            },
            "required": ["session_id"],
        })
    }

    async fn run(&self, arguments: WriteArguments, context: &ToolContext) -> ToolResult {
        self.execute(arguments, context)
            .await
            .unwrap_or_else(|reason| answer(Err(reason)))
    }
}

impl ListExecSessions {
    pub(crate) fn new(sessions: Arc<CommandSessions>) -> Self {
        Self(sessions)
    }
}

impl Operation for ListExecSessions {
    type Arguments = NoArguments;
    const NAME: &'static str = "list_exec_sessions";
    const DESCRIPTION: &'static str = "List the commands of this conversation that are running.";
    const EFFECT: Effect = Effect::Pure;

    fn parameters() -> Value {
        json!({"type": "object", "properties": {}})
    }

    async fn run(&self, NoArguments {}: NoArguments, context: &ToolContext) -> ToolResult {
        let sessions = self.0.of(&context.session);
        if sessions.is_empty() {
            return ToolResult::ok("No command is running.");
        }
        let lines: Vec<String> = sessions.iter().map(line).collect();
        ToolResult::ok(lines.join("\n"))
    }
}

fn line(session: &SessionInfo) -> String {
    let state = match &session.end {
        None => "running".to_owned(),
        Some(ProcessEnd::Exited(code)) => format!("ended with {code}, not read yet"),
        Some(ProcessEnd::TimedOut(_) | ProcessEnd::Cancelled) => "ended, not read yet".to_owned(),
    };
    let command: String = session.command.chars().take(COMMAND_CHARS).collect();
    format!(
        "{}: {state}, started {} seconds ago: {command}",
        session.id,
        session.age.as_secs()
    )
}
