//! Reads the events of a streamed response, or one whole message.

use nanobot_provider::{ProviderError, StreamEvent};
use nanobot_types::{FinishReason, Map, Usage};
use serde_json::Value;

use crate::event_stream::ReadEvents;
use crate::fault::ErrorClassifier;
use crate::render::bounded_id;

/// Maximum total length of the signatures in one response, in bytes.
const SIGNATURE_LIMIT: usize = 2 << 20;

#[derive(Debug)]
pub(crate) struct EventReader {
    faults: ErrorClassifier,
    usage: Usage,
    /// The content block that is open.
    open: Option<OpenBlock>,
    calls: usize,
    /// Bytes of signatures so far. They are not part of the response's text.
    signed: usize,
    finished: Option<FinishReason>,
    anything: bool,
}

#[derive(Debug)]
enum OpenBlock {
    Text,
    /// A thinking block, as far as it has arrived.
    Thought(Value),
    /// A tool call, with the input of its start event and whether deltas followed.
    Call {
        index: usize,
        input: Value,
        pieces: bool,
    },
    Other,
}

type Events = Vec<StreamEvent>;

impl EventReader {
    pub(crate) fn new(faults: ErrorClassifier) -> Self {
        Self {
            faults,
            usage: Usage::default(),
            open: None,
            calls: 0,
            signed: 0,
            finished: None,
            anything: false,
        }
    }

    fn start(&mut self, block: &Value, events: &mut Events) {
        self.anything = true;
        let text_member = |member: &str| {
            block
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        self.open = Some(match kind(block) {
            "text" => {
                events.push(StreamEvent::Text(text_member("text")));
                OpenBlock::Text
            }
            "thinking" => {
                events.push(StreamEvent::Reasoning(text_member("thinking")));
                OpenBlock::Thought(block.clone())
            }
            "redacted_thinking" => OpenBlock::Thought(block.clone()),
            "tool_use" => {
                let index = self.calls;
                self.calls += 1;
                events.push(piece(
                    index,
                    Some(bounded_id(&text_member("id")).into_owned()),
                    Some(text_member("name")),
                    String::new(),
                ));
                OpenBlock::Call {
                    index,
                    input: block.get("input").cloned().unwrap_or_default(),
                    pieces: false,
                }
            }
            _ => OpenBlock::Other,
        });
        events.retain(
            |event| !matches!(event, StreamEvent::Text(text) | StreamEvent::Reasoning(text) if text.is_empty()),
        );
    }

    fn delta(&mut self, delta: &Value, events: &mut Events) {
        let text_member = |member: &str| {
            delta
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        match (&mut self.open, kind(delta)) {
            (_, "text_delta") => events.push(StreamEvent::Text(text_member("text"))),
            (Some(OpenBlock::Thought(block)), "thinking_delta") => {
                let thought = text_member("thinking");
                append(block, "thinking", &thought);
                events.push(StreamEvent::Reasoning(thought));
            }
            (Some(OpenBlock::Thought(block)), "signature_delta") => {
                let signature = text_member("signature");
                append(block, "signature", &signature);
                self.signed += signature.len();
            }
            (Some(OpenBlock::Call { index, pieces, .. }), "input_json_delta") => {
                *pieces = true;
                events.push(piece(*index, None, None, text_member("partial_json")));
            }
            _ => {}
        }
    }

    fn stop(&mut self, events: &mut Events) {
        match self.open.take() {
            Some(OpenBlock::Thought(block)) => events.push(StreamEvent::ThinkingBlock(block)),
            Some(OpenBlock::Call {
                index,
                input,
                pieces: false,
            }) if input.is_object() => {
                events.push(piece(index, None, None, input.to_string()));
            }
            _ => {}
        }
    }

    fn whole(&mut self, message: &Value, events: &mut Events) {
        self.anything = true;
        for block in message
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.start(block, events);
            self.stop(events);
        }
        self.count(message.get("usage"), events);
        self.finish(Some(
            message
                .get("stop_reason")
                .filter(|reason| !reason.is_null())
                .unwrap_or(&Value::from("end_turn")),
        ));
    }

    fn finish(&mut self, reason: Option<&Value>) {
        let Some(reason) = reason.and_then(Value::as_str) else {
            return;
        };
        self.finished = Some(match reason {
            "tool_use" => FinishReason::ToolCalls,
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "refusal" => FinishReason::ContentFilter,
            _ => FinishReason::Stop,
        });
    }

    /// Reads token counts. They are totals so far, and a later event omits those that have not
    /// changed.
    fn count(&mut self, usage: Option<&Value>, events: &mut Events) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else {
            return;
        };
        let count = |member: &str| usage.get(member).and_then(Value::as_u64);
        let before = self.usage;
        let uncached = before.prompt_tokens - before.cached_tokens - before.cache_write_tokens;
        let cached_tokens = count("cache_read_input_tokens").unwrap_or(before.cached_tokens);
        let cache_write_tokens =
            count("cache_creation_input_tokens").unwrap_or(before.cache_write_tokens);
        self.usage = Usage {
            // Anthropic's `input_tokens` excludes cached tokens; `prompt_tokens` includes them.
            prompt_tokens: count("input_tokens").unwrap_or(uncached)
                + cached_tokens
                + cache_write_tokens,
            completion_tokens: count("output_tokens").unwrap_or(before.completion_tokens),
            cached_tokens,
            cache_write_tokens,
            reasoning_tokens: 0,
        };
        events.push(StreamEvent::Usage(self.usage));
    }
}

impl ReadEvents for EventReader {
    fn read(&mut self, event: &Value) -> Result<Events, ProviderError> {
        let mut events = Vec::new();
        match kind(event) {
            "error" => return Err(self.faults.of_object(event)),
            "message_start" => self.count(event.pointer("/message/usage"), &mut events),
            "content_block_start" => self.start(
                event.get("content_block").unwrap_or(&Value::Null),
                &mut events,
            ),
            "content_block_delta" => {
                self.delta(event.get("delta").unwrap_or(&Value::Null), &mut events);
            }
            "content_block_stop" => self.stop(&mut events),
            "message_delta" => {
                self.count(event.get("usage"), &mut events);
                self.finish(event.pointer("/delta/stop_reason"));
            }
            "message" => self.whole(event, &mut events),
            _ if event.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(self.faults.of_object(event));
            }
            _ => {}
        }
        if self.signed > SIGNATURE_LIMIT {
            return Err(ProviderError::Malformed(format!(
                "its signatures are longer than {SIGNATURE_LIMIT} bytes"
            )));
        }
        Ok(events)
    }

    fn end(&mut self) -> Result<Option<StreamEvent>, ProviderError> {
        let finished = self.finished.take();
        if finished.is_none() && !self.anything {
            return Err(ProviderError::Malformed(
                "the answer holds no message".to_owned(),
            ));
        }
        Ok(finished.map(StreamEvent::Finished))
    }
}

fn kind(value: &Value) -> &str {
    value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn piece(index: usize, id: Option<String>, name: Option<String>, arguments: String) -> StreamEvent {
    StreamEvent::ToolCall {
        index,
        id,
        name,
        arguments,
        extra: Map::new(),
        function_extra: Map::new(),
    }
}

fn append(block: &mut Value, member: &str, text_member: &str) {
    let Value::Object(block) = block else { return };
    match block.get_mut(member) {
        Some(Value::String(text)) => text.push_str(text_member),
        _ => drop(block.insert(member.to_owned(), text_member.into())),
    }
}
