//! `check_tools`: tells the assistant how to write a tool file, and what became of those it wrote.
//!
//! Decision: the guide is the result of a call and no part of `TOOLS.md`, because every request would
//! pay for it, and a workspace keeps the `TOOLS.md` of the version that created it.

use std::sync::Arc;

use nanobot_tool::{ToolContext, ToolError, TypedTool};
use nanobot_types::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::files::{ToolFileStatus, ToolFiles};
use crate::folder::FOLDER;

/// The guide for authors.
const GUIDE: &str = include_str!("guide.md");

/// Lists the tool files with their problems. Requests need not list it: `TOOLS.md` names it.
#[derive(Debug)]
pub struct CheckTools {
    files: Arc<ToolFiles>,
}

/// Arguments of the tool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct CheckArguments {
    /// Also explain how to write one
    #[serde(default)]
    pub guide: bool,
}

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
    const DESCRIPTION: &'static str = "Check the tools you wrote in tools/: how to write one, which are loaded, why others are not.";
    const EFFECT: Effect = Effect::Idempotent;

    async fn call(&self, arguments: CheckArguments, _: &ToolContext) -> Result<String, ToolError> {
        let files = self.files.status().await;
        let mut lines: Vec<String> = files.iter().map(line).collect();
        if files.is_empty() {
            lines.push(format!("There are no tool files in {FOLDER}/."));
        }
        if files.is_empty() || arguments.guide {
            lines.push(format!("\n{}", GUIDE.trim_end()));
        }
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
