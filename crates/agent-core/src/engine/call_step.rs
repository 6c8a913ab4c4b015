//! Runs the calls of one answer and makes text of their results.

use std::time::Instant;

use futures_util::future::join_all;
use nanobot_bus::EventFeed;
use nanobot_redact::Secrets;
use nanobot_tool::{Registry, ToolContext};
use nanobot_types::{Effect, Event, ToolCall, ToolResult, TraceId};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::result_file::ResultFiles;
use super::{TurnFacts, TurnOptions};

/// The result of a call that may have run before a crash and must not run twice.
pub(crate) const UNKNOWN_OUTCOME: &str = "Error: outcome unknown after restart: inspect before repeating.";

/// What the calls of one answer are run with.
pub(super) struct CallStep<'a> {
    pub(super) registry: &'a Registry,
    pub(super) events: &'a EventFeed,
    pub(super) results: &'a ResultFiles,
    pub(super) secrets: &'a Secrets,
    pub(super) facts: &'a TurnFacts,
    pub(super) trace: TraceId,
    pub(super) cancel: CancellationToken,
    pub(super) options: &'a TurnOptions,
    /// The calls come from before a crash.
    pub(super) resumed: bool,
}

impl CallStep<'_> {
    /// Whether none of the calls changes anything.
    pub(super) fn all_pure(&self, calls: &[(u32, ToolCall)]) -> bool {
        calls.iter().all(|(_, call)| self.registry.effect(&call.name) == Some(Effect::Pure))
    }

    /// Runs all calls at the same time; the results stand in the order of the calls.
    pub(super) async fn run_beside(&self, calls: &[(u32, ToolCall)]) -> Vec<Option<String>> {
        join_all(calls.iter().map(|(place, call)| self.run(*place, call))).await
    }

    /// Runs one call; the text is what the model reads. `None` when the turn was cancelled before
    /// the call came to a result and it does no harm to run it again: a turn that goes on after a
    /// restart does so.
    pub(super) async fn run(&self, place: u32, call: &ToolCall) -> Option<String> {
        let effect = self.registry.effect(&call.name);
        if self.resumed && effect == Some(Effect::Irreversible) {
            return Some(UNKNOWN_OUTCOME.to_owned());
        }
        let started = Instant::now();
        let span = tracing::info_span!("tool", tool = %call.name);
        let result = self.registry.run(call, &self.context(place, call)).instrument(span).await;
        let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(trace = %self.trace, tool = %call.name, success = result.success, elapsed_ms, "tool finished");
        self.events.send(Event::ToolFinished {
            trace: self.trace.clone(),
            tool: call.name.clone(),
            success: result.success,
            elapsed_ms,
        });
        let may_run_again = matches!(effect, Some(Effect::Pure | Effect::Idempotent));
        if !result.success && may_run_again && self.cancel.is_cancelled() {
            return None;
        }
        Some(self.text_of(call, &result).await)
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
            cancel: self.cancel.clone(),
        }
    }

    async fn text_of(&self, call: &ToolCall, result: &ToolResult) -> String {
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
            return "(no output)".to_owned();
        }
        // Before it is cut, kept or recorded: half a secret is not found any more.
        let text = self.secrets.hide(&text).into_owned();
        self.results.shorten(call, text, self.options.max_result_chars).await
    }
}
