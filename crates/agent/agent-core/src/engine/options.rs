//! How a turn is run.

use serde::{Deserialize, Serialize};

/// The options of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnOptions {
    /// Read tool calls that a model writes into its text as `<tool_call>{…}</tool_call>`, as some
    /// local models do. Off unless asked for: text that looks like a call never runs otherwise.
    pub parse_calls_from_text: bool,
    /// Put the severity of a failed result in front of it.
    pub include_severity: bool,
    /// Run the calls of one answer beside each other when all of them are pure.
    pub parallel_tool_exec: bool,
    /// Shorten old tool results when the conversation outgrows the budget in the middle of a
    /// turn. What is recorded stays whole.
    pub compact_after_tools: bool,
    /// Most model calls.
    pub max_iterations: u32,
    /// Tokens the request may take, estimated; 0 is no limit.
    pub token_budget: usize,
    /// Most characters of one tool result; the rest is cut before it is sent or stored.
    pub max_result_chars: usize,
    /// Randomness, when it is not to be the candidate's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
}

impl Default for TurnOptions {
    /// 40 model calls, 65,536 tokens, 16,000 characters of a result, everything else off but
    /// compaction.
    fn default() -> Self {
        Self {
            parse_calls_from_text: false,
            include_severity: false,
            parallel_tool_exec: false,
            compact_after_tools: true,
            max_iterations: 40,
            token_budget: 65_536,
            max_result_chars: 16_000,
            temperature: None,
        }
    }
}
