//! A model request, independent of the vendor.

use std::sync::Arc;

use crate::TurnMemo;
use nanobot_types::{ChatMessage, ModelId, ToolName, ToolSpec, Transcript};

/// Controls whether the model may, must or must not call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call tools.
    None,
    /// The model must call this tool.
    Tool(ToolName),
}

/// Generation parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// Maximum number of tokens to generate; at least 1 is sent.
    pub max_tokens: u32,
    /// Sampling temperature; omitted if `None`.
    pub temperature: Option<f32>,
    /// Reasoning effort: `low`, `medium`, `high`, or another value that the vendor knows; omitted
    /// if `None`.
    pub reasoning_effort: Option<String>,
}

impl Default for Generation {
    fn default() -> Self {
        Self {
            max_tokens: 8192,
            temperature: Some(0.1),
            reasoning_effort: None,
        }
    }
}

/// One request. It is rendered as tools, system prompt, messages; equal requests render to the same
/// bytes.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The model. A router replaces it with that of the candidate; if it is the name of a preset of
    /// the router, that one is asked first.
    pub model: ModelId,
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation.
    pub transcript: Transcript,
    /// The tools, in the order in which they are sent.
    pub tools: Arc<[ToolSpec]>,
    /// Controls whether tools may be called.
    pub tool_choice: ToolChoice,
    /// Generation parameters; a router replaces the default ones with those of the candidate.
    pub generation: Generation,
    /// Key under which the requests of one session share the prompt cache, if the vendor supports
    /// one.
    pub cache_key: Option<String>,
    /// Estimated number of tokens; a router sends no request to a server whose window is smaller.
    /// `None` if it was not estimated.
    pub estimated_tokens: Option<usize>,
    /// What providers keep between the requests of a turn; empty for a single request.
    pub memo: TurnMemo,
}

impl ChatRequest {
    /// Returns the text of the newest user message, with the context that is stored after its
    /// words; empty if there is no user message.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let mut newest_first = self.transcript.messages().iter().rev();
        let user = newest_first.find(|message| matches!(***message, ChatMessage::User(_)));
        user.map(|message| message.text()).unwrap_or_default()
    }

    /// Returns the outputs of the tools that the newest assistant message called, in order; empty
    /// if the request opens a turn.
    #[must_use]
    pub fn tool_results(&self) -> Vec<String> {
        let is_assistant =
            |message: &Arc<ChatMessage>| matches!(**message, ChatMessage::Assistant(_));
        let newest = self.transcript.messages().rsplit(is_assistant).next();
        newest
            .unwrap_or_default()
            .iter()
            .filter(|message| matches!(***message, ChatMessage::Tool(_)))
            .map(|message| message.text())
            .collect()
    }
}
