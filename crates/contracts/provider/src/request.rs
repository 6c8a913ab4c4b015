//! One request, before any vendor's spelling.

use std::sync::Arc;

use nanobot_types::{ModelId, ToolName, ToolSpec, Transcript};

/// Whether the model may, must or must not call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// No tool.
    None,
    /// Exactly this tool.
    Tool(ToolName),
}

/// How to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// Most tokens to write; at least 1 is sent.
    pub max_tokens: u32,
    /// Randomness; left out when `None`.
    pub temperature: Option<f32>,
    /// `low`, `medium`, `high`, or what else the vendor knows; left out when `None`.
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

/// One request. Rendered as tools, system, messages; the same request renders to the same bytes.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The model; a router sets its candidate's.
    pub model: ModelId,
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation.
    pub transcript: Transcript,
    /// The tools, in the order in which they are sent.
    pub tools: Arc<[ToolSpec]>,
    /// Whether they may be called.
    pub tool_choice: ToolChoice,
    /// How to generate; a router puts its candidate's in place of the default.
    pub generation: Generation,
    /// A key under which requests of one session share a cache, where the vendor takes one.
    pub cache_key: Option<String>,
}
