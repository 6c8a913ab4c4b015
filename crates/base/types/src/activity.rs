//! Steps of a running turn, for a person who watches it at a terminal.

use serde::{Deserialize, Serialize};

/// Maximum length of [`TurnActivity::ToolFinished::output`], in characters.
pub const MAX_ACTIVITY_OUTPUT: usize = 4_000;

/// A step of a running turn. Terminals show it; other channels do not receive it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "activity", rename_all = "snake_case")]
pub enum TurnActivity {
    /// A model answered.
    ModelAnswered {
        /// Tokens of the request.
        input_tokens: u64,
        /// Tokens of the answer.
        output_tokens: u64,
    },
    /// A tool began to run.
    ToolStarted {
        /// The call, as in a tool hint: `exec("ls")`.
        call: String,
    },
    /// A tool ran.
    ToolFinished {
        /// The call, as in a tool hint.
        call: String,
        /// `true` if the tool did what was asked.
        success: bool,
        /// Run time, in milliseconds.
        elapsed_ms: u64,
        /// The beginning of the result, with secrets redacted.
        output: String,
        /// Length of the whole result in bytes; 0 if it is unknown.
        #[serde(default)]
        output_bytes: u64,
        /// Path of the file that keeps the whole result, if it was too long for a prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_in: Option<String>,
        /// What the tool changed in a file, as a unified diff.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_of_an_older_program_is_read() {
        let line =
            r#"{"activity":"tool_finished","call":"a","success":true,"elapsed_ms":5,"output":"x"}"#;
        let step = TurnActivity::ToolFinished {
            call: "a".to_owned(),
            success: true,
            elapsed_ms: 5,
            output: "x".to_owned(),
            output_bytes: 0,
            kept_in: None,
            change: None,
        };
        assert_eq!(serde_json::from_str::<TurnActivity>(line).unwrap(), step);
        let line = r#"{"activity":"tool_finished","call":"a","success":true,"elapsed_ms":5,"output":"x","output_bytes":0}"#;
        assert_eq!(serde_json::to_string(&step).unwrap(), line);
    }
}
