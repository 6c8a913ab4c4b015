//! Folds a stream of events into one response.
//!
//! Decision: a response exists only if the vendor reported that it is complete
//! ([`StreamEvent::Finished`]); everything else is [`Folded::Cut`]. Every call that leaves here
//! either has arguments that are the text of a JSON object, or is a [`ToolCall::malformed`], which
//! gets its reason as the result and never runs. The result does not depend on how the answer was
//! split into events.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use nanobot_types::{
    CallId, ChatMessage, FinishReason, LlmResponse, Map, ToolCall, Transcript, Usage,
};

use crate::{StreamEvent, arguments};

/// Maximum length of a tool name that vendors accept, in characters.
const NAME_LIMIT: usize = 64;

/// Placeholder name of a call without one.
const UNNAMED: &str = "unnamed_tool";

/// Collects the events of one answer.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    text: String,
    reasoning: String,
    thinking_blocks: Vec<serde_json::Value>,
    calls: BTreeMap<usize, PartialCall>,
    usage: Option<Usage>,
    finished: Option<FinishReason>,
    /// Ids that the calls of this answer must not have.
    taken: HashSet<String>,
}

/// The pieces of one call, merged so far.
#[derive(Clone, Debug, Default)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
    extra: Map,
    function_extra: Map,
}

/// Result of folding the events of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Folded {
    /// A complete answer; `provider` and `model` are not set yet.
    Whole(LlmResponse),
    /// The stream ended before the answer was complete.
    Cut {
        /// The text so far.
        text: String,
        /// Token counts so far.
        usage: Option<Usage>,
    },
}

impl Fold {
    /// Creates an empty fold.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty fold for an answer to this conversation. Its calls get ids that differ from
    /// those of earlier calls, because some vendors restart their numbering in each answer.
    #[must_use]
    pub fn answering(transcript: &Transcript) -> Self {
        let calls = transcript
            .messages()
            .iter()
            .flat_map(|message| match &**message {
                ChatMessage::Assistant(said) => said.tool_calls.as_slice(),
                _ => &[],
            });
        Self {
            taken: calls.map(|call| call.id.to_string()).collect(),
            ..Self::default()
        }
    }

    /// Adds the next event.
    pub fn push(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Text(piece) => self.text.push_str(&piece),
            StreamEvent::Reasoning(piece) => self.reasoning.push_str(&piece),
            StreamEvent::ThinkingBlock(block) => self.thinking_blocks.push(block),
            StreamEvent::ToolCall {
                index,
                id,
                name,
                arguments,
                extra,
                function_extra,
            } => {
                let call = self.calls.entry(index).or_default();
                if let Some(id) = id.filter(|id| !id.is_empty()) {
                    call.id = id;
                }
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    call.name = name;
                }
                call.arguments.push_str(&arguments);
                call.extra.extend(extra);
                call.function_extra.extend(function_extra);
            }
            StreamEvent::Usage(usage) => self.usage = Some(usage),
            StreamEvent::Finished(reason) => self.finished = Some(reason),
        }
    }

    /// Returns the visible text so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the token counts so far.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// `true` if the vendor reported that the answer is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished.is_some()
    }

    /// Ends the stream and returns the result.
    #[must_use]
    pub fn finish(self) -> Folded {
        let Some(reason) = self.finished else {
            return Folded::Cut {
                text: self.text,
                usage: self.usage,
            };
        };
        let tool_calls = match reason {
            FinishReason::Runaway => Vec::new(),
            _ => calls(self.calls.into_values(), self.taken, &reason),
        };
        let finish_reason = match reason {
            FinishReason::Stop if !tool_calls.is_empty() => FinishReason::ToolCalls,
            FinishReason::ToolCalls if tool_calls.is_empty() => FinishReason::Stop,
            other => other,
        };
        Folded::Whole(LlmResponse {
            content: Some(self.text).filter(|text| !text.is_empty()),
            tool_calls,
            finish_reason,
            usage: self.usage,
            reasoning_content: Some(self.reasoning).filter(|text| !text.is_empty()),
            thinking_blocks: self.thinking_blocks,
            ..LlmResponse::default()
        })
    }
}

fn calls(
    pieces: impl Iterator<Item = PartialCall>,
    mut taken: HashSet<String>,
    reason: &FinishReason,
) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    for pieces in pieces {
        let id = if pieces.id.is_empty() || taken.contains(&pieces.id) {
            generate_id(&taken)
        } else {
            pieces.id.clone()
        };
        taken.insert(id.clone());
        calls.push(call(pieces, id, reason));
    }
    calls
}

fn call(pieces: PartialCall, id: impl Into<CallId>, reason: &FinishReason) -> ToolCall {
    let name = sanitize_name(&pieces.name);
    let arguments = match reason {
        FinishReason::Length | FinishReason::Runaway => {
            Err("the answer reached its token limit inside this call".to_owned())
        }
        FinishReason::ContentFilter | FinishReason::Error | FinishReason::ContextOverflow => {
            Err("the vendor broke the answer off".to_owned())
        }
        FinishReason::Stop | FinishReason::ToolCalls if pieces.name.is_empty() => {
            Err("the call names no tool".to_owned())
        }
        FinishReason::Stop | FinishReason::ToolCalls => arguments::repair(&pieces.arguments),
    };
    let call = match arguments {
        Ok(arguments) => ToolCall::new(id, name, arguments),
        Err(why) => ToolCall::malformed(id, name, &pieces.arguments, &why),
    };
    ToolCall {
        extra: pieces.extra,
        function_extra: pieces.function_extra,
        ..call
    }
}

/// Sanitizes a tool name so that every vendor accepts it in the history: letters, digits, `_` and
/// `-`, at most 64 characters.
#[must_use]
pub fn sanitize_name(name: &str) -> String {
    if name.is_empty() {
        return UNNAMED.to_owned();
    }
    let sound = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    name.chars().take(NAME_LIMIT).map(sound).collect()
}

/// Generates an unused id of nine letters and digits, the form that the strictest vendor requires.
fn generate_id(taken: &HashSet<String>) -> String {
    loop {
        let mut number = RandomState::new().build_hasher().finish();
        let mut id = String::with_capacity(9);
        for _ in 0..9 {
            id.extend(
                u32::try_from(number % 36)
                    .ok()
                    .and_then(|digit| char::from_digit(digit, 36)),
            );
            number /= 36;
        }
        if !taken.contains(&id) {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(index: usize, id: Option<&str>, name: Option<&str>, arguments: &str) -> StreamEvent {
        StreamEvent::ToolCall {
            index,
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
            arguments: arguments.to_owned(),
            extra: Map::new(),
            function_extra: Map::new(),
        }
    }

    fn fold(events: impl IntoIterator<Item = StreamEvent>) -> Folded {
        let mut fold = Fold::new();
        for event in events {
            fold.push(event);
        }
        fold.finish()
    }

    fn whole(events: impl IntoIterator<Item = StreamEvent>) -> LlmResponse {
        match fold(events) {
            Folded::Whole(response) => response,
            cut @ Folded::Cut { .. } => panic!("{cut:?}"),
        }
    }

    #[test]
    fn stream_without_finish_reason_is_cut() {
        let usage = Usage {
            prompt_tokens: 3,
            ..Usage::default()
        };
        let events = [
            StreamEvent::Text("Hel".into()),
            StreamEvent::Usage(usage),
            piece(0, Some("1"), Some("x"), "{}"),
        ];
        assert_eq!(
            fold(events),
            Folded::Cut {
                text: "Hel".into(),
                usage: Some(usage)
            }
        );
    }

    #[test]
    fn assembles_calls_from_interleaved_pieces() {
        let response = whole([
            piece(0, Some("a"), Some("read_file"), ""),
            piece(1, Some("b"), Some("list_dir"), "{\"path\""),
            piece(0, None, None, "{\"path\":"),
            piece(1, None, Some(""), ":\".\"}"),
            piece(0, Some(""), None, "\"x\"}"),
            StreamEvent::Finished(FinishReason::Stop),
        ]);
        let expected = vec![
            ToolCall::new("a", "read_file", r#"{"path":"x"}"#),
            ToolCall::new("b", "list_dir", r#"{"path":"."}"#),
        ];
        assert_eq!(
            response,
            LlmResponse {
                tool_calls: expected,
                finish_reason: FinishReason::ToolCalls,
                ..LlmResponse::default()
            }
        );
    }

    #[test]
    fn tool_calls_reason_without_calls_becomes_stop() {
        let table = [
            (FinishReason::ToolCalls, FinishReason::Stop),
            (FinishReason::Length, FinishReason::Length),
            (FinishReason::ContentFilter, FinishReason::ContentFilter),
        ];
        for (said, expected) in table {
            assert_eq!(
                whole([StreamEvent::Finished(said.clone())]).finish_reason,
                expected,
                "{said:?}"
            );
        }
    }

    #[test]
    fn incomplete_calls_carry_their_problem() {
        let table = [
            (FinishReason::Length, "exec", "{}", "token limit"),
            (FinishReason::ContentFilter, "exec", "{}", "broke"),
            (FinishReason::ToolCalls, "", "{}", "no tool"),
            (FinishReason::ToolCalls, "exec", "{\"a\"", "cut off"),
            (FinishReason::ToolCalls, "exec", "[]", "a list"),
        ];
        for (reason, name, arguments, expected) in table {
            let response = whole([
                piece(0, Some("1"), Some(name), arguments),
                StreamEvent::Finished(reason),
            ]);
            let why = response.tool_calls[0].parsed_arguments().unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn missing_and_duplicate_call_ids_are_replaced() {
        let response = whole([
            piece(0, Some("c1"), Some("x"), ""),
            piece(1, Some("c1"), Some("x"), ""),
            piece(2, None, Some("x"), ""),
            StreamEvent::Finished(FinishReason::ToolCalls),
        ]);
        let ids: HashSet<&str> = response
            .tool_calls
            .iter()
            .map(|call| call.id.as_str())
            .collect();
        assert_eq!(ids.len(), 3);
        assert!(ids.contains("c1"));
        for id in ids.into_iter().filter(|id| *id != "c1") {
            assert!(
                id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()),
                "{id}"
            );
        }
    }

    #[test]
    fn call_ids_of_the_conversation_are_not_reused() {
        let said = nanobot_types::AssistantMessage {
            tool_calls: vec![ToolCall::new("call_0", "x", "{}")],
            ..nanobot_types::AssistantMessage::default()
        };
        let history =
            Transcript::repair([std::sync::Arc::new(ChatMessage::Assistant(said))]).transcript;
        let mut fold = Fold::answering(&history);
        fold.push(piece(0, Some("call_0"), Some("x"), ""));
        fold.push(StreamEvent::Finished(FinishReason::ToolCalls));
        let Folded::Whole(response) = fold.finish() else {
            panic!("cut")
        };
        assert_ne!(response.tool_calls[0].id.as_str(), "call_0");
    }

    #[test]
    fn tool_names_are_sanitized() {
        let long = "x".repeat(100);
        let table = [
            ("read_file", "read_file"),
            ("functions.exec", "functions_exec"),
            ("读", "_"),
            ("", UNNAMED),
        ];
        for (name, expected) in table {
            assert_eq!(sanitize_name(name), expected);
        }
        assert_eq!(sanitize_name(&long).len(), NAME_LIMIT);
    }
}
