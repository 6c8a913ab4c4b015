//! The configuration of tool files.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum time of one call, in seconds.
pub(crate) const MAX_TIMEOUT: u64 = 600;

/// `tools.toolFiles`: tools in the folder `tools` of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolFilesConfig {
    /// Enables tools in files.
    pub enable: bool,
    /// Time limit of one call in seconds, at most 600, for tools that do not set one.
    #[schemars(range(min = 1, max = 600))]
    pub timeout: u64,
    /// Effect of a finding of the scan of a Python file.
    pub scan: ScanMode,
    /// Folders in the workspace that tools may write, if they exist; they may read all of the
    /// workspace.
    pub allowed_dirs: Vec<PathBuf>,
    /// Names of tools that may use the network, services of this computer included.
    pub network: Vec<String>,
    /// Program that runs Python files, 3.9 or later; empty for the `python3` of the system.
    pub python: String,
}

impl Default for ToolFilesConfig {
    fn default() -> Self {
        Self {
            enable: true,
            timeout: 60,
            scan: ScanMode::Refuse,
            allowed_dirs: vec!["data".into()],
            network: Vec::new(),
            python: String::new(),
        }
    }
}

impl ToolFilesConfig {
    /// Returns the time limit of a call of a tool that asks for `seconds`.
    pub(crate) fn limit(&self, seconds: Option<u64>) -> Duration {
        let seconds = seconds.unwrap_or(self.timeout);
        Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT))
    }
}

/// `tools.toolFiles.scan`: what a finding does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScanMode {
    /// The file is not loaded.
    #[default]
    Refuse,
    /// The file is loaded, and the finding is shown.
    Warn,
}
