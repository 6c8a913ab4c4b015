//! The result of one model call, independent of the vendor.

use serde::{Deserialize, Serialize};

use crate::{AssistantMessage, Content, ModelId, ProviderName, ToolCall};

/// Reason why a model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The answer is complete.
    #[default]
    Stop,
    /// The model requests tool calls.
    ToolCalls,
    /// The token limit was reached: the text is truncated, and none of its tool calls runs.
    Length,
    /// The model wrote far more than its token limit and the program cut it off. Such an answer has
    /// no tool calls.
    Runaway,
    /// The vendor withheld the answer (content filter).
    ContentFilter,
    /// The call failed; `content` says why.
    Error,
    /// The conversation is too long for every candidate; `content` says so. A shorter one may
    /// succeed.
    ContextOverflow,
}

/// Token counts reported by the vendor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Prompt tokens, including cached ones.
    pub prompt_tokens: u64,
    /// Completion tokens, including reasoning.
    pub completion_tokens: u64,
    /// Prompt tokens read from the vendor's cache.
    pub cached_tokens: u64,
    /// Prompt tokens newly written to the vendor's cache.
    pub cache_write_tokens: u64,
    /// Completion tokens spent on reasoning.
    pub reasoning_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
    }
}

/// The response to one model request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmResponse {
    /// The text as the model wrote it; for [`FinishReason::Error`], the message for the user.
    pub content: Option<String>,
    /// The tool calls, with distinct ids; the arguments are the text of a JSON object.
    pub tool_calls: Vec<ToolCall>,
    /// Reason why the model stopped.
    pub finish_reason: FinishReason,
    /// Token counts, if the vendor reported them.
    pub usage: Option<Usage>,
    /// Reasoning as plain text.
    pub reasoning_content: Option<String>,
    /// Signed reasoning blocks, opaque.
    pub thinking_blocks: Vec<serde_json::Value>,
    /// The provider that answered.
    pub provider: Option<ProviderName>,
    /// The model that answered.
    pub model: Option<ModelId>,
}

impl LlmResponse {
    /// Creates a response that only reports an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            content: Some(message.into()),
            finish_reason: FinishReason::Error,
            ..Self::default()
        }
    }

    /// Returns the assistant message to store for this response.
    #[must_use]
    pub fn to_message(&self) -> AssistantMessage {
        AssistantMessage {
            content: self.content.clone().map(Content::Text),
            tool_calls: self.tool_calls.clone(),
            reasoning_content: self.reasoning_content.clone(),
            thinking_blocks: self.thinking_blocks.clone(),
            provider: self.provider.clone(),
        }
    }
}
