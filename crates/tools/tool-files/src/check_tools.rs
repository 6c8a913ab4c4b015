//! `check_tools`: tells the assistant what became of its tool files.

use std::sync::Arc;

use nanobot_tool::{ToolContext, ToolError, TypedTool};
use nanobot_types::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::files::{ToolFileStatus, ToolFiles};
use crate::folder::FOLDER;

/// Lists the tool files with their problems. Requests need not list it: `TOOLS.md` names it.
#[derive(Debug)]
pub struct CheckTools {
    files: Arc<ToolFiles>,
}

/// There are no arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CheckArguments {}

impl CheckTools {
    /// Creates the tool over these files.
    #[must_use]
    pub fn new(files: Arc<ToolFiles>) -> Self {
        Self { files }
    }
}

impl TypedTool for CheckTools {
    type Args = CheckArguments;
    const NAME: &'static str = "check_tools";
    const DESCRIPTION: &'static str =
        "Check the tools you wrote in tools/: which are loaded, and why others are not.";
    const EFFECT: Effect = Effect::Idempotent;

    async fn call(&self, _: CheckArguments, _: &ToolContext) -> Result<String, ToolError> {
        let files = self.files.status().await;
        if files.is_empty() {
            return Ok(format!("There are no tool files in {FOLDER}/."));
        }
        let lines: Vec<String> = files.iter().map(line).collect();
        Ok(lines.join("\n"))
    }
}

fn line(file: &ToolFileStatus) -> String {
    let ToolFileStatus { file: name, .. } = file;
    let text = match (&file.tool, &file.problem) {
        (Some(tool), _) => {
            format!("{name}: loaded as {tool}; call it by this name or with tool_call")
        }
        (None, problem) => format!(
            "{name}: not loaded: {}",
            problem.clone().unwrap_or_default()
        ),
    };
    match file.findings.as_slice() {
        [] => text,
        findings => format!("{text}\n  warnings: {}", findings.join("; ")),
    }
}
