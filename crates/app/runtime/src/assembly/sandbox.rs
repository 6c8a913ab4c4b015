//! The sandbox of commands, as configured.

use std::sync::Arc;

use nanobot_guard::PathPolicy;
use nanobot_tools::{
    CommandRunner, DirectRunner, Mechanism, SandboxProfile, SandboxRunner, ToolsConfig,
};

use crate::assembly::path_rules::path_rules;
use crate::{Runtime, RuntimeError};

/// What starts the commands of tools.
#[derive(Debug, Clone)]
pub(crate) enum CommandSandbox {
    /// The `exec` tool is disabled.
    Disabled,
    /// The operator switched the sandbox off.
    Off,
    /// Commands run in a sandbox, or not at all.
    On(Arc<SandboxRunner>),
}

impl CommandSandbox {
    /// Returns the sandbox under a policy. Nothing is started.
    pub(crate) fn of(tools: &ToolsConfig, policy: &Arc<PathPolicy>) -> Self {
        if !tools.exec.enable {
            return Self::Disabled;
        }
        if tools.exec.sandbox == SandboxProfile::Off {
            return Self::Off;
        }
        Self::On(Arc::new(SandboxRunner::new(&tools.exec, policy.clone())))
    }

    /// Returns the sandbox of a configuration. Nothing is started.
    pub(crate) fn of_runtime(runtime: &Runtime) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        let tools: ToolsConfig = config.section("tools")?;
        let workspace = config.workspace()?;
        let policy = Arc::new(PathPolicy::new(path_rules(runtime, &tools, &workspace)?));
        Ok(Self::of(&tools, &policy))
    }

    pub(crate) fn runner(&self) -> Arc<dyn CommandRunner> {
        match self {
            Self::Disabled | Self::Off => Arc::new(DirectRunner),
            Self::On(runner) => runner.clone(),
        }
    }

    /// Probes the sandbox and logs the result. This starts processes.
    pub(crate) fn check_and_log(&self) {
        let Self::On(runner) = self else { return };
        match runner.check() {
            Ok(mechanism) => {
                tracing::info!(?mechanism, "the sandbox of commands holds");
            }
            Err(error) => {
                tracing::warn!(%error, "commands are refused: they cannot be confined");
            }
        }
    }

    /// Probes the sandbox and describes it, or returns why commands are refused. `Ok(None)` if
    /// there is none. This starts processes.
    pub(crate) fn describe(&self) -> Result<Option<String>, String> {
        let Self::On(runner) = self else {
            return Ok(None);
        };
        let mechanism = runner.check().map_err(|error| error.to_string())?;
        let by = match mechanism {
            Mechanism::Bubblewrap(program) => program.display().to_string(),
            Mechanism::Landlock => {
                "Landlock; they cannot create files beside protected ones, which bubblewrap allows"
                    .to_owned()
            }
        };
        let may = match runner.profile() {
            SandboxProfile::Network => "write in the workspace, with the network",
            SandboxProfile::Open => {
                "use everything that this user may, except protected and secret paths"
            }
            SandboxProfile::Automatic | SandboxProfile::Workspace | SandboxProfile::Off => {
                "write in the workspace, without a network"
            }
        };
        Ok(Some(format!("commands {may} (confined by {by})")))
    }
}

/// Returns the warning about commands without a sandbox, for every start of the program.
#[must_use]
pub fn sandbox_warning(runtime: &Runtime) -> Option<String> {
    // The start itself reports a section that cannot be read.
    let tools: ToolsConfig = runtime.config().section("tools").ok()?;
    let is_off = tools.exec.enable && tools.exec.sandbox == SandboxProfile::Off;
    is_off.then(|| OFF.to_owned())
}

/// The warning, for `status` and `doctor` as well.
pub(crate) const OFF: &str = "tools.exec.sandbox is \"off\": commands of the assistant run with all rights of this user, and no path is closed to them";
