//! Reads the objects of a response: chunks of a stream, or one whole message.
//!
//! Vendors differ in small ways: reasoning under two names, calls without an index or with a
//! repeated one, usage next to the choices or inside one, calls spread over several choices, an
//! error in the middle. All of these are read; unknown members are ignored.

use nanobot_provider::{ProviderError, StreamEvent};
use nanobot_types::{FinishReason, Map, Usage};
use serde_json::Value;

use crate::fault::ErrorClassifier;
use crate::render::bounded_id;

/// Maximum number of calls in one response. Each chunk of a call is searched for among them.
const CALL_LIMIT: usize = 256;

#[derive(Debug)]
pub(crate) struct ChunkReader {
    faults: ErrorClassifier,
    /// The calls so far.
    calls: Vec<KnownCall>,
    /// The choice that provides the text.
    text_choice: Option<u64>,
    finished: Option<FinishReason>,
    /// `true` if a whole message came instead of chunks.
    whole: bool,
    anything: bool,
}

#[derive(Debug)]
struct KnownCall {
    choice: u64,
    index: Option<u64>,
    id: String,
}

type Events = Vec<StreamEvent>;

impl ChunkReader {
    pub(crate) fn new(faults: ErrorClassifier) -> Self {
        Self {
            faults,
            calls: Vec::new(),
            text_choice: None,
            finished: None,
            whole: false,
            anything: false,
        }
    }

    /// Returns the stream events of the next object.
    pub(crate) fn read(&mut self, chunk: &Value) -> Result<Events, ProviderError> {
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.faults.of_object(chunk));
        }
        let mut events = Vec::new();
        for (position, choice) in list(chunk.get("choices")).iter().enumerate() {
            let position = u64::try_from(position).unwrap_or(u64::MAX);
            let number = choice
                .get("index")
                .and_then(Value::as_u64)
                .unwrap_or(position);
            self.choice(number, choice, &mut events)?;
            events.extend(choice.get("usage").and_then(usage).map(StreamEvent::Usage));
        }
        events.extend(chunk.get("usage").and_then(usage).map(StreamEvent::Usage));
        Ok(events)
    }

    /// Returns the last event, at the end of the stream. `done` is `true` if the vendor sent
    /// `[DONE]`.
    pub(crate) fn end(&mut self, done: bool) -> Result<Option<StreamEvent>, ProviderError> {
        let finished = self.finished.take();
        let finished = finished
            .or_else(|| (self.anything && (done || self.whole)).then_some(FinishReason::Stop));
        if finished.is_none() && !self.anything {
            return Err(ProviderError::Malformed(
                "the answer holds no message".to_owned(),
            ));
        }
        Ok(finished.map(StreamEvent::Finished))
    }

    fn choice(
        &mut self,
        number: u64,
        choice: &Value,
        events: &mut Events,
    ) -> Result<(), ProviderError> {
        if choice.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.faults.of_object(choice));
        }
        let message = choice.get("message").filter(|message| message.is_object());
        self.whole |= message.is_some();
        let is_whole = message.is_some();
        if let Some(piece) = message.or_else(|| choice.get("delta")) {
            self.anything = true;
            self.text(number, piece, events);
            for (position, call) in list(piece.get("tool_calls")).iter().enumerate() {
                if self.calls.len() > CALL_LIMIT {
                    return Err(ProviderError::Malformed(format!(
                        "the answer holds more than {CALL_LIMIT} calls"
                    )));
                }
                events.push(self.call(number, if is_whole { None } else { Some(position) }, call));
            }
            let blocks = list(piece.get("thinking_blocks")).iter().cloned();
            events.extend(blocks.map(StreamEvent::ThinkingBlock));
        }
        let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) else {
            return Ok(());
        };
        let reason = finish_reason(reason)?;
        // Of several choices, the one with the calls decides the finish reason.
        let has_calls = self.calls.iter().any(|call| call.choice == number);
        if self.finished.is_none() || has_calls {
            self.finished = Some(reason);
        }
        Ok(())
    }

    fn text(&mut self, number: u64, piece: &Value, events: &mut Events) {
        for member in ["reasoning_content", "reasoning"] {
            if let Some(text) = piece
                .get(member)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
            {
                events.push(StreamEvent::Reasoning(text.to_owned()));
                break;
            }
        }
        let mut texts = Vec::new();
        for member in ["content", "refusal"] {
            match piece.get(member) {
                Some(Value::String(text)) => texts.push(StreamEvent::Text(text.clone())),
                Some(Value::Array(parts)) => texts.extend(parts.iter().filter_map(content_part)),
                _ => {}
            }
        }
        texts.retain(|event| !matches!(event, StreamEvent::Text(text) if text.is_empty()));
        if !texts.is_empty() && *self.text_choice.get_or_insert(number) == number {
            events.extend(texts);
        }
    }

    /// Returns the event for a chunk of a call. `position` is its place among the calls of this
    /// chunk; `None` for the calls of a whole message, each of which is complete.
    fn call(&mut self, choice: u64, position: Option<usize>, call: &Value) -> StreamEvent {
        let text = |value: Option<&Value>| {
            value
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let id = text(call.get("id")).map(|id| bounded_id(&id).into_owned());
        let function = call.get("function").unwrap_or(&Value::Null);
        let name = text(function.get("name"));
        let index = position.and_then(|_| call.get("index").and_then(Value::as_u64));
        let known =
            position.and_then(|_| self.find_call(choice, index, id.as_deref(), name.is_some()));
        let index = known.unwrap_or_else(|| {
            self.calls.push(KnownCall {
                choice,
                index,
                id: id.clone().unwrap_or_default(),
            });
            self.calls.len() - 1
        });
        StreamEvent::ToolCall {
            index,
            id,
            name,
            arguments: match function.get("arguments") {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(piece)) => piece.clone(),
                Some(object) => object.to_string(),
            },
            extra: other_members(call, &["id", "type", "index", "function"]),
            function_extra: other_members(function, &["name", "arguments"]),
        }
    }

    /// Returns the call that a chunk continues. A new name under a new id begins a new call even if
    /// the index is the same.
    fn find_call(
        &self,
        choice: u64,
        index: Option<u64>,
        id: Option<&str>,
        named: bool,
    ) -> Option<usize> {
        let position = self.calls.iter().rposition(|call| match (index, id) {
            _ if call.choice != choice => false,
            (Some(index), _) => call.index == Some(index),
            (None, Some(id)) => call.id == id,
            (None, None) => !named,
        })?;
        let known = self.calls.get(position)?;
        let is_other = named && id.is_some_and(|id| !known.id.is_empty() && id != known.id);
        (!is_other).then_some(position)
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn content_part(part: &Value) -> Option<StreamEvent> {
    let text = |value: &Value| value.get("text").and_then(Value::as_str).map(str::to_owned);
    match part.get("type")?.as_str()? {
        "text" | "output_text" => text(part).map(StreamEvent::Text),
        "thinking" => {
            let thought: String = list(part.get("thinking")).iter().filter_map(text).collect();
            Some(StreamEvent::Reasoning(thought))
        }
        _ => None,
    }
}

fn other_members(value: &Value, known: &[&str]) -> Map {
    let members = value.as_object().into_iter().flatten();
    let others =
        members.filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null());
    others
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn finish_reason(reason: &str) -> Result<FinishReason, ProviderError> {
    Ok(match reason {
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "length" | "max_tokens" | "model_length" | "MAX_TOKENS" => FinishReason::Length,
        "content_filter" | "safety" | "SAFETY" | "refusal" | "sensitive" | "RECITATION" => {
            FinishReason::ContentFilter
        }
        "error" | "network_error" | "insufficient_system_resource" => {
            return Err(ProviderError::Server {
                retry_after: None,
                status: 200,
                message: format!("the answer ended with {reason}"),
            });
        }
        _ => FinishReason::Stop,
    })
}

fn usage(value: &Value) -> Option<Usage> {
    let count = |paths: &[&str]| paths.iter().find_map(|path| value.pointer(path)?.as_u64());
    let prompt_tokens = count(&["/prompt_tokens"])?;
    Some(Usage {
        prompt_tokens,
        completion_tokens: count(&["/completion_tokens"]).unwrap_or_default(),
        cached_tokens: count(&[
            "/prompt_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/cached_tokens",
        ])
        .unwrap_or_default(),
        cache_write_tokens: count(&[
            "/prompt_tokens_details/cache_write_tokens",
            "/cache_creation_input_tokens",
        ])
        .unwrap_or_default(),
        reasoning_tokens: count(&["/completion_tokens_details/reasoning_tokens"])
            .unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use nanobot_provider::{Fold, Folded};
    use nanobot_types::{LlmResponse, ToolCall};
    use serde_json::json;

    use super::*;

    fn read(chunks: &[Value]) -> LlmResponse {
        let mut reader = ChunkReader::new(ErrorClassifier {
            key: None,
            key_hint: "",
        });
        let mut fold = Fold::new();
        for chunk in chunks {
            reader
                .read(chunk)
                .unwrap()
                .into_iter()
                .for_each(|event| fold.push(event));
        }
        reader
            .end(false)
            .unwrap()
            .into_iter()
            .for_each(|event| fold.push(event));
        match fold.finish() {
            Folded::Whole(response) => response,
            cut @ Folded::Cut { .. } => panic!("{cut:?}"),
        }
    }

    fn delta(delta: &Value) -> Value {
        json!({ "choices": [{ "index": 0, "delta": delta }] })
    }

    fn done(reason: &str) -> Value {
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
    }

    #[test]
    fn distinguishes_calls_under_any_numbering() {
        let call = |index: Value, id: &str, name: &str, arguments: &str| json!({ "index": index, "id": id, "function": { "name": name, "arguments": arguments } });
        let expected = vec![
            ToolCall::new("1", "a", r#"{"x":1}"#),
            ToolCall::new("2", "b", "{}"),
        ];
        let table = [
            (
                "by index",
                vec![
                    delta(
                        &json!({ "tool_calls": [call(0.into(), "1", "a", "{\"x\""), call(1.into(), "2", "b", "")] }),
                    ),
                    delta(&json!({ "tool_calls": [call(0.into(), "", "", ":1}")] })),
                    delta(&json!({ "tool_calls": [call(1.into(), "", "", "{}")] })),
                ],
            ),
            (
                "without index",
                vec![
                    delta(&json!({ "tool_calls": [call(Value::Null, "1", "a", "{\"x\":1}")] })),
                    delta(&json!({ "tool_calls": [call(Value::Null, "2", "b", "{}")] })),
                ],
            ),
            (
                "all under index 0",
                vec![
                    delta(&json!({ "tool_calls": [call(0.into(), "1", "a", "{\"x\":")] })),
                    delta(&json!({ "tool_calls": [call(0.into(), "1", "", "1}")] })),
                    delta(&json!({ "tool_calls": [call(0.into(), "2", "b", "{}")] })),
                ],
            ),
            (
                "spread over choices",
                vec![json!({ "choices": [
                { "index": 0, "message": { "content": "", "tool_calls": [call(Value::Null, "1", "a", "{\"x\":1}")] } },
                { "index": 1, "message": { "tool_calls": [call(Value::Null, "2", "b", "")] } },
            ] })],
            ),
        ];
        for (case, mut chunks) in table {
            chunks.push(done("tool_calls"));
            assert_eq!(read(&chunks).tool_calls, expected, "{case}");
        }
    }

    #[test]
    fn keeps_extra_members_of_calls() {
        let chunk = delta(&json!({ "tool_calls": [{
            "index": 0, "id": "1", "type": "function", "extra_content": { "google": { "thought_signature": "s" } },
            "function": { "name": "a", "arguments": {"x": 1}, "provider_specific_fields": { "k": 1 } },
        }] }));
        let call = &read(&[chunk, done("tool_calls")]).tool_calls[0];
        assert_eq!(call.arguments, r#"{"x":1}"#);
        assert_eq!(
            Value::Object(call.extra.clone()),
            json!({ "extra_content": { "google": { "thought_signature": "s" } } })
        );
        assert_eq!(
            Value::Object(call.function_extra.clone()),
            json!({ "provider_specific_fields": { "k": 1 } })
        );
    }

    #[test]
    fn reads_text_reasoning_and_usage_under_all_names() {
        let response = read(&[
            delta(&json!({ "reasoning_content": "a" })),
            delta(&json!({ "reasoning": "b" })),
            delta(
                &json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "c" }] }] }),
            ),
            delta(&json!({ "content": "x" })),
            delta(&json!({ "content": [{ "type": "text", "text": "y" }] })),
            json!({ "choices": [{ "index": 1, "delta": { "content": "another answer" } }] }),
            done("stop"),
            json!({ "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 8,
                "completion_tokens_details": { "reasoning_tokens": 3 } } }),
        ]);
        let usage = Usage {
            prompt_tokens: 9,
            completion_tokens: 4,
            cached_tokens: 8,
            cache_write_tokens: 0,
            reasoning_tokens: 3,
        };
        assert_eq!(
            response,
            LlmResponse {
                content: Some("xy".into()),
                reasoning_content: Some("abc".into()),
                usage: Some(usage),
                ..LlmResponse::default()
            }
        );
    }
}
