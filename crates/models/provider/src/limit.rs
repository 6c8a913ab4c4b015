//! Limits how much of one answer is read.
//!
//! Decision: the limit follows from the requested number of tokens. A vendor that respects
//! `max_tokens` never reaches it; one that does not would otherwise fill memory, the session and
//! the chat. Text, reasoning, signed blocks and calls each have the same limit. An answer that
//! exceeds it ends as [`FinishReason::Runaway`](nanobot_types::FinishReason::Runaway).

use nanobot_types::Map;
use serde_json::Value;

use crate::StreamEvent;

/// Maximum number of bytes per token: rarely more than 8, but 16 in code with long runs of blanks.
const BYTES_PER_TOKEN: usize = 16;

/// Minimum limit of an answer, in bytes. It is generous for small requests, because some vendors do
/// not count reasoning among the tokens.
const FLOOR: usize = 64 << 10;

/// Maximum limit of an answer, in bytes.
const CEILING: usize = 2 << 20;

/// Maximum number of calls in one answer.
const CALLS: usize = 256;

/// Length up to which the name or id of a call is not counted, in bytes. Some vendors repeat them
/// in each piece.
const FREE_NAME: usize = 64;

/// The part of an event that fits within the limit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fitted {
    /// The whole event.
    Whole(StreamEvent),
    /// At most this much: the answer ends here.
    Last(Option<StreamEvent>),
}

/// The bytes that are left for one answer.
#[derive(Debug)]
pub(crate) struct AnswerLimit {
    text: usize,
    reasoning: usize,
    blocks: usize,
    calls: usize,
}

impl AnswerLimit {
    /// Creates the limit of an answer to a request for this many tokens.
    pub(crate) fn of_tokens(max_tokens: u32) -> Self {
        let wanted = usize::try_from(max_tokens)
            .unwrap_or(usize::MAX)
            .saturating_mul(BYTES_PER_TOKEN);
        let room = wanted.clamp(FLOOR, CEILING);
        Self {
            text: room,
            reasoning: room,
            blocks: room,
            calls: room,
        }
    }

    /// Takes an event and deducts its size from the limit. Text that does not fit is truncated; any
    /// other event that does not fit is dropped.
    pub(crate) fn take(&mut self, event: StreamEvent) -> Fitted {
        match event {
            StreamEvent::Text(text) => cut(text, &mut self.text, StreamEvent::Text),
            StreamEvent::Reasoning(text) => cut(text, &mut self.reasoning, StreamEvent::Reasoning),
            StreamEvent::ThinkingBlock(block) => {
                let size = size_of(&block);
                whole(
                    StreamEvent::ThinkingBlock(block),
                    spend(&mut self.blocks, size),
                )
            }
            StreamEvent::ToolCall { index, .. } if index >= CALLS => Fitted::Last(None),
            StreamEvent::ToolCall {
                ref id,
                ref name,
                ref arguments,
                ref extra,
                ref function_extra,
                ..
            } => {
                let names = [id, name]
                    .into_iter()
                    .flatten()
                    .map(|text| text.len().saturating_sub(FREE_NAME));
                let others = [extra, function_extra].into_iter().map(members);
                let size = arguments.len() + names.chain(others).sum::<usize>();
                whole(event, spend(&mut self.calls, size))
            }
            StreamEvent::Usage(_) | StreamEvent::Finished(_) => Fitted::Whole(event),
        }
    }
}

fn cut(mut text: String, room: &mut usize, event: impl Fn(String) -> StreamEvent) -> Fitted {
    let left = *room;
    if spend(room, text.len()) {
        return Fitted::Whole(event(text));
    }
    text.truncate(text.floor_char_boundary(left));
    Fitted::Last(Some(event(text)))
}

fn whole(event: StreamEvent, fits: bool) -> Fitted {
    if fits {
        Fitted::Whole(event)
    } else {
        Fitted::Last(None)
    }
}

/// Deducts `size` from `room`. Returns `false` and leaves no room if `size` is larger.
fn spend(room: &mut usize, size: usize) -> bool {
    let left = room.checked_sub(size);
    *room = left.unwrap_or_default();
    left.is_some()
}

fn members(map: &Map) -> usize {
    map.iter()
        .map(|(name, value)| name.len() + size_of(value))
        .sum()
}

/// Returns the approximate length of a value as text, in bytes.
pub(crate) fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => 2 + values.iter().map(size_of).sum::<usize>(),
        Value::Object(map) => 2 + members(map),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(index: usize, id: &str, arguments: &str, extra: Map) -> StreamEvent {
        StreamEvent::ToolCall {
            index,
            id: Some(id.to_owned()),
            name: None,
            arguments: arguments.to_owned(),
            extra,
            function_extra: Map::new(),
        }
    }

    /// Counts the events that fit, and returns what is left of the first one that does not.
    fn fitting(max_tokens: u32, event: &StreamEvent) -> (usize, Option<StreamEvent>) {
        let mut limit = AnswerLimit::of_tokens(max_tokens);
        for count in 0..10_000 {
            if let Fitted::Last(rest) = limit.take(event.clone()) {
                return (count, rest);
            }
        }
        (10_000, None)
    }

    #[test]
    fn every_event_kind_counts_towards_the_limit() {
        let long = "ab读".repeat(2048);
        let extra = Map::from_iter([("k".to_owned(), json!(["x".repeat(9_990)]))]);
        let table = [
            (StreamEvent::Text(long.clone()), 6),
            (StreamEvent::Reasoning(long.clone()), 6),
            (StreamEvent::ThinkingBlock(json!({"thinking": long})), 6),
            (call(0, "1", &long, Map::new()), 6),
            (call(0, &long, "", Map::new()), 6),
            (call(0, "1", "", extra), 6),
            (call(0, "1", "", Map::new()), 10_000),
            (call(CALLS, "1", "", Map::new()), 0),
            (StreamEvent::Text(String::new()), 10_000),
        ];
        for (event, expected) in table {
            assert_eq!(
                fitting(1, &event).0,
                expected,
                "{:.60}",
                format!("{event:?}")
            );
        }
    }

    #[test]
    fn limit_scales_with_max_tokens_within_bounds() {
        let kilobyte = StreamEvent::Text("x".repeat(1024));
        for (tokens, expected) in [
            (0, 64),
            (4_096, 64),
            (8_192, 128),
            (100_000, 1562),
            (u32::MAX, 2048),
        ] {
            assert_eq!(fitting(tokens, &kilobyte).0, expected, "{tokens}");
        }
    }

    #[test]
    fn text_is_cut_at_a_character_boundary() {
        let (count, rest) = fitting(1, &StreamEvent::Text("读".repeat(10_000)));
        assert_eq!(
            (count, rest),
            (
                2,
                Some(StreamEvent::Text("读".repeat((FLOOR - 60_000) / 3)))
            )
        );
    }
}
