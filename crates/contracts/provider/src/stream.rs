//! What a model sends while it answers.

use std::pin::Pin;

use futures_util::Stream;
use nanobot_types::{FinishReason, Map, Usage};

use crate::ProviderError;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Visible text. An empty piece is a sign of life from a vendor that has nothing to say yet.
    Text(String),
    /// Reasoning as plain text.
    Reasoning(String),
    /// A whole signed reasoning block, opaque.
    ThinkingBlock(serde_json::Value),
    /// A piece of a tool call. Pieces with one `index` belong together.
    ToolCall {
        /// Which call of this answer.
        index: usize,
        /// Its id, in its first piece where the vendor gives one.
        id: Option<String>,
        /// Its tool, in its first piece.
        name: Option<String>,
        /// The next piece of its arguments.
        arguments: String,
        /// What else the vendor put beside the call and wants back.
        extra: Map,
        /// The same, inside the function object.
        function_extra: Map,
    },
    /// Tokens counted so far; the last one counts.
    Usage(Usage),
    /// The model stopped.
    Finished(FinishReason),
}

/// An answer as it comes.
pub type ChatStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ProviderError>> + Send>>;
