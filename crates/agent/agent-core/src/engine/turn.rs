//! The loop of a turn.

use std::sync::Arc;

use nanobot_context::{estimate_tokens, estimate_tools};
use nanobot_provider::{CallContext, ChatRequest, ContextWindow, Generation, ToolChoice, TurnMemo};
use nanobot_session::{MessageEntry, SessionError, TurnOutcome};
use nanobot_tool::resolve_call;
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, Event, FinishReason, LlmResponse, ModelId, SessionKey,
    StreamId, ToolCall, ToolMessage, TraceId, Transcript, TurnActivity, Usage,
};

use super::call_step::{CallOutput, CallStep};
use super::conversation::Conversation;
use super::cut::{CUT_KEY, Truncation};
use super::hint::tool_hint;
use super::loop_guard::{LoopGuard, LoopVerdict, repetition_note};
use super::stream_tap::StreamTap;
use super::text_calls::split_calls;
use super::turn_engine::TurnEngine;
use super::untrusted::{mark_untrusted, untrusted_origin};
use super::visible::visible;
use super::{AnsweredRequest, EngineReport, TurnIo, TurnOptions, TurnProgress};
use crate::budget;
use crate::subagent::{account_of, is_subagent_session};
use crate::{Signal, TurnStep};

impl TurnEngine {
    /// Runs a turn to its end. `messages` is the conversation up to the message that began the turn
    /// or, after a crash, up to the last recorded step; `progress` counts what the turn did by
    /// then. Recorded results are reused. A pending call runs if that is safe, and otherwise gets a
    /// result that says so.
    ///
    /// # Errors
    /// Returns the journal's error. Everything that was done is recorded, except the one step that
    /// could not be recorded, which may be a call whose result is lost.
    pub async fn run<'a>(
        &'a self,
        messages: Vec<Arc<ChatMessage>>,
        progress: TurnProgress,
        trace: TraceId,
        options: &'a TurnOptions,
        io: TurnIo<'a>,
    ) -> Result<EngineReport, SessionError> {
        let fixed = estimate_tokens(&io.system) + estimate_tools(&io.tools);
        let mut turn = Turn {
            engine: self,
            conversation: Conversation::new(self, &io.facts.session, fixed, messages),
            trace,
            options,
            io,
            calls: progress.tool_calls,
            iterations: progress.model_calls,
            guard: LoopGuard::default(),
            memo: TurnMemo::default(),
            usage: Usage::default(),
            fallback: None,
            untrusted: progress.untrusted.clone(),
        };
        let pending = turn.number_calls(&progress.pending);
        if !pending.is_empty()
            && let Some(outcome) = turn.run_calls(&pending, true).await?
        {
            return Ok(outcome);
        }
        loop {
            if let Some(outcome) = turn.step().await? {
                return Ok(outcome);
            }
        }
    }
}

struct Turn<'a> {
    engine: &'a TurnEngine,
    conversation: Conversation<'a>,
    trace: TraceId,
    options: &'a TurnOptions,
    io: TurnIo<'a>,
    /// Number of calls recorded in this turn.
    calls: u32,
    iterations: u32,
    guard: LoopGuard,
    memo: TurnMemo,
    usage: Usage,
    /// The reason why another candidate than the preferred one answered last.
    fallback: Option<String>,
    /// Origin of the text by strangers that the turn read, if it did.
    untrusted: Option<String>,
}

impl<'a> Turn<'a> {
    /// Returns the pending calls of the last answer with their positions in the turn.
    fn number_calls(&self, pending: &[ToolCall]) -> Vec<(u32, ToolCall)> {
        let last_answer = self
            .conversation
            .messages()
            .iter()
            .rev()
            .find_map(|message| match &**message {
                ChatMessage::Assistant(assistant) => Some(&assistant.tool_calls),
                _ => None,
            });
        let Some(calls) = last_answer else {
            return Vec::new();
        };
        let first = self
            .calls
            .saturating_sub(u32::try_from(calls.len()).unwrap_or(u32::MAX))
            + 1;
        (first..)
            .zip(calls)
            .filter(|(_, call)| pending.contains(call))
            .map(|(place, call)| (place, call.clone()))
            .collect()
    }

    /// Makes one model call and runs the tools it asks for. Returns `Some` when the turn is over.
    async fn step(&mut self) -> Result<Option<EngineReport>, SessionError> {
        if self.io.cancel.is_cancelled() {
            return Ok(Some(self.end(TurnOutcome::Stopped, None)));
        }
        if self.iterations >= self.options.max_iterations {
            let notice = limit_notice(self.options.max_iterations, &self.io.facts.session);
            return Ok(Some(self.end(TurnOutcome::Limited, Some(notice))));
        }
        let steered = self.io.steering.take().await;
        self.record(steered).await?;
        self.iterations += 1;
        let stream = StreamId::from(format!("{}#{}", self.trace, self.iterations));
        self.io.journal.step_started(TurnStep::Model);
        let (response, stream) = self.call_model(stream).await;
        self.io.journal.step_started(TurnStep::Answer);
        if self.io.cancel.is_cancelled() {
            return Ok(Some(self.end(TurnOutcome::Stopped, None)));
        }
        match response.finish_reason {
            FinishReason::Error | FinishReason::ContextOverflow => {
                Ok(Some(self.end(TurnOutcome::Failed, response.content)))
            }
            FinishReason::ContentFilter => {
                let text = "The model's vendor withheld the answer (content filter). Rephrase the request.";
                Ok(Some(self.end(TurnOutcome::Failed, Some(text.to_owned()))))
            }
            _ if !response.tool_calls.is_empty() => self.run_answer(response, stream).await,
            _ => Ok(Some(self.finish(&response, stream))),
        }
    }

    /// Calls the model, and once more with a shorter conversation if the request does not fit.
    /// Returns the stream that showed the answer, if one did.
    async fn call_model(&mut self, stream: StreamId) -> (LlmResponse, Option<StreamId>) {
        let tap = Arc::new(StreamTap::new(
            self.io.observer.clone(),
            stream,
            &self.engine.secrets,
            self.options.parse_calls_from_text,
        ));
        let context = CallContext {
            trace: self.trace.clone(),
            deltas: Some(tap.clone()),
            cancel: self.io.cancel.clone(),
            account: account_of(self.io.facts),
        };
        self.fit().await;
        let router = &self.engine.router;
        let mut response = router
            .chat_with_failover(self.request().await, &context)
            .await;
        let is_too_long = response.finish_reason == FinishReason::ContextOverflow;
        if let Some(model) = response.model.clone().filter(|_| is_too_long)
            && self.shorten_for(&model).await
        {
            self.usage += response.usage.unwrap_or_default();
            response = router
                .chat_with_failover(self.request().await, &context)
                .await;
        }
        self.usage += response.usage.unwrap_or_default();
        self.fallback = tap.take_fallback();
        if !tap.tried_again() && response.provider.is_some() {
            self.conversation.calibrate(&response);
        }
        if let (Some(provider), Some(sent)) = (&response.provider, tap.take_sent()) {
            self.io.requests.answered(AnsweredRequest {
                sent: &sent,
                provider,
                messages: self.conversation.messages(),
                shortened: self.conversation.is_shortened(),
            });
        }
        self.engine.events.send(Event::ModelCalled {
            trace: self.trace.clone(),
            provider: response.provider.clone(),
            model: response.model.clone(),
            usage: response.usage,
        });
        if let Some(usage) = response.usage {
            let step = TurnActivity::ModelAnswered {
                input_tokens: usage.prompt_tokens,
                output_tokens: usage.completion_tokens,
            };
            self.io.observer.signal(Signal::Activity(step));
        }
        let calls_in_text = self.take_calls_from_text(&mut response);
        let streamed = tap.finish(!response.tool_calls.is_empty(), calls_in_text);
        let hidden = |text: String| self.engine.secrets.redact(&text).into_owned();
        response.content = response.content.map(hidden);
        response.reasoning_content = response.reasoning_content.map(hidden);
        (response, streamed)
    }

    /// Shortens the conversation to fit into the budget, and into the window with which the server of
    /// the preferred model runs it.
    async fn fit(&mut self) {
        if !self.options.compact_after_tools {
            return;
        }
        let served = self.engine.router.context_window(&self.io.model);
        let served = self.io.cancel.run_until_cancelled(served).await.flatten();
        self.fit_into(served);
    }

    fn fit_into(&mut self, served: Option<ContextWindow>) {
        let candidate = self.engine.router.preferred(&self.io.model);
        let limit = budget::in_served_window(self.options.token_budget, served, candidate);
        if let Some(room) = self.conversation.fit(limit) {
            tracing::info!(session = %self.io.facts.session, trace = %self.trace, room, "shortened the conversation to fit");
        }
    }

    /// Shortens the conversation after it was too long for `model`: by half, and into the window
    /// with which its server runs it. Returns `false` if that was not possible.
    async fn shorten_for(&mut self, model: &ModelId) -> bool {
        let is_shorter = self.conversation.halve(model);
        let served = self.engine.router.context_window_of(model);
        let served = self.io.cancel.run_until_cancelled(served).await.flatten();
        if served.is_some() {
            self.fit_into(served);
        }
        is_shorter
    }

    async fn request(&self) -> ChatRequest {
        let messages = self.conversation.messages().to_vec();
        let rendered = self
            .io
            .context
            .render(Transcript::repair(messages).transcript)
            .await;
        ChatRequest {
            // The router's candidate sets the name and the generation defaults.
            model: self.io.model.clone(),
            system: self.io.system.clone(),
            transcript: rendered.transcript,
            tools: self.io.tools.clone(),
            tool_choice: ToolChoice::Auto,
            generation: self.generation(),
            cache_key: Some(self.io.facts.session.to_string()),
            estimated_tokens: Some(self.conversation.tokens()),
            memo: self.memo.clone(),
        }
    }

    /// Returns the candidate's generation settings, with the turn's temperature if it has one.
    fn generation(&self) -> Generation {
        let Some(temperature) = self.options.temperature else {
            return Generation::default();
        };
        let own = self
            .engine
            .router
            .candidates()
            .next()
            .map(|candidate| candidate.generation.clone());
        Generation {
            temperature: Some(temperature),
            ..own.unwrap_or_default()
        }
    }

    /// Takes the calls out of the text of a complete answer without other calls, if that is on.
    /// Returns `true` if there are any.
    fn take_calls_from_text(&self, response: &mut LlmResponse) -> bool {
        let is_eligible = self.options.parse_calls_from_text
            && response.tool_calls.is_empty()
            && response.finish_reason == FinishReason::Stop;
        let Some(text) = response.content.as_deref().filter(|_| is_eligible) else {
            return false;
        };
        let id_prefix = format!("{}-{}", self.trace, self.iterations);
        let (remaining, calls) = split_calls(text, &self.io.tools, &id_prefix);
        if calls.is_empty() {
            return false;
        }
        response.content = Some(remaining);
        response.tool_calls = calls;
        response.finish_reason = FinishReason::ToolCalls;
        true
    }

    /// Records an answer that calls tools, then runs the calls.
    async fn run_answer(
        &mut self,
        response: LlmResponse,
        streamed: Option<StreamId>,
    ) -> Result<Option<EngineReport>, SessionError> {
        let message = response.to_message();
        let first = self.calls + 1;
        self.record(vec![MessageEntry::new(ChatMessage::Assistant(message))])
            .await?;
        self.calls += u32::try_from(response.tool_calls.len()).unwrap_or(u32::MAX);
        if let Some(text) = self.seen(&response) {
            self.io.observer.signal(Signal::Thought {
                text,
                stream: streamed,
            });
        }
        self.io.observer.signal(Signal::ToolHint(tool_hint(
            &response.tool_calls,
            &self.engine.secrets,
        )));
        let placed: Vec<(u32, ToolCall)> = (first..).zip(response.tool_calls).collect();
        self.run_calls(&placed, false).await
    }

    /// Runs calls and records each result as it arrives. `resumed` calls may have run before a
    /// crash.
    async fn run_calls(
        &mut self,
        calls: &[(u32, ToolCall)],
        resumed: bool,
    ) -> Result<Option<EngineReport>, SessionError> {
        self.io.journal.step_started(TurnStep::Tools);
        let untrusted = self.untrusted.clone();
        let step = self.call_step(resumed, untrusted.as_deref());
        if self.options.parallel_tool_exec && !resumed && step.all_pure(calls) {
            let outputs = step.run_beside(calls).await;
            for ((_, call), output) in calls.iter().zip(outputs) {
                let Some(output) = output else {
                    return Ok(Some(self.end(TurnOutcome::Stopped, None)));
                };
                if let Some(outcome) = self.take_result(call, output).await? {
                    return Ok(Some(outcome));
                }
            }
            return Ok(None);
        }
        for (place, call) in calls {
            if self.io.cancel.is_cancelled() {
                return Ok(Some(self.end(TurnOutcome::Stopped, None)));
            }
            // The result of an earlier call of this answer may be by strangers.
            let untrusted = self.untrusted.clone();
            let step = self.call_step(resumed, untrusted.as_deref());
            let Some(output) = step.run(*place, call).await else {
                return Ok(Some(self.end(TurnOutcome::Stopped, None)));
            };
            if let Some(outcome) = self.take_result(call, output).await? {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    fn call_step<'b>(&'b self, resumed: bool, untrusted: Option<&'b str>) -> CallStep<'b> {
        CallStep {
            registry: &self.engine.registry,
            events: &self.engine.events,
            observer: self.io.observer.clone(),
            results: &self.engine.results,
            received: &self.engine.received,
            secrets: &self.engine.secrets,
            approvals: self.engine.approvals.as_deref(),
            facts: self.io.facts,
            trace: self.trace.clone(),
            cancel: self.io.cancel.clone(),
            options: self.options,
            resumed,
            untrusted,
        }
    }

    async fn take_result(
        &mut self,
        call: &ToolCall,
        ran: CallOutput,
    ) -> Result<Option<EngineReport>, SessionError> {
        let CallOutput {
            text: mut output,
            media,
            is_fatal,
            untrusted,
        } = ran;
        let verdict = self.guard.observe(call, &output);
        if let LoopVerdict::Warn(count) = verdict {
            output.push_str(&repetition_note(count));
        }
        let why = is_fatal.then(|| fatal_notice(call, &output));
        let result = ToolMessage {
            tool_call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: Content::Text(output),
            media,
        };
        let mut entry = MessageEntry::new(ChatMessage::Tool(result));
        if let Some(origin) = untrusted {
            mark_untrusted(&origin, &mut entry.extra);
        }
        self.record(vec![entry]).await?;
        if why.is_some() {
            return Ok(Some(self.end(TurnOutcome::Limited, why)));
        }
        let LoopVerdict::End(count) = verdict else {
            return Ok(None);
        };
        let notice = format!(
            "I stopped: I called {} {count} times with the same arguments and got the same result each time. \
             Tell me what to try instead.",
            resolve_call(call).name
        );
        Ok(Some(self.end(TurnOutcome::Limited, Some(notice))))
    }

    /// Returns the visible part of an answer. Redacts once more, because removed thinking may have
    /// separated the parts of a secret.
    fn seen(&self, response: &LlmResponse) -> Option<String> {
        let text = response.content.as_deref().and_then(visible)?;
        Some(self.engine.secrets.redact(&text).into_owned())
    }

    fn finish(&self, response: &LlmResponse, stream: Option<StreamId>) -> EngineReport {
        let seen = self.seen(response);
        let cut = Truncation::of(&response.finish_reason);
        let last = seen.as_ref().map(|text| {
            let message = AssistantMessage {
                content: Some(Content::Text(text.clone())),
                ..response.to_message()
            };
            let mut entry = MessageEntry::new(ChatMessage::Assistant(message));
            if let Some(cut) = cut {
                entry.extra.insert(CUT_KEY.to_owned(), cut.name().into());
            }
            entry
        });
        let reply = match (seen, cut) {
            (Some(text), Some(cut)) => Some(format!("{text}\n\n{}", cut.note())),
            (None, Some(cut)) => Some(cut.note().to_owned()),
            (seen, None) => seen,
        };
        EngineReport {
            last,
            stream,
            ..self.end(TurnOutcome::Replied, reply)
        }
    }

    fn end(&self, outcome: TurnOutcome, reply: Option<String>) -> EngineReport {
        EngineReport {
            outcome,
            reply,
            last: None,
            stream: None,
            fallback: self.fallback.clone(),
            usage: self.usage,
            iterations: self.iterations,
            trace: self.trace.clone(),
        }
    }

    async fn record(&mut self, entries: Vec<MessageEntry>) -> Result<(), SessionError> {
        if entries.is_empty() {
            return Ok(());
        }
        let origin = entries.iter().rev().find_map(untrusted_origin);
        if let Some(origin) = origin {
            self.untrusted = Some(origin.to_owned());
        }
        let messages: Vec<Arc<ChatMessage>> = entries.iter().map(MessageEntry::sent).collect();
        self.io.journal.record(entries).await?;
        self.conversation.extend(messages);
        Ok(())
    }
}

/// Tells a person why a result ends the turn.
fn fatal_notice(call: &ToolCall, output: &str) -> String {
    let reason: String = output
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect();
    format!(
        "I stopped: {} says that it makes no sense to continue ({reason}).",
        resolve_call(call).name
    )
}

/// Names the setting of the limit; subagents have a limit of their own.
fn limit_notice(limit: u32, session: &SessionKey) -> String {
    let key = if is_subagent_session(session) {
        "maxSubagentIterations"
    } else {
        "maxToolIterations"
    };
    format!(
        "I reached the limit of {limit} model calls for one request without finishing. What is done so far is kept: \
         ask me to go on, or split the request into smaller steps (agents.defaults.{key} sets the limit)."
    )
}
