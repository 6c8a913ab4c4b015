//! The audit log, `logs/audit.log`: one line of JSON per tool run, sent message, and decision about
//! access.
//!
//! Decision: a line is written before the turn continues, so that a tool run is on record before
//! anything that follows from it. A full, broken or slow disk loses the line, never the turn.
//! Arguments are redacted and truncated. Of outputs and messages only the digest and the size are
//! kept: the session has the text. The lines form a [chain](chain), so that a change is noticed.

mod chain;
#[cfg(test)]
mod tests;
mod verify;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_approvals::{ApprovalWatch, OpenQuestion};
use nanobot_channel::OutboundMessage;
use nanobot_channels::{ChannelWatch, Person};
use nanobot_config::Config;
use nanobot_redact::{Secrets, redacted, without_secrets};
use nanobot_tool::{ToolRun, ToolWatch};
use nanobot_types::{ChannelName, ChatId, Effect, Origin, SenderId, SessionKey, ToolName, TraceId};
use serde::Serialize;
use serde_json::Value;

use crate::RuntimeError;
use chain::{ChainedLog, digest, now};
pub use verify::{AuditReport, BrokenLine, audit_lines, verify_audit};

/// Maximum time that a turn waits for a line to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of one string among the arguments, in characters.
const TEXT_LIMIT: usize = 500;
/// Maximum length of all arguments, in characters.
const ARGUMENTS_LIMIT: usize = 4000;

/// Returns the path of the audit log of a home.
fn path(config: &Config) -> PathBuf {
    config.paths().logs.join("audit.log")
}

/// Writes one line per event.
#[derive(Debug)]
pub(crate) struct AuditLog {
    file: Arc<Mutex<ChainedLog>>,
    /// Set while lines are lost. A failure is logged once, until a line is written again.
    is_failing: AtomicBool,
    secrets: Secrets,
}

impl AuditLog {
    /// Returns the audit log of a home. The file is opened with the first line.
    pub(crate) fn of(config: &Config, secrets: Secrets) -> Result<Self, RuntimeError> {
        let file = ChainedLog::new(path(config), config.section("logs")?);
        Ok(Self {
            file: Arc::new(Mutex::new(file)),
            is_failing: AtomicBool::new(false),
            secrets,
        })
    }

    /// Writes a line. Waits for it, but not long.
    async fn write<T: Serialize>(&self, record: impl FnOnce() -> T + Send + 'static) {
        let file = self.file.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let record = record();
            file.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .append(&record)
        });
        match tokio::time::timeout(WRITE_TIMEOUT, writing).await {
            Ok(Ok(Ok(()))) => self.log_transition(None),
            Ok(Ok(Err(error))) => self.log_transition(Some(&error)),
            Ok(Err(error)) => self.log_transition(Some(&error)),
            Err(timeout) => self.log_transition(Some(&timeout)),
        }
    }

    /// Writes a line and waits for it, for callers that may block.
    fn write_blocking(&self, record: &impl Serialize) {
        let written = self
            .file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(record);
        match written {
            Ok(()) => self.log_transition(None),
            Err(error) => self.log_transition(Some(&error)),
        }
    }

    fn log_transition(&self, failure: Option<&(dyn std::error::Error + 'static)>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::error!(error, "events are missing from the audit log");
            }
            None if was_failing => tracing::info!("the audit log works again"),
            _ => {}
        }
    }
}

#[async_trait]
impl ToolWatch for AuditLog {
    async fn ran(&self, run: ToolRun<'_>) {
        let (record, arguments) = (AuditRecord::of(&run), run.call.arguments.clone());
        let secrets = self.secrets.clone();
        self.write(move || AuditRecord {
            arguments: redact_and_truncate(&arguments, &secrets),
            ..record
        })
        .await;
    }
}

#[async_trait]
impl ChannelWatch for AuditLog {
    async fn sent(&self, message: &OutboundMessage, problem: Option<&str>) {
        let outcome = problem
            .map(|problem| truncate(&without_secrets(&self.secrets.redact(problem)), TEXT_LIMIT));
        let record = SentRecord {
            time: now(),
            event: if problem.is_some() { "unsent" } else { "sent" },
            channel: message.channel.clone(),
            chat: message.chat_id.clone(),
            key: message.key.to_string(),
            outcome,
            content: OutputDigest::of(&message.content),
        };
        self.write(move || record).await;
    }

    async fn rejected(&self, channel: &ChannelName, chat: &ChatId, sender: &SenderId) {
        let record = RejectedRecord {
            time: now(),
            event: "rejected",
            channel: channel.clone(),
            chat: chat.clone(),
            sender: sender.clone(),
            by: "rules",
        };
        self.write(move || record).await;
    }
}

#[async_trait]
impl ApprovalWatch for AuditLog {
    async fn settled(&self, question: &OpenQuestion, outcome: &str, by: Option<&SenderId>) {
        let record = ApprovalRecord {
            time: now(),
            event: "approval",
            session: question.session.clone(),
            trace: question.trace.clone(),
            channel: question.address.channel.clone(),
            chat: question.address.chat_id.clone(),
            tool: question.tool.clone(),
            call: question.digest.clone(),
            outcome: outcome.to_owned(),
            by: by.cloned(),
        };
        self.write(move || record).await;
    }
}

/// The end of a question about a call.
#[derive(Serialize)]
struct ApprovalRecord {
    time: String,
    event: &'static str,
    session: SessionKey,
    trace: TraceId,
    channel: ChannelName,
    chat: ChatId,
    tool: ToolName,
    /// Digest of the call and its circumstances.
    call: String,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<SenderId>,
}

/// A message of a channel that is settled.
#[derive(Serialize)]
struct SentRecord {
    time: String,
    event: &'static str,
    channel: ChannelName,
    chat: ChatId,
    key: String,
    /// Why the message was not sent, or may not have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    content: OutputDigest,
}

#[derive(Serialize)]
struct RejectedRecord {
    time: String,
    event: &'static str,
    channel: ChannelName,
    chat: ChatId,
    sender: SenderId,
    by: &'static str,
}

/// A line of the log.
#[derive(Serialize)]
struct AuditRecord {
    time: String,
    event: &'static str,
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

/// A decision about a person's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessChange {
    /// A person with a code was approved.
    Approved,
    /// A code was withdrawn.
    Denied,
    /// An approval was revoked.
    Revoked,
}

impl AccessChange {
    fn event(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
        }
    }
}

/// Records a decision about access. `by` is the person who decided; `None` is the owner of the home.
/// Blocks. A failure is logged: the decision itself is already durable.
pub(crate) fn record_access(
    config: &Config,
    change: AccessChange,
    whose: &Person,
    by: Option<&Person>,
) {
    let person = |person: &Person| format!("{}:{}", person.channel, person.sender);
    let record = AccessRecord {
        time: now(),
        event: change.event(),
        channel: &whose.channel,
        sender: &whose.sender,
        by: by.map_or_else(|| "owner".to_owned(), person),
    };
    match AuditLog::of(config, Secrets::default()) {
        Ok(log) => log.write_blocking(&record),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "events are missing from the audit log");
        }
    }
}

#[derive(Serialize)]
struct AccessRecord<'a> {
    time: String,
    event: &'static str,
    channel: &'a ChannelName,
    sender: &'a SenderId,
    by: String,
}

/// Size and digest of a tool's output or of a message.
#[derive(Serialize)]
struct OutputDigest {
    bytes: usize,
    sha256: String,
}

impl OutputDigest {
    fn of(text: &str) -> Self {
        Self {
            bytes: text.len(),
            sha256: digest(text.as_bytes()),
        }
    }
}

impl AuditRecord {
    /// Returns the record without its arguments.
    fn of(run: &ToolRun<'_>) -> Self {
        let context = run.context;
        Self {
            time: now(),
            event: "tool",
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
            output: OutputDigest::of(&run.result.output),
        }
    }
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
