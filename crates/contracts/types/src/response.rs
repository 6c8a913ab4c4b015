//! What one model call came to, whichever vendor answered it.

use serde::{Deserialize, Serialize};

use crate::{AssistantMessage, Content, ModelId, ProviderName, ToolCall};

/// Why a model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    #[default]
    Stop,
    /// It wants tools to run.
    ToolCalls,
    /// It reached its token limit: the text is cut, and no call of it runs.
    Length,
    /// It wrote far more than its token limit and was cut off by the program. Such an answer has
    /// no calls.
    Runaway,
    /// The vendor withheld the answer.
    ContentFilter,
    /// The call failed; the content says why.
    Error,
    /// The conversation is too long for every candidate; the content says so. A shorter one may
    /// succeed.
    ContextOverflow,
}

/// Tokens counted by the vendor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens written, reasoning included.
    pub completion_tokens: u64,
    /// Of the tokens read, those that came from the vendor's cache.
    pub cached_tokens: u64,
    /// Of the tokens read, those newly written to the vendor's cache.
    pub cache_write_tokens: u64,
    /// Of the tokens written, those spent on reasoning.
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

/// The answer to one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmResponse {
    /// The text, as the model wrote it; for [`FinishReason::Error`], what to tell the person.
    pub content: Option<String>,
    /// The calls it made, with distinct ids and arguments that are the text of a JSON object.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// Tokens, where the vendor counted them.
    pub usage: Option<Usage>,
    /// Plain-text reasoning.
    pub reasoning_content: Option<String>,
    /// Signed reasoning, opaque.
    pub thinking_blocks: Vec<serde_json::Value>,
    /// Who answered.
    pub provider: Option<ProviderName>,
    /// With which model.
    pub model: Option<ModelId>,
}

impl LlmResponse {
    /// A response that only says what went wrong.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            content: Some(message.into()),
            finish_reason: FinishReason::Error,
            ..Self::default()
        }
    }

    /// The message to store for this response.
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
