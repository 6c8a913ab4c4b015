//! Tools in files of the workspace, as configured.

use std::collections::BTreeSet;
use std::sync::Arc;

use nanobot_agent_core::MessageTool;
use nanobot_config::Config;
use nanobot_guard::PathPolicy;
use nanobot_tool::{Registry, TOOL_CALL, TOOL_SEARCH, Tool, Typed, TypedTool as _};
use nanobot_tool_files::{CheckTools, ToolFiles, ToolFilesConfig, ToolFilesSettings};

use crate::RuntimeError;

/// Names of the tools that this program has with all features enabled, and their aliases. A file
/// takes none of them, even if the tool is disabled.
const BUILT_IN: [&str; 22] = [
    "apply_patch",
    CheckTools::NAME,
    "cron",
    "edit_file",
    "exec",
    "find_files",
    "grep",
    "list_dir",
    "list_exec_sessions",
    "memory_search",
    MessageTool::NAME,
    "message_user",
    "read_file",
    "remember",
    "session_search",
    "spawn",
    TOOL_CALL,
    TOOL_SEARCH,
    "web_fetch",
    "web_search",
    "write_file",
    "write_stdin",
];

/// The tools in files of an assistant; `None` if they are disabled. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct OwnTools(Option<Arc<ToolFiles>>);

impl OwnTools {
    /// Creates the tools of the workspace of `policy`. `others` are the tools of this program, whose
    /// names no file may take. Reads and starts nothing.
    pub(crate) fn of<'a>(
        config: &Config,
        policy: &PathPolicy,
        others: impl IntoIterator<Item = &'a Arc<dyn Tool>>,
    ) -> Result<Self, RuntimeError> {
        let settings: ToolFilesConfig = config.section("tools.toolFiles")?;
        if !settings.enable {
            return Ok(Self(None));
        }
        let others = others.into_iter().map(|tool| tool.spec().name.to_string());
        let reserved: BTreeSet<String> = BUILT_IN
            .map(str::to_owned)
            .into_iter()
            .chain(others)
            .collect();
        let settings = ToolFilesSettings::new(settings, policy.clone(), reserved);
        Ok(Self(Some(Arc::new(ToolFiles::new(settings)))))
    }

    /// Returns the files.
    pub(crate) fn files(&self) -> Option<&Arc<ToolFiles>> {
        self.0.as_ref()
    }

    /// Returns the registry with these tools in addition, now and later.
    pub(crate) fn feed(&self, registry: Registry) -> Registry {
        match &self.0 {
            Some(files) => registry.fed_by(files.clone()),
            None => registry,
        }
    }

    /// Returns the tool that checks the files.
    pub(crate) fn check_tool(&self) -> Option<Arc<dyn Tool>> {
        let files = self.0.clone()?;
        Some(Arc::new(Typed::new(CheckTools::new(files))))
    }
}

#[cfg(test)]
mod tests {
    use nanobot_tools::ToolsConfig;

    use super::*;

    /// A tool that is missing in the list could be replaced by a file.
    #[test]
    fn names_of_built_in_tools_are_reserved() {
        let policy = Arc::new(PathPolicy::new(nanobot_guard::PathRules::new("/nowhere")));
        let config = ToolsConfig::default();
        let guard = Arc::new(config.url_guard().unwrap());
        let reader = Arc::new(nanobot_testkit::InProcess);
        let http = nanobot_tools::HttpClients::new(&config.web, guard, reader);
        let runner = Arc::new(nanobot_tools::DirectRunner);
        let tools = nanobot_tools::builtin(&config, &policy, &Arc::new(http), runner).unwrap();
        let missing: Vec<String> = tools
            .all()
            .iter()
            .map(|tool| tool.spec().name.to_string())
            .filter(|name| !BUILT_IN.contains(&name.as_str()))
            .collect();
        assert_eq!(missing, Vec::<String>::new());
    }
}
