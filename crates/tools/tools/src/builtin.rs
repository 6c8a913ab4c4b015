//! Builds all tools of this crate from their configuration.

use std::sync::Arc;

use nanobot_guard::PathPolicy;
use nanobot_tool::Tool;

use crate::{
    ToolsError,
    config::ToolsConfig,
    exec::{CommandRunner, CommandSessions, Exec, ListExecSessions, WriteStdin},
    files::{ApplyPatch, EditFile, FindFiles, Grep, ListDir, ReadFile, WriteFile},
    operation::tool,
    web::{HttpClients, WebFetch, WebSearch},
};

/// The tools of this crate.
#[derive(Debug, Default)]
pub struct BuiltInTools {
    /// Those that every request lists, in this order.
    pub listed: Vec<Arc<dyn Tool>>,
    /// Those that requests do not list until the model searches for them.
    pub on_demand: Vec<Arc<dyn Tool>>,
}

impl BuiltInTools {
    /// Returns all tools.
    #[must_use]
    pub fn all(self) -> Vec<Arc<dyn Tool>> {
        [self.listed, self.on_demand].concat()
    }
}

/// Builds the tools that `config` enables. Does no I/O:
/// HTTP clients are created by `http` when they are first needed, and commands are started by
/// `runner`.
///
/// # Errors
/// Returns [`ToolsError::Pattern`] if a pattern is not a regular expression.
pub fn builtin(
    config: &ToolsConfig,
    policy: &Arc<PathPolicy>,
    http: &Arc<HttpClients>,
    runner: Arc<dyn CommandRunner>,
) -> Result<BuiltInTools, ToolsError> {
    let mut tools = Vec::new();
    let mut on_demand = Vec::new();
    if config.file.enable {
        tools.push(tool(ReadFile::new(
            Arc::clone(policy),
            Arc::clone(http.extractor()),
        )));
        tools.push(tool(WriteFile::new(Arc::clone(policy))));
        tools.push(tool(EditFile::new(Arc::clone(policy))));
        tools.push(tool(ListDir::new(Arc::clone(policy))));
        on_demand.push(tool(ApplyPatch::new(Arc::clone(policy))));
        on_demand.push(tool(FindFiles::new(Arc::clone(policy))));
        on_demand.push(tool(Grep::new(Arc::clone(policy))));
    }
    if config.exec.enable {
        let urls = Arc::clone(http.guard());
        let sessions = Arc::new(CommandSessions::default());
        tools.push(tool(Exec::new(
            config.exec.clone(),
            Arc::clone(policy),
            urls,
            runner,
            Arc::clone(&sessions),
        )?));
        on_demand.push(tool(ListExecSessions::new(Arc::clone(&sessions))));
        on_demand.push(tool(WriteStdin::new(sessions)));
    }
    if config.web.enable {
        tools.push(tool(WebSearch::new(
            config.web.search.clone(),
            Arc::clone(http),
        )));
        tools.push(tool(WebFetch::new(
            config.web.fetch.clone(),
            Arc::clone(http),
        )));
    }
    Ok(BuiltInTools {
        listed: tools,
        on_demand,
    })
}
