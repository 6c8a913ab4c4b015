//! Runs the tool calls of one answer and turns their results into text.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nanobot_approvals::Approvals;
use nanobot_bus::EventFeed;
use nanobot_redact::Secrets;
use nanobot_tool::{Registry, ToolContext, resolve_call};
use nanobot_types::{
    Effect, Event, MAX_ACTIVITY_OUTPUT, MediaRef, Severity, ToolCall, ToolResult, TraceId,
    TurnActivity, WholeText,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::hint::call_hint;
use super::permission::{Permission, Permits};
use super::received::ReceivedFiles;
use super::result_file::{ResultFiles, ShortResult};
use super::untrusted::imitates_conversation;
use super::{TurnFacts, TurnOptions};
use crate::{Observer, Signal};

/// Result of a call that may have run before a crash and must not run twice.
pub const UNKNOWN_OUTCOME: &str = "Error: outcome unknown after restart: inspect before repeating.";

/// Appended to a failed result that has `should_retry` set.
const RETRY_NOTE: &str = "\n\n[The same call may succeed later.]";
/// Appended to a result that ends the turn.
pub const FATAL_NOTE: &str = "\n\n[Going on makes no sense: the turn ends here.]";
/// Backoff before a call with `should_retry` is run once more.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A call that produced a result.
pub(super) struct CallOutput {
    /// The result as the model reads it.
    pub(super) text: String,
    /// Its pictures.
    pub(super) media: Vec<MediaRef>,
    /// `true` if the turn ends with it.
    pub(super) is_fatal: bool,
    /// Its origin, if strangers may have written it.
    pub(super) untrusted: Option<String>,
}

impl CallOutput {
    /// The result of a call that did not run.
    fn refused(text: String) -> Self {
        Self {
            text,
            media: Vec::new(),
            is_fatal: false,
            untrusted: None,
        }
    }
}

/// The whole of a result that was shown in part.
#[derive(Debug, Default)]
struct WholeResult {
    /// Its length; 0 if the result is no excerpt.
    bytes: usize,
    /// The file that keeps it.
    kept_in: Option<PathBuf>,
}

/// The context in which the calls of one answer run.
pub(super) struct CallStep<'a> {
    pub(super) registry: &'a Registry,
    pub(super) events: &'a EventFeed,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) results: &'a ResultFiles,
    pub(super) received: &'a ReceivedFiles,
    pub(super) secrets: &'a Secrets,
    pub(super) approvals: Option<&'a Approvals>,
    pub(super) facts: &'a TurnFacts,
    pub(super) trace: TraceId,
    pub(super) cancel: CancellationToken,
    pub(super) options: &'a TurnOptions,
    /// `true` if the calls come from before a crash.
    pub(super) resumed: bool,
    /// Origin of the text by strangers that the turn read, if it did.
    pub(super) untrusted: Option<&'a str>,
}

impl CallStep<'_> {
    fn permits(&self) -> Permits<'_> {
        Permits {
            approvals: self.approvals,
            registry: self.registry,
            facts: self.facts,
            trace: &self.trace,
            cancel: &self.cancel,
            untrusted: self.untrusted,
        }
    }

    /// Returns `true` if none of the calls has side effects.
    pub(super) fn all_pure(&self, calls: &[(u32, ToolCall)]) -> bool {
        calls
            .iter()
            .all(|(_, call)| self.registry.effect(call) == Some(Effect::Pure))
    }

    /// Runs all calls concurrently and returns the results in the order of the calls.
    pub(super) async fn run_beside(&self, calls: &[(u32, ToolCall)]) -> Vec<Option<CallOutput>> {
        join_all(calls.iter().map(|(place, call)| self.run(*place, call))).await
    }

    /// Runs one call, if it may run. A failed call with `should_retry` is retried once if it is safe
    /// to run again. Returns `None` if the turn was cancelled before a call that is safe to run again
    /// succeeded, or while a person was asked about a call: a turn that is resumed after a restart
    /// runs it again.
    pub(super) async fn run(&self, place: u32, call: &ToolCall) -> Option<CallOutput> {
        let call = &*resolve_call(call);
        let effect = self.registry.effect(call);
        if self.resumed
            && effect == Some(Effect::Irreversible)
            && !self.permits().was_waiting(place).await
        {
            return Some(CallOutput::refused(UNKNOWN_OUTCOME.to_owned()));
        }
        let mut context = self.context(place, call);
        match self.permits().before(call, &context).await {
            Permission::Runs(is_confirmed) => context.is_confirmed = is_confirmed,
            Permission::Refused(text) => return Some(self.refusal(call, &text)),
            Permission::Interrupted => return None,
        }
        let may_run_again = matches!(effect, Some(Effect::Pure | Effect::Idempotent));
        let started = Instant::now();
        let hint = call_hint(call, self.secrets);
        self.report(TurnActivity::ToolStarted { call: hint.clone() });
        let mut result = self.run_once(&context, call).await;
        let has_approvals = self.approvals.is_some();
        if result.requires_user_confirmation && !context.is_confirmed && has_approvals {
            let permits = self.permits();
            match permits.confirmed(call, &context, &result.output).await {
                Permission::Runs(_) => {
                    context.is_confirmed = true;
                    result = self.run_once(&context, call).await;
                }
                Permission::Refused(text) => result = ToolResult::error(text),
                Permission::Interrupted => return None,
            }
        }
        if result.should_retry && !result.success && may_run_again {
            let pause = tokio::time::sleep(RETRY_PAUSE);
            if self.cancel.run_until_cancelled(pause).await.is_some() {
                result = self.run_once(&context, call).await;
            }
        }
        let elapsed = started.elapsed();
        if !result.success && may_run_again && self.cancel.is_cancelled() {
            let whole = WholeResult::default();
            self.report(self.finished(hint, &result, elapsed, whole));
            return None;
        }
        let is_fatal = result.severity == Some(Severity::Fatal);
        let untrusted = result
            .untrusted
            .take()
            .or_else(|| self.origin_of(call, &result));
        let pictures = std::mem::take(&mut result.pictures);
        let media = self.results.keep_pictures(call, pictures).await;
        let whole = result.whole.take();
        let bytes = whole.as_ref().map_or(0, |whole| whole.text.len());
        let ShortResult { text, kept_in } = self.text_of(call, &result, whole).await;
        let whole = WholeResult { bytes, kept_in };
        self.report(self.finished(hint, &result, elapsed, whole));
        Some(CallOutput {
            text,
            media,
            is_fatal,
            untrusted,
        })
    }

    /// Returns the origin of a result whose tool trusts it, if strangers may have written it after
    /// all.
    fn origin_of(&self, call: &ToolCall, result: &ToolResult) -> Option<String> {
        let was_refused = !result.success && result.output.starts_with("Error: ");
        if !was_refused && self.results.are_by_strangers_in(&call.arguments) {
            return Some("a kept result".to_owned());
        }
        if !was_refused && self.received.are_shown_by(call, result, self.registry) {
            return Some("a file that somebody sent".to_owned());
        }
        imitates_conversation(&result.output)
            .then(|| format!("{}, a text that imitates a conversation", call.name))
    }

    /// Returns the result of a call that may not run.
    fn refusal(&self, call: &ToolCall, text: &str) -> CallOutput {
        let hint = call_hint(call, self.secrets);
        self.report(TurnActivity::ToolStarted { call: hint.clone() });
        let result = ToolResult::error(self.secrets.redact(text));
        self.report(self.finished(hint, &result, Duration::ZERO, WholeResult::default()));
        CallOutput::refused(result.output)
    }

    fn report(&self, step: TurnActivity) {
        self.observer.signal(Signal::Activity(step));
    }

    fn finished(
        &self,
        call: String,
        result: &ToolResult,
        elapsed: Duration,
        whole: WholeResult,
    ) -> TurnActivity {
        // Redact before cutting: half a secret would not be recognised.
        let output = self.secrets.redact(&result.output);
        let output_bytes = whole.bytes.max(output.len());
        let change = result.change.as_deref();
        TurnActivity::ToolFinished {
            call,
            success: result.success,
            elapsed_ms: milliseconds(elapsed),
            output: output.chars().take(MAX_ACTIVITY_OUTPUT).collect(),
            output_bytes: u64::try_from(output_bytes).unwrap_or(u64::MAX),
            kept_in: whole.kept_in.map(|file| file.display().to_string()),
            change: change.map(|change| self.secrets.redact(change).into_owned()),
        }
    }

    async fn run_once(&self, context: &ToolContext, call: &ToolCall) -> ToolResult {
        let started = Instant::now();
        let span = tracing::info_span!("tool", tool = %call.name);
        let result = self.registry.run(call, context).instrument(span).await;
        let elapsed_ms = milliseconds(started.elapsed());
        tracing::debug!(trace = %self.trace, tool = %call.name, success = result.success, elapsed_ms, "tool finished");
        self.events.send(Event::ToolFinished {
            trace: self.trace.clone(),
            tool: call.name.clone(),
            success: result.success,
            elapsed_ms,
        });
        result
    }

    fn context(&self, place: u32, call: &ToolCall) -> ToolContext {
        ToolContext {
            session: self.facts.session.clone(),
            trace: self.trace.clone(),
            call: call.id.clone(),
            position: place,
            channel: self.facts.channel.clone(),
            chat_id: self.facts.chat_id.clone(),
            message_id: self.facts.message_id.clone(),
            sender: self.facts.sender.clone(),
            delivery: self.facts.delivery.clone(),
            metadata: self.facts.metadata.clone(),
            origin: self.facts.origin.clone(),
            untrusted: self.untrusted.map(str::to_owned),
            is_confirmed: false,
            max_result_chars: self.options.max_result_chars,
            cancel: self.cancel.clone(),
        }
    }

    /// Redacts secrets and adjusts the number of characters shown.
    fn redacted(
        &self,
        WholeText {
            text,
            shown,
            is_complete,
        }: WholeText,
    ) -> WholeText {
        let before: String = text.chars().take(shown).collect();
        let shown = self.secrets.redact(&before).chars().count();
        WholeText {
            text: self.secrets.redact(&text).into_owned(),
            shown,
            is_complete,
        }
    }

    async fn text_of(
        &self,
        call: &ToolCall,
        result: &ToolResult,
        whole: Option<WholeText>,
    ) -> ShortResult {
        let mut text = String::new();
        if self.options.include_severity
            && let Some(severity) = result.severity
        {
            text.push_str(&format!("[{}] ", format!("{severity:?}").to_lowercase()));
        }
        text.push_str(&result.output);
        if let Some(remedy) = &result.remedy {
            text.push_str("\n\nWhat to try: ");
            text.push_str(remedy);
        }
        if text.trim().is_empty() {
            return "(no output)".to_owned().into();
        }
        // Redact before the text is cut, stored or recorded: half a secret would not be recognised.
        let text = self.secrets.redact(&text).into_owned();
        let limit = self.options.max_result_chars;
        let mut short = match whole {
            Some(whole) => {
                self.results
                    .shorten_excerpt(call, text, self.redacted(whole), limit)
                    .await
            }
            None => self.results.shorten(call, text, limit).await,
        };
        if result.severity == Some(Severity::Fatal) {
            short.text.push_str(FATAL_NOTE);
        } else if result.should_retry && !result.success {
            short.text.push_str(RETRY_NOTE);
        }
        short
    }
}

fn milliseconds(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}
