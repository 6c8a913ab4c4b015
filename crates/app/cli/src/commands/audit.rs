//! `nanobot audit`: prints the audit log and checks its chain. Works next to a running gateway.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use nanobot_runtime::{AuditReport, RuntimeBuilder, audit_lines, verify_audit};
use serde_json::Value;

use crate::failure::CommandFailure;
use crate::output::{self, sanitize};

/// Arguments of `nanobot audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArguments {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// Print lines of JSON, for programs
    #[arg(long)]
    json: bool,
    /// Maximum number of lines; the newest are printed
    #[arg(long, value_name = "N", default_value_t = 50)]
    last: usize,
    /// Only lines of this session, such as `telegram:12345`
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Check that no line was changed, removed or reordered
    Verify,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the log cannot be read. A broken chain is exit code 1.
pub(crate) fn audit(
    program: &RuntimeBuilder,
    arguments: &AuditArguments,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    if let Some(AuditCommand::Verify) = &arguments.command {
        let report = verify_audit(config)?;
        output::write(&format_report(&report))?;
        return Ok(ExitCode::from(u8::from(report.broken.is_some())));
    }
    let mut lines = audit_lines(config)?;
    if let Some(session) = &arguments.session {
        lines.retain(|line| line.get("session").and_then(Value::as_str) == Some(session));
    }
    let newest = lines.split_off(lines.len().saturating_sub(arguments.last));
    if newest.is_empty() {
        output::note("The audit log has no such lines.");
    }
    for line in &newest {
        if arguments.json {
            let json = nanobot_escape::visible_json(&line.to_string());
            output::write_verbatim(&(json + "\n"))?;
        } else {
            output::line(&format_line(line))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn format_report(report: &AuditReport) -> String {
    let mut text = format!("{} lines are intact", report.intact);
    if report.unchained > 0 {
        text.push_str(&format!(
            "; {} lines of an earlier version before them are not part of the chain",
            report.unchained
        ));
    }
    text.push_str(".\n");
    if let Some(head) = &report.head {
        text.push_str(&format!("head {head}\n"));
    }
    if let Some(broken) = &report.broken {
        text.push_str(&format!(
            "BROKEN {}:{}: {}\n",
            broken.file.display(),
            broken.line,
            broken.reason
        ));
    }
    text
}

/// Formats a line for people: time, event, whose, details.
fn format_line(line: &Value) -> String {
    let text = |name: &str| match line.get(name) {
        Some(Value::String(text)) => sanitize(text),
        Some(Value::Null) | None => String::new(),
        Some(other) => sanitize(&other.to_string()),
    };
    if let Value::String(broken) = line {
        return format!("? {}", sanitize(broken));
    }
    let event = text("event");
    let details = match event.as_str() {
        "tool" | "" => {
            let outcome = match line.get("success") {
                Some(Value::Bool(false)) => "failed",
                _ => "ok",
            };
            format!(
                "{} {} {outcome} {} ms {}",
                text("session"),
                text("tool"),
                text("duration_ms"),
                text("arguments")
            )
        }
        "sent" | "unsent" => format!(
            "{}:{} {} {}",
            text("channel"),
            text("chat"),
            text("outcome"),
            text("content")
        ),
        "approved" | "denied" | "revoked" | "rejected" => {
            format!("{}:{} by {}", text("channel"), text("sender"), text("by"))
        }
        "approval" => {
            let by = match text("by") {
                none if none.is_empty() => none,
                by => format!(" by {by}"),
            };
            format!(
                "{} {} {}{by}",
                text("session"),
                text("tool"),
                text("outcome")
            )
        }
        _ => sanitize(&line.to_string()),
    };
    let event = if event.is_empty() { "tool" } else { &event };
    format!("{} {event:<8} {}", text("time"), details.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_readable_and_harmless() {
        let table = [
            (
                json!({"time": "T", "event": "tool", "session": "cli:direct", "tool": "exec", "success": false,
                       "duration_ms": 7, "arguments": {"command": "ls"}}),
                "T tool     cli:direct exec failed 7 ms {\"command\":\"ls\"}",
            ),
            (
                json!({"time": "T", "event": "approved", "channel": "telegram", "sender": "7", "by": "owner"}),
                "T approved telegram:7 by owner",
            ),
            (
                json!({"time": "T", "event": "approval", "session": "a", "tool": "exec", "outcome": "refused", "by": "7"}),
                "T approval a exec refused by 7",
            ),
            (
                json!({"time": "T", "event": "approval", "session": "a", "tool": "exec", "outcome": "no answer"}),
                "T approval a exec no answer",
            ),
            (
                json!({"time": "T", "tool": "exec\u{1b}[2J", "session": "a", "success": true, "duration_ms": 1}),
                "T tool     a exec[2J ok 1 ms",
            ),
            (json!("half"), "? half"),
        ];
        for (line, expected) in table {
            assert_eq!(format_line(&line), expected);
        }
    }
}
