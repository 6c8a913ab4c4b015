//! Builds all tools of this crate from their configuration.

use std::sync::Arc;

use nanobot_guard::PathPolicy;
use nanobot_tool::Tool;

use crate::{
    ToolsError,
    config::ToolsConfig,
    exec::{CommandRunner, Exec},
    files::{ApplyPatch, EditFile, FindFiles, Grep, ListDir, ReadFile, WriteFile},
    operation::tool,
    web::{HttpClients, WebFetch, WebSearch},
};

/// Builds the tools that `config` enables, in the order in which a request lists them. Does no I/O:
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
) -> Result<Vec<Arc<dyn Tool>>, ToolsError> {
    let mut tools = Vec::new();
    if config.file.enable {
        tools.push(tool(ReadFile::new(
            Arc::clone(policy),
            Arc::clone(http.extractor()),
        )));
        tools.push(tool(WriteFile::new(Arc::clone(policy))));
        tools.push(tool(EditFile::new(Arc::clone(policy))));
        tools.push(tool(ListDir::new(Arc::clone(policy))));
    }
    if config.exec.enable {
        let urls = Arc::clone(http.guard());
        tools.push(tool(Exec::new(
            config.exec.clone(),
            Arc::clone(policy),
            urls,
            runner,
        )?));
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
    Ok(tools)
}

/// Builds the tools that requests do not list until the model searches for them: `apply_patch`,
/// `find_files` and `grep`, if file tools are enabled. Does no I/O.
#[must_use]
pub fn on_demand(config: &ToolsConfig, policy: &Arc<PathPolicy>) -> Vec<Arc<dyn Tool>> {
    if !config.file.enable {
        return Vec::new();
    }
    vec![
        tool(ApplyPatch::new(Arc::clone(policy))),
        tool(FindFiles::new(Arc::clone(policy))),
        tool(Grep::new(Arc::clone(policy))),
    ]
}
