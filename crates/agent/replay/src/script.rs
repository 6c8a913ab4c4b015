//! The script of a recorded turn: what the model, the tools and the people said.
//!
//! Decision: a recorded result is split into the tool's own output and what this program added to
//! it, as far as the text shows, so that the current code can add it again.

use std::collections::HashSet;

use nanobot_provider::StreamEvent;
use nanobot_session::{MessageEntry, TurnOutcome};
use nanobot_tool::{ERROR_HINT, resolve_call};
use nanobot_types::{
    AssistantMessage, CallId, ChatMessage, Effect, FinishReason, Severity, ToolName, ToolResult,
    ToolSource, ToolSpec,
};

use crate::turns::{RecordedTurn, without_files};
use nanobot_agent_core::TurnOptions;
use nanobot_agent_core::marks::{
    CUT, CUT_KEY, FATAL_NOTE, Truncation, UNKNOWN_OUTCOME, without_repetition_note,
};

/// An answer without visible text; such answers are not recorded.
const SILENCE: &str = "<think></think>";

/// A recorded turn as a script for model, tools and people.
#[derive(Debug)]
pub(crate) struct Script {
    answers: Vec<Vec<StreamEvent>>,
    /// The answer to model calls beyond the recorded ones; `None` if they fail.
    beyond: Option<Vec<StreamEvent>>,
    calls: Vec<RecordedCall>,
    /// Messages sent in the middle of the turn, each with the number of answers before it.
    steering: Vec<(usize, MessageEntry)>,
    /// Numbers of messages after which the turn was interrupted and later resumed.
    interruptions: Vec<usize>,
    /// Maximum number of characters of a result; `None` if the record does not show it.
    cut_at: Option<usize>,
    is_limited: bool,
}

#[derive(Debug)]
struct RecordedCall {
    id: CallId,
    name: ToolName,
    result: Option<String>,
}

impl Script {
    pub(crate) fn of(turn: &RecordedTurn<'_>) -> Self {
        let ended = turn.end.map(|end| end.outcome);
        let mut script = Self {
            answers: Vec::new(),
            beyond: None,
            calls: Vec::new(),
            steering: Vec::new(),
            interruptions: Vec::new(),
            cut_at: None,
            is_limited: ended == Some(TurnOutcome::Limited),
        };
        let can_go_on = turn
            .messages
            .get(turn.opening)
            .is_some_and(|entry| entry.inbound.is_some());
        let mut interrupted = false;
        for (number, entry) in turn.messages.iter().enumerate().skip(turn.opening + 1) {
            match &*entry.message {
                ChatMessage::Assistant(assistant) => {
                    interrupted = false;
                    script.answers.push(events(
                        assistant,
                        entry.extra.get(CUT_KEY).map(Truncation::of_stored),
                    ));
                    let calls = assistant.tool_calls.iter();
                    script.calls.extend(calls.map(|call| RecordedCall {
                        id: call.id.clone(),
                        name: resolve_call(call).name.clone(),
                        result: None,
                    }));
                }
                ChatMessage::Tool(result) => {
                    let text = entry.message.text();
                    if text == UNKNOWN_OUTCOME && can_go_on && !interrupted {
                        interrupted = true;
                        script.interruptions.push(number);
                    }
                    let call = script
                        .calls
                        .iter_mut()
                        .rev()
                        .find(|call| call.id == result.tool_call_id);
                    if let Some(call) = call.filter(|call| call.result.is_none()) {
                        call.result = Some(text);
                    }
                }
                ChatMessage::User(_) => script
                    .steering
                    .push((script.answers.len(), without_files(entry))),
                ChatMessage::System { .. } => {}
            }
        }
        let assistant = turn
            .end
            .and_then(|end| end.visible.as_deref())
            .unwrap_or_default();
        if matches!(ended, Some(TurnOutcome::Replied | TurnOutcome::Suppressed)) {
            let reason =
                Truncation::of_reply(assistant).map_or(FinishReason::Stop, Truncation::reason);
            script.beyond = Some(vec![
                StreamEvent::Text(SILENCE.to_owned()),
                StreamEvent::Finished(reason),
            ]);
        }
        script.cut_at = script.cut_at();
        script
    }

    /// Returns the answer of the model after `given` answers; `None` if the call fails.
    pub(crate) fn answer(&self, given: usize) -> Option<&Vec<StreamEvent>> {
        self.answers.get(given).or(self.beyond.as_ref())
    }

    pub(crate) fn steering(&self) -> &[(usize, MessageEntry)] {
        &self.steering
    }

    pub(crate) fn interruptions(&self) -> &[usize] {
        &self.interruptions
    }

    /// Returns the options with the limits that the recorded turn had.
    pub(crate) fn options(&self, options: &TurnOptions) -> TurnOptions {
        let answers = u32::try_from(self.answers.len()).unwrap_or(u32::MAX);
        TurnOptions {
            max_iterations: match self.is_limited {
                true => answers.max(1),
                false => options.max_iterations.max(answers.saturating_add(1)),
            },
            max_result_chars: self.cut_at.unwrap_or(usize::MAX),
            ..options.clone()
        }
    }

    /// Returns the tools of the recorded turn, each with `true` if its arguments are checked. These
    /// are `specs` without the tools that were not found then, plus a tool that accepts any
    /// arguments for each one that ran and no longer exists.
    pub(crate) fn tools(&self, specs: &[ToolSpec]) -> Vec<(ToolSpec, bool)> {
        let missing: HashSet<&ToolName> = self
            .calls
            .iter()
            .filter(|call| call.was_not_found())
            .map(|call| &call.name)
            .collect();
        let there = specs
            .iter()
            .filter(|spec| !missing.contains(&spec.name))
            .cloned();
        let mut tools: Vec<(ToolSpec, bool)> = there.map(|spec| (spec, true)).collect();
        for call in self
            .calls
            .iter()
            .filter(|call| !missing.contains(&call.name))
        {
            if tools.iter().any(|(spec, _)| spec.name == call.name) {
                continue;
            }
            let unknown = |other: &RecordedCall| {
                other.name == call.name && other.result.as_deref() == Some(UNKNOWN_OUTCOME)
            };
            let effect = if self.calls.iter().any(unknown) {
                Effect::Irreversible
            } else {
                Effect::Idempotent
            };
            let spec = ToolSpec {
                name: call.name.clone(),
                description: String::new(),
                parameters: serde_json::json!({"type": "object"}),
                effect,
                source: ToolSource::External,
            };
            tools.push((spec, false));
        }
        tools
    }

    /// Returns the tool's own result for the call at `position` in the turn, from 1.
    pub(crate) fn result(&self, position: u32, is_checked: bool) -> ToolResult {
        let call = usize::try_from(position)
            .ok()
            .and_then(|position| self.calls.get(position.checked_sub(1)?));
        let Some(text) = call.and_then(|call| call.result.as_deref()) else {
            return ToolResult::error("Error: the record has no result for this call");
        };
        if text == UNKNOWN_OUTCOME && !self.interruptions.is_empty() {
            return ToolResult::error("Error: the call ran again");
        }
        if is_checked && call.is_some_and(RecordedCall::was_refused) {
            return ToolResult::error("Error: the arguments are accepted now");
        }
        let text = without_repetition_note(text);
        if let (Some(whole), Some(limit)) = (text.strip_suffix(CUT), self.cut_at)
            && whole.chars().count() == limit
        {
            return ToolResult::ok(format!("{whole}…"));
        }
        if let Some(before) = text.strip_suffix(FATAL_NOTE) {
            return ToolResult {
                severity: Some(Severity::Fatal),
                ..ToolResult::ok(before)
            };
        }
        match text.strip_suffix(ERROR_HINT) {
            Some(error) if error.starts_with("Error") => ToolResult {
                severity: None,
                ..ToolResult::error(error)
            },
            _ => ToolResult::ok(text),
        }
    }

    /// Returns the length at which results were cut, if all cut results agree about it and no other
    /// is longer.
    fn cut_at(&self) -> Option<usize> {
        let results = || {
            self.calls
                .iter()
                .filter_map(|call| call.result.as_deref())
                .map(without_repetition_note)
        };
        let limit = results()
            .find_map(|text| text.strip_suffix(CUT))
            .map(|whole| whole.chars().count())?;
        let agrees = |text: &str| match text.strip_suffix(CUT) {
            Some(whole) => whole.chars().count() == limit,
            None => text.chars().count() <= limit,
        };
        results().all(agrees).then_some(limit)
    }
}

impl RecordedCall {
    /// Returns `true` if there was no such tool at the time.
    fn was_not_found(&self) -> bool {
        let expected = format!("Error: Tool '{}' not found.", self.name);
        self.result
            .as_deref()
            .is_some_and(|text| text.starts_with(&expected))
    }

    /// Returns `true` if the tool did not run because of its arguments.
    fn was_refused(&self) -> bool {
        self.result
            .as_deref()
            .is_some_and(|text| text.starts_with("Error: Invalid parameters for tool '"))
    }
}

/// Converts a recorded answer to the events of a model stream.
fn events(assistant: &AssistantMessage, cut: Option<Truncation>) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    events.extend(
        assistant
            .reasoning_content
            .clone()
            .map(StreamEvent::Reasoning),
    );
    events.extend(
        assistant
            .thinking_blocks
            .iter()
            .cloned()
            .map(StreamEvent::ThinkingBlock),
    );
    events.extend(
        assistant
            .content
            .as_ref()
            .map(|content| StreamEvent::Text(content.to_text())),
    );
    for (index, call) in assistant.tool_calls.iter().enumerate() {
        events.push(StreamEvent::ToolCall {
            index,
            id: Some(call.id.to_string()),
            name: Some(call.name.to_string()),
            arguments: call.arguments.clone(),
            extra: call.extra.clone(),
            function_extra: call.function_extra.clone(),
        });
    }
    events.push(StreamEvent::Finished(
        match (cut, assistant.tool_calls.is_empty()) {
            (Some(cut), _) => cut.reason(),
            (None, true) => FinishReason::Stop,
            (None, false) => FinishReason::ToolCalls,
        },
    ));
    events
}
