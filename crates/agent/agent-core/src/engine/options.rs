//! Options of a turn.

use serde::{Deserialize, Serialize};

/// The options of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnOptions {
    /// Parses tool calls that a model writes into its text, as local models do whose server does
    /// not know their form. Off by default, so that text that looks like a call does not run.
    pub parse_calls_from_text: bool,
    /// Prefixes a failed result with its severity.
    pub include_severity: bool,
    /// Runs the calls of one answer concurrently if all of them are pure.
    pub parallel_tool_exec: bool,
    /// Shortens old tool results if the conversation outgrows the budget in the middle of a turn.
    /// The log stays whole.
    pub compact_after_tools: bool,
    /// Maximum number of model calls.
    pub max_iterations: u32,
    /// Maximum number of estimated tokens of a request; 0 for no limit.
    pub token_budget: usize,
    /// Maximum number of characters of one tool result; the rest is cut before it is sent or
    /// stored.
    pub max_result_chars: usize,
    /// Temperature, if it differs from the candidate's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
}

impl Default for TurnOptions {
    /// 40 model calls, 65,536 tokens, 16,000 characters of a result, everything else off except
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
