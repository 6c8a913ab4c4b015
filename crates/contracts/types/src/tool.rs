//! What a tool is to the model, and what came of running it.

use serde::{Deserialize, Serialize};

use crate::{MediaRef, ToolName};

/// What running a tool again would do. Decides what happens after a crash between a call and its
/// recorded result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It changes nothing: it may run again and beside others.
    Pure,
    /// Running it twice leaves the same state as once: it may run again.
    Idempotent,
    /// Running it twice may do harm: it never runs again by itself.
    Irreversible,
}

/// Where a tool comes from; built-in tools stand first in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolSource {
    /// Part of the program.
    BuiltIn,
    /// An MCP server, or a tool the assistant wrote.
    External,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: ToolName,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of its arguments; an object schema.
    pub parameters: serde_json::Value,
    /// What running it again would do.
    pub effect: Effect,
    /// Where it comes from.
    pub source: ToolSource,
}

/// How bad a failed result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Part of the work was not done.
    Warning,
    /// It was not done.
    Error,
    /// Going on makes no sense.
    Fatal,
}

/// What came of running a tool. The model reads `output` whatever `success` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Whether it did what was asked.
    pub success: bool,
    /// The answer, or the error, as text for the model.
    pub output: String,
    /// What to try instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// How bad a failure is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// Whether the same call may succeed later.
    #[serde(default)]
    pub should_retry: bool,
    /// Whether a person has to agree first.
    #[serde(default)]
    pub requires_user_confirmation: bool,
    /// Files that belong to the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaRef>,
    /// All of what `output` shows a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<WholeText>,
}

/// A text that is too long for a prompt, to be kept where the model can read on in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeText {
    /// The text.
    pub text: String,
    /// Characters of its beginning that the result shows.
    pub shown: usize,
    /// `false` if a part of it was lost already.
    pub is_complete: bool,
}

impl ToolResult {
    /// A success.
    pub fn ok(output: impl Into<String>) -> Self {
        Self {
            success: true,
            output: output.into(),
            remedy: None,
            severity: None,
            should_retry: false,
            requires_user_confirmation: false,
            media: Vec::new(),
            whole: None,
        }
    }

    /// A failure. `output` is shown to the model as it is; by custom it begins with `Error`.
    pub fn error(output: impl Into<String>) -> Self {
        Self {
            success: false,
            severity: Some(Severity::Error),
            ..Self::ok(output)
        }
    }

    /// The same failure with advice what to try instead.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
