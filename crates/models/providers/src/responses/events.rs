//! Reads the events of a streamed response, or one whole response.
//!
//! Decision: the deltas are what the user sees, and the items that end count only where no delta of
//! them came. Servers differ in the events that they leave out, but not in the order.

use nanobot_provider::{ProviderError, StreamEvent};
use nanobot_types::{FinishReason, Map, Usage};
use serde_json::Value;

use crate::event_stream::ReadEvents;
use crate::fault::ErrorClassifier;
use crate::render::bounded_id;

/// Maximum number of items in one response.
const ITEM_LIMIT: usize = 1024;

/// Separates the parts of a summary.
const PARAGRAPH: &str = "\n\n";

#[derive(Debug)]
pub(crate) struct ResponseReader {
    faults: ErrorClassifier,
    items: Vec<OutputItem>,
    calls: usize,
    finished: Option<FinishReason>,
}

/// An item of the output, as far as it has arrived.
#[derive(Debug)]
struct OutputItem {
    /// Its index in the output, or its id if the server numbers nothing.
    key: String,
    /// Number of the call among all calls.
    call: Option<usize>,
    /// `true` if a delta of it came.
    has_deltas: bool,
    is_done: bool,
}

type Events = Vec<StreamEvent>;

impl ResponseReader {
    pub(crate) fn new(faults: ErrorClassifier) -> Self {
        Self {
            faults,
            items: Vec::new(),
            calls: 0,
            finished: None,
        }
    }

    /// Returns the item that an event is about, new or known.
    fn item(&mut self, event: &Value) -> Result<usize, ProviderError> {
        let id = text(event, "item_id");
        let id = id.or_else(|| event.pointer("/item/id").and_then(Value::as_str));
        let key = match event.get("output_index").and_then(Value::as_u64) {
            Some(index) => index.to_string(),
            None => id.unwrap_or_default().to_owned(),
        };
        // Without a number and an id, an event is about the item that is not done.
        let is_it = |item: &OutputItem| item.key == key && !(key.is_empty() && item.is_done);
        if let Some(known) = self.items.iter().rposition(is_it) {
            return Ok(known);
        }
        if self.items.len() >= ITEM_LIMIT {
            return Err(ProviderError::Malformed(format!(
                "the answer holds more than {ITEM_LIMIT} items"
            )));
        }
        self.items.push(OutputItem {
            key,
            call: None,
            has_deltas: false,
            is_done: false,
        });
        Ok(self.items.len() - 1)
    }

    /// Begins a call, unless the item is another one or has begun.
    fn start(&mut self, event: &Value, events: &mut Events) -> Result<(), ProviderError> {
        let number = self.item(event)?;
        let described = event.get("item").unwrap_or(&Value::Null);
        let calls = self.calls;
        let Some(item) = self.items.get_mut(number) else {
            return Ok(());
        };
        if kind(described) != "function_call" || item.call.is_some() {
            return Ok(());
        }
        item.call = Some(calls);
        self.calls += 1;
        let id = text(described, "call_id").or_else(|| text(described, "id"));
        events.push(StreamEvent::ToolCall {
            index: calls,
            id: id.map(|id| bounded_id(id).into_owned()),
            name: text(described, "name").map(str::to_owned),
            arguments: String::new(),
            extra: Map::new(),
            function_extra: Map::new(),
        });
        Ok(())
    }

    /// Reads a piece of text, reasoning or arguments.
    fn delta(
        &mut self,
        event: &Value,
        read: impl FnOnce(String) -> StreamEvent,
        events: &mut Events,
    ) -> Result<(), ProviderError> {
        let number = self.item(event)?;
        let piece = text(event, "delta").unwrap_or_default();
        if let Some(item) = self.items.get_mut(number)
            && !piece.is_empty()
        {
            item.has_deltas = true;
            events.push(read(piece.to_owned()));
        }
        Ok(())
    }

    /// Reads a piece of a call's arguments: the member `member` of an event or item.
    fn arguments(&mut self, number: usize, described: &Value, member: &str, events: &mut Events) {
        let piece = text(described, member).unwrap_or_default();
        if let Some(item) = self.items.get_mut(number)
            && let Some(index) = item.call.filter(|_| !piece.is_empty())
        {
            item.has_deltas = true;
            events.push(StreamEvent::ToolCall {
                index,
                id: None,
                name: None,
                arguments: piece.to_owned(),
                extra: Map::new(),
                function_extra: Map::new(),
            });
        }
    }

    /// Reads an item that is complete.
    fn done(&mut self, event: &Value, events: &mut Events) -> Result<(), ProviderError> {
        self.start(event, events)?;
        let number = self.item(event)?;
        let described = event.get("item").unwrap_or(&Value::Null);
        let Some(item) = self.items.get_mut(number).filter(|item| !item.is_done) else {
            return Ok(());
        };
        item.is_done = true;
        let is_new = !item.has_deltas;
        match kind(described) {
            "function_call" if is_new => self.arguments(number, described, "arguments", events),
            "message" if is_new => {
                let parts = list(described, "content").iter();
                let texts = parts.filter_map(|part| match kind(part) {
                    "refusal" => text(part, "refusal"),
                    _ => text(part, "text"),
                });
                push(StreamEvent::Text, texts.collect(), events);
            }
            "reasoning" => {
                if is_new {
                    let texts = |member| {
                        let parts = list(described, member).iter();
                        parts
                            .filter_map(|part| text(part, "text"))
                            .collect::<Vec<_>>()
                    };
                    let summary = texts("summary").join(PARAGRAPH);
                    push(StreamEvent::Reasoning, summary, events);
                    push(StreamEvent::Reasoning, texts("content").concat(), events);
                }
                // Without the encrypted form, the server would look for an item that it has not
                // stored.
                if text(described, "encrypted_content").is_some_and(|text| !text.is_empty()) {
                    events.push(StreamEvent::ThinkingBlock(described.clone()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the end of the response, with all items if none of them came before.
    fn finish(
        &mut self,
        response: &Value,
        usual: &str,
        events: &mut Events,
    ) -> Result<(), ProviderError> {
        let status = text(response, "status").unwrap_or(usual);
        match status {
            "failed" => return Err(self.faults.of_object(response)),
            "completed" | "incomplete" => {}
            other => {
                return Err(ProviderError::Server {
                    retry_after: None,
                    status: 200,
                    message: self
                        .faults
                        .without_keys(&format!("the answer ended as {other}")),
                });
            }
        }
        if self.items.is_empty() {
            for (index, item) in list(response, "output").iter().enumerate() {
                let event = serde_json::json!({ "output_index": index, "item": item });
                self.done(&event, events)?;
            }
        }
        events.extend(
            response
                .get("usage")
                .and_then(usage)
                .map(StreamEvent::Usage),
        );
        let reason = response.pointer("/incomplete_details/reason");
        self.finished = Some(match (status, reason.and_then(Value::as_str)) {
            ("incomplete", Some("content_filter")) => FinishReason::ContentFilter,
            ("incomplete", _) => FinishReason::Length,
            _ if self.calls > 0 => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        });
        Ok(())
    }
}

impl ReadEvents for ResponseReader {
    fn read(&mut self, event: &Value) -> Result<Events, ProviderError> {
        let mut events = Vec::new();
        let response = event.get("response").unwrap_or(&Value::Null);
        match kind(event) {
            _ if self.finished.is_some() => {}
            "response.output_item.added" => self.start(event, &mut events)?,
            "response.output_item.done" => self.done(event, &mut events)?,
            "response.output_text.delta" | "response.refusal.delta" => {
                self.delta(event, StreamEvent::Text, &mut events)?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.delta(event, StreamEvent::Reasoning, &mut events)?;
            }
            "response.reasoning_summary_part.added"
                if event.get("summary_index").and_then(Value::as_u64) > Some(0) =>
            {
                events.push(StreamEvent::Reasoning(PARAGRAPH.to_owned()));
            }
            "response.function_call_arguments.delta" => {
                let number = self.item(event)?;
                self.arguments(number, event, "delta", &mut events);
            }
            "response.function_call_arguments.done" => {
                let number = self.item(event)?;
                if self.items.get(number).is_some_and(|item| !item.has_deltas) {
                    self.arguments(number, event, "arguments", &mut events);
                }
            }
            "response.completed" => self.finish(response, "completed", &mut events)?,
            "response.incomplete" => self.finish(response, "incomplete", &mut events)?,
            "response.failed" => return Err(self.faults.of_object(response)),
            "error" => return Err(self.faults.of_object(event)),
            "" if event.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(self.faults.of_object(event));
            }
            "" if event.get("output").is_some_and(Value::is_array) => {
                self.finish(event, "completed", &mut events)?;
            }
            _ => {}
        }
        Ok(events)
    }

    fn end(&mut self) -> Result<Option<StreamEvent>, ProviderError> {
        let finished = self.finished.take();
        if finished.is_none() && self.items.is_empty() {
            return Err(ProviderError::Malformed(
                "the answer holds no message".to_owned(),
            ));
        }
        Ok(finished.map(StreamEvent::Finished))
    }
}

fn push(event: fn(String) -> StreamEvent, text: String, events: &mut Events) {
    if !text.is_empty() {
        events.push(event(text));
    }
}

fn kind(value: &Value) -> &str {
    text(value, "type").unwrap_or_default()
}

fn text<'a>(value: &'a Value, member: &str) -> Option<&'a str> {
    value.get(member).and_then(Value::as_str)
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    let list = value.get(member).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn usage(value: &Value) -> Option<Usage> {
    let count = |path: &str| value.pointer(path).and_then(Value::as_u64);
    Some(Usage {
        prompt_tokens: count("/input_tokens")?,
        completion_tokens: count("/output_tokens").unwrap_or_default(),
        cached_tokens: count("/input_tokens_details/cached_tokens").unwrap_or_default(),
        cache_write_tokens: 0,
        reasoning_tokens: count("/output_tokens_details/reasoning_tokens").unwrap_or_default(),
    })
}
