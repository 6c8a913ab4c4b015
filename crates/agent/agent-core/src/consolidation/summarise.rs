//! Makes one summary: chooses a part that fits, asks the model, and checks what may be written.

use std::sync::PoisonError;

use nanobot_context::estimate_tokens;
use nanobot_memory::{Facts, loses_too_much};
use nanobot_provider::{CallAccount, CallContext, CallPurpose, ChatRequest, ToolChoice};
use nanobot_types::{Event, FinishReason, LlmResponse, SessionKey, TraceId, chain};

use super::Consolidator;
use super::notifier::MemoryProblem;
use super::origin::with_marks;
use super::pieces::TranscriptPiece;
use super::run::ConsolidationRun;
use super::save_memory::{self, Summary};
use super::state::{Flush, Rewrite};
use crate::subagent::job_of;

/// Estimated tokens of the instructions and the tool.
pub(super) const INSTRUCTIONS: usize = 600;
/// Maximum tokens of a summarisation request if the model's window is not limited.
const UNLIMITED: usize = 100_000;
/// Maximum number of times that a part is halved after a context overflow.
const OVERFLOWS: u32 = 4;
/// Maximum number of times that a summary is repeated because the facts changed meanwhile.
const MERGES: u32 = 1;

impl Consolidator {
    /// Summarises the beginning of `rest`, which may be about text of strangers before it. The error
    /// is the reason why that failed.
    pub(super) async fn summarise(
        &self,
        run: &mut ConsolidationRun<'_>,
        rest: &[TranscriptPiece],
        is_after_strangers: bool,
    ) -> Result<Flush, String> {
        let memory = self.context.memory();
        let mut facts = memory
            .facts(&run.scope)
            .await
            .map_err(|error| chain(&error))?;
        let (mut overflows, mut merges) = (0, 0);
        loop {
            let (shown, is_whole) = self.facts_to_send(run, &facts.text);
            let part = self.part(run, rest, estimate_tokens(shown), overflows);
            let Some(last) = part.last() else {
                return Err("there is nothing to summarise".to_owned());
            };
            let response = self
                .query_model(run, |choice| {
                    save_memory::request(shown, is_whole, part, choice)
                })
                .await?;
            if response.finish_reason == FinishReason::ContextOverflow && overflows < OVERFLOWS {
                overflows += 1;
                continue;
            }
            let summary = parse_summary(&response)?;
            let now = memory
                .facts(&run.scope)
                .await
                .map_err(|error| chain(&error))?;
            if now.revision != facts.revision && merges < MERGES {
                merges += 1;
                facts = now;
                continue;
            }
            let untrusted = part.iter().any(|piece| piece.untrusted);
            let rewrite = if now.revision == facts.revision {
                let text = summary.facts.trim();
                let text = with_marks(&facts.text, text, untrusted || is_after_strangers);
                self.rewrite(run, &facts, is_whole, &text).await
            } else {
                self.notify_once(run, &MemoryProblem::Changed).await;
                None
            };
            return Ok(Flush {
                at: last.at,
                history: with_time(summary.history, last),
                facts: rewrite,
                raw: false,
                untrusted,
                done: last.done,
            });
        }
    }

    /// Returns as much of the facts as the model can read and give back, and `true` if that is all
    /// of them.
    fn facts_to_send<'t>(&self, run: &ConsolidationRun<'_>, facts: &'t str) -> (&'t str, bool) {
        let budget = self.summary_budget(run.session).at_most(UNLIMITED);
        let limit = (budget / 4).min(self.settings().max_output / 4 * 3);
        let tokens = estimate_tokens(facts);
        if tokens <= limit {
            return (facts, true);
        }
        let limit_characters = facts.chars().count().saturating_mul(limit) / tokens;
        let end = facts
            .char_indices()
            .nth(limit_characters)
            .map_or(facts.len(), |(end, _)| end);
        (facts.get(..end).unwrap_or_default(), false)
    }

    /// Returns the tokens of messages that fit into one request beside `facts`.
    pub(super) fn part_limit(&self, session: &SessionKey, facts: usize) -> usize {
        let budget = self.summary_budget(session).at_most(UNLIMITED);
        (budget / 4 * 3)
            .saturating_sub(facts + INSTRUCTIONS)
            .max(budget / 5)
    }

    /// Returns as many pieces as fit into one request, at least one.
    fn part<'p>(
        &self,
        run: &ConsolidationRun<'_>,
        rest: &'p [TranscriptPiece],
        facts: usize,
        overflows: u32,
    ) -> &'p [TranscriptPiece] {
        let limit = self.part_limit(run.session, facts) >> overflows;
        let mut tokens = 0;
        let fits = |piece: &&TranscriptPiece| {
            tokens += estimate_tokens(&piece.text) + 1;
            tokens <= limit
        };
        let count = rest.iter().take_while(fits).count().max(1);
        rest.get(..count).unwrap_or(rest)
    }

    /// Asks the model, with a forced tool choice if the model supports that.
    async fn query_model(
        &self,
        run: &ConsolidationRun<'_>,
        request: impl Fn(ToolChoice) -> ChatRequest,
    ) -> Result<LlmResponse, String> {
        let model = self.model();
        let is_unforced = self
            .unforced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&model);
        if !is_unforced {
            let response = self.call(run, request(save_memory::forced())).await?;
            if response.finish_reason != FinishReason::Error || self.closing.is_cancelled() {
                return Ok(response);
            }
        }
        let response = self.call(run, request(ToolChoice::Auto)).await?;
        if !is_unforced && response.finish_reason != FinishReason::Error {
            tracing::debug!(%model, "the model does not support a forced tool choice");
            self.unforced
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(model);
        }
        Ok(response)
    }

    async fn call(
        &self,
        run: &ConsolidationRun<'_>,
        request: ChatRequest,
    ) -> Result<LlmResponse, String> {
        let trace = TraceId::from(format!("summary of {}", run.session));
        let context = CallContext {
            trace: trace.clone(),
            deltas: None,
            cancel: self.closing.child_token(),
            account: CallAccount {
                purpose: CallPurpose::Summary,
                session: Some(run.session.clone()),
                job: job_of(run.session),
                is_attended: false,
            },
        };
        let called = self.router.chat_with_failover(request, &context);
        let deadline = self.settings().deadline;
        let Ok(response) = tokio::time::timeout(deadline, called).await else {
            return Err(format!("no summary within {} s", deadline.as_secs()));
        };
        self.events.send(Event::ModelCalled {
            trace,
            provider: response.provider.clone(),
            model: response.model.clone(),
            usage: response.usage,
        });
        Ok(response)
    }

    /// Returns the new facts; `None` if they stay as they are.
    async fn rewrite(
        &self,
        run: &mut ConsolidationRun<'_>,
        facts: &Facts,
        is_whole: bool,
        text: &str,
    ) -> Option<Rewrite> {
        if !is_whole {
            self.notify_once(run, &MemoryProblem::TooLong).await;
            return None;
        }
        // Models return an empty text if they have nothing to add.
        if text.is_empty() || text == facts.text.trim() {
            return None;
        }
        if loses_too_much(&facts.text, text) {
            self.notify_once(run, &MemoryProblem::Loses).await;
            return None;
        }
        Some(Rewrite::new(format!("{text}\n"), facts.revision))
    }
}

/// Parses the summary in a response. The error is the reason why there is none.
fn parse_summary(response: &LlmResponse) -> Result<Summary, String> {
    match response.finish_reason {
        FinishReason::Error | FinishReason::ContextOverflow => {
            let content = response
                .content
                .as_deref()
                .unwrap_or("the model did not answer");
            Err(content
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(200)
                .collect())
        }
        _ => save_memory::read(response),
    }
}

/// Prefixes an entry with its time unless the model wrote one.
fn with_time(history: String, last: &TranscriptPiece) -> String {
    if history.starts_with("[20") {
        history
    } else {
        format!("[{}] {history}", last.at.format("%Y-%m-%d %H:%M"))
    }
}
