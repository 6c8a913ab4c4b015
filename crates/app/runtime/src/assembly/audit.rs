//! The audit log, `logs/audit.log`: one line of JSON per tool run.
//!
//! Decision: a line is written before the turn continues, so that a tool run is on record before
//! anything that follows from it. A full, broken or slow disk loses the line, never the turn.
//! Arguments are redacted and truncated. Of the output only the digest and the size are kept: the
//! session has the text.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_config::Config;
use nanobot_escape::visible_json;
use nanobot_redact::{Secrets, redacted, without_secrets};
use nanobot_tool::{ToolRun, ToolWatch};
use nanobot_types::{ChannelName, ChatId, Effect, Origin, SenderId, SessionKey, ToolName, TraceId};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::RuntimeError;
use crate::assembly::rotating_file::RotatingFile;

/// Maximum time that a turn waits for a line to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of one string among the arguments, in characters.
const TEXT_LIMIT: usize = 500;
/// Maximum length of all arguments, in characters.
const ARGUMENTS_LIMIT: usize = 4000;

/// Writes one line per tool run.
#[derive(Debug)]
pub(crate) struct AuditLog {
    file: Arc<Mutex<RotatingFile>>,
    /// Set while lines are lost. A failure is logged once, until a line is written again.
    is_failing: AtomicBool,
    secrets: Secrets,
}

impl AuditLog {
    /// Returns the audit log of a home. The file is opened with the first line.
    pub(crate) fn of(config: &Config, secrets: Secrets) -> Result<Self, RuntimeError> {
        let file = RotatingFile::new(
            config.paths().logs.join("audit.log"),
            config.section("logs")?,
        );
        Ok(Self {
            file: Arc::new(Mutex::new(file)),
            is_failing: AtomicBool::new(false),
            secrets,
        })
    }

    fn log_transition(&self, failure: Option<&(dyn std::error::Error + 'static)>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::error!(error, "tool runs are missing from the audit log");
            }
            None if was_failing => tracing::info!("the audit log works again"),
            _ => {}
        }
    }
}

#[async_trait]
impl ToolWatch for AuditLog {
    async fn ran(&self, run: ToolRun<'_>) {
        let (file, record, arguments) = (
            self.file.clone(),
            AuditRecord::of(&run),
            run.call.arguments.clone(),
        );
        let secrets = self.secrets.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let line = serde_json::to_string(&AuditRecord {
                arguments: redact_and_truncate(&arguments, &secrets),
                ..record
            })?;
            let line = visible_json(&line)
                + "
";
            file.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .append(line.as_bytes())
        });
        match tokio::time::timeout(WRITE_TIMEOUT, writing).await {
            Ok(Ok(Ok(()))) => self.log_transition(None),
            Ok(Ok(Err(error))) => self.log_transition(Some(&error)),
            Ok(Err(error)) => self.log_transition(Some(&error)),
            Err(timeout) => self.log_transition(Some(&timeout)),
        }
    }
}

/// A line of the log.
#[derive(Serialize)]
struct AuditRecord {
    time: String,
    session: SessionKey,
    trace: TraceId,
    channel: ChannelName,
    chat: ChatId,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<SenderId>,
    origin: Origin,
    tool: ToolName,
    /// `null` if the tool does not exist.
    effect: Option<Effect>,
    arguments: Value,
    success: bool,
    duration_ms: u64,
    output: OutputDigest,
}

/// Size and digest of a tool's output.
#[derive(Serialize)]
struct OutputDigest {
    bytes: usize,
    sha256: String,
}

impl AuditRecord {
    /// Returns the record without its arguments.
    fn of(run: &ToolRun<'_>) -> Self {
        let context = run.context;
        Self {
            time: chrono::Local::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, false),
            session: context.session.clone(),
            trace: context.trace.clone(),
            channel: context.channel.clone(),
            chat: context.chat_id.clone(),
            sender: context.sender.clone(),
            origin: context.origin.clone(),
            tool: run.call.name.clone(),
            effect: run.effect,
            arguments: Value::Null,
            success: run.result.success,
            duration_ms: u64::try_from(run.elapsed.as_millis()).unwrap_or(u64::MAX),
            output: OutputDigest {
                bytes: run.result.output.len(),
                sha256: digest(&run.result.output),
            },
        }
    }
}

/// Returns the SHA-256 as lower-case hexadecimal digits.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Redacts and truncates arguments. Arguments that are not JSON become a string.
fn redact_and_truncate(arguments: &str, secrets: &Secrets) -> Value {
    // Redact before truncating: half a secret is no longer recognised as one.
    let text = |plain: &str| truncate(&without_secrets(&secrets.redact(plain)), TEXT_LIMIT);
    let Ok(value) = serde_json::from_str::<Value>(arguments) else {
        return text(arguments).into();
    };
    let value = redacted(&secrets.redact_json(&value), &text);
    let whole = value.to_string();
    if whole.chars().count() > ARGUMENTS_LIMIT {
        truncate(&whole, ARGUMENTS_LIMIT).into()
    } else {
        value
    }
}

/// Truncates `text` to `limit` characters and appends its full length.
fn truncate(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => {
            format!(
                "{}… ({} characters)",
                text.get(..end).unwrap_or_default(),
                text.chars().count()
            )
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nanobot_tool::ToolContext;
    use nanobot_types::{ToolCall, ToolResult};
    use serde_json::json;

    use super::*;
    use crate::assembly::rotating_file::LogSettings;

    #[test]
    fn audited_arguments_are_redacted_and_truncated() {
        let secrets = Secrets::new(["open sesame".to_owned()]);
        let long = "x".repeat(600);
        let truncate = format!("{}… (600 characters)", "x".repeat(500));
        for (arguments, expected) in [
            (
                json!({"path": "a", "n": 3}).to_string(),
                json!({"path": "a", "n": 3}),
            ),
            (
                json!({"command": "curl -H 'Authorization: Bearer abc'", "token": "t"}).to_string(),
                json!({"command": "curl -H 'Authorization: Bearer ***'", "token": "***"}),
            ),
            (
                json!({"open sesame": "say open sesame"}).to_string(),
                json!({"***": "say ***"}),
            ),
            (
                json!({"content": long}).to_string(),
                json!({"content": truncate}),
            ),
            ("{\"apiKey\": \"abc".to_owned(), json!("{\"apiKey\": \"***")),
            (String::new(), json!("")),
        ] {
            assert_eq!(
                redact_and_truncate(&arguments, &secrets),
                expected,
                "{arguments}"
            );
        }
        let many: Vec<String> = (0..1000).map(|number| format!("word {number}")).collect();
        let Value::String(text) =
            redact_and_truncate(&json!({"words": many}).to_string(), &secrets)
        else {
            panic!("not cut")
        };
        assert!(
            text.chars().count() < ARGUMENTS_LIMIT + 40 && text.ends_with(" characters)"),
            "{text}"
        );
    }

    fn log_at(path: std::path::PathBuf) -> AuditLog {
        let file = RotatingFile::new(path, LogSettings::default());
        AuditLog {
            file: Arc::new(Mutex::new(file)),
            is_failing: AtomicBool::new(false),
            secrets: Secrets::new(["open sesame".to_owned()]),
        }
    }

    async fn run(log: &AuditLog) {
        let call = ToolCall::new("1", "exec", r#"{"command":"ls"}"#);
        let context = ToolContext {
            sender: Some("ann".into()),
            ..ToolContext::detached("cli:direct")
        };
        let (result, elapsed) = (ToolResult::ok("hi"), Duration::from_millis(7));
        let effect = Some(Effect::Irreversible);
        log.ran(ToolRun {
            call: &call,
            effect,
            context: &context,
            result: &result,
            elapsed,
        })
        .await;
    }

    #[tokio::test]
    async fn each_tool_run_is_one_audit_line() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("logs/audit.log");
        let log = log_at(path.clone());
        run(&log).await;
        run(&log).await;
        let text = std::fs::read_to_string(path).unwrap();
        let mut line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let time = line.as_object_mut().unwrap().remove("time").unwrap();
        assert!(
            chrono::DateTime::parse_from_rfc3339(time.as_str().unwrap()).is_ok(),
            "{time}"
        );
        let expected = json!({
            "session": "cli:direct", "trace": "detached", "channel": "cli", "chat": "direct", "sender": "ann",
            "origin": {"kind": "user"}, "tool": "exec", "effect": "irreversible", "arguments": {"command": "ls"},
            "success": true, "duration_ms": 7,
            "output": {"bytes": 2, "sha256": "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"},
        });
        assert_eq!((line, text.lines().count()), (expected, 2));
    }

    #[tokio::test]
    async fn unwritable_audit_log_recovers() {
        let home = tempfile::tempdir().unwrap();
        let blocked = home.path().join("logs");
        std::fs::write(&blocked, "in the way").unwrap();
        let log = log_at(blocked.join("audit.log"));
        run(&log).await;
        assert!(log.is_failing.load(Ordering::Relaxed));
        std::fs::remove_file(&blocked).unwrap();
        run(&log).await;
        assert!(!log.is_failing.load(Ordering::Relaxed));
        assert_eq!(
            std::fs::read_to_string(blocked.join("audit.log"))
                .unwrap()
                .lines()
                .count(),
            1
        );
    }
}
