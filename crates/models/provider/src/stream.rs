//! Events that a model sends while it answers.

use std::pin::Pin;

use futures_util::{Stream, stream};
use nanobot_types::{FinishReason, Map, Usage};

use crate::ProviderError;

/// One event of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Visible text. An empty piece is a keep-alive from a vendor that has no text yet.
    Text(String),
    /// Reasoning as plain text.
    Reasoning(String),
    /// A complete signed reasoning block, opaque.
    ThinkingBlock(serde_json::Value),
    /// A piece of a tool call. Pieces with the same `index` belong together.
    ToolCall {
        /// Index of the call within this answer.
        index: usize,
        /// Id of the call, in its first piece if the vendor assigns one.
        id: Option<String>,
        /// Name of the tool, in the first piece.
        name: Option<String>,
        /// The next piece of the arguments.
        arguments: String,
        /// Further members of the call that the vendor expects back.
        extra: Map,
        /// Further members of the function object that the vendor expects back.
        function_extra: Map,
    },
    /// Token counts so far; the last event is the final count.
    Usage(Usage),
    /// The model stopped; the reason says why.
    Finished(FinishReason),
}

/// Stream of the events of one answer.
pub type ChatStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ProviderError>> + Send>>;

impl StreamEvent {
    /// Returns a call of `tool` in one piece: the first call of its answer.
    #[must_use]
    pub fn call(tool: &str, arguments: &serde_json::Value) -> Self {
        Self::ToolCall {
            index: 0,
            id: None,
            name: Some(tool.to_owned()),
            arguments: arguments.to_string(),
            extra: Map::new(),
            function_extra: Map::new(),
        }
    }
}

/// Returns an answer that is known as a whole: `events`, and the end that fits them.
#[must_use]
pub fn complete_answer(events: Vec<StreamEvent>) -> ChatStream {
    let is_call = |event: &StreamEvent| matches!(event, StreamEvent::ToolCall { .. });
    let reason = match events.iter().any(is_call) {
        true => FinishReason::ToolCalls,
        false => FinishReason::Stop,
    };
    let finished = StreamEvent::Finished(reason);
    Box::pin(stream::iter(events.into_iter().chain([finished]).map(Ok)))
}
