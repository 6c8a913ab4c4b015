//! Tools in files as their author and the operator see them: their state, and a run of one.

use std::sync::Arc;

use nanobot_guard::PathPolicy;
use nanobot_tool::{Registry, ToolContext};
use nanobot_tool_files::ToolFileStatus;
use nanobot_tools::ToolsConfig;
use nanobot_types::{ToolCall, ToolName};
use serde::Serialize;

use crate::assembly::path_rules::path_rules;
use crate::assembly::tool_files::OwnTools;
use crate::{Runtime, RuntimeError};

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolFileCall {
    /// The result, or the error, as a model reads it.
    pub output: String,
    /// `true` if the tool did what was asked.
    pub succeeded: bool,
}

/// The tools in files of a workspace.
#[derive(Debug)]
pub struct ToolFilesHome {
    own: OwnTools,
}

impl ToolFilesHome {
    /// Reads the configuration. Starts nothing.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the configuration cannot be used.
    pub fn of(runtime: &Runtime) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        let tools: ToolsConfig = config.section("tools")?;
        let policy = PathPolicy::new(path_rules(runtime, &tools, &config.workspace()?)?);
        let own = OwnTools::of(config, &policy, &runtime.extensions().tools)?;
        Ok(Self { own })
    }

    /// Returns `true` if tools in files are enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.own.files().is_some()
    }

    /// Scans and loads all files in the sandbox, and returns their state by name. Needs a Tokio
    /// runtime.
    pub async fn list(&self) -> Vec<ToolFileStatus> {
        match self.own.files() {
            Some(files) => files.status().await,
            None => Vec::new(),
        }
    }

    /// Calls a tool, with the checks of every call. `arguments` is the text of a JSON object.
    ///
    /// # Errors
    /// Returns [`RuntimeError::UnknownToolFile`] if no loaded file has this tool. A failed call is a
    /// result.
    pub async fn run(&self, name: &str, arguments: &str) -> Result<ToolFileCall, RuntimeError> {
        let registry = Arc::new(self.own.feed(Registry::new()));
        registry.refresh().await;
        if registry.get(&ToolName::from(name)).is_none() {
            let name = name.to_owned();
            return Err(RuntimeError::UnknownToolFile { name });
        }
        let call = ToolCall::new("run", name, arguments);
        let context = ToolContext::detached("cli:direct");
        let result = registry.run(&call, &context).await;
        Ok(ToolFileCall {
            output: result.output,
            succeeded: result.success,
        })
    }
}
