//! Access of a tool file: the strictest view that is still of use.
//!
//! Decision: the profile of commands (`tools.exec.sandbox`) does not matter here. A command runs
//! because the model decided to; a tool file runs whenever its name is called, with code that was
//! perhaps written in another conversation. So it is confined even where commands are not, and
//! without a sandbox it does not run. Functions that are not `async` block.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use nanobot_guard::{PathPolicy, RootAccess};
use nanobot_sandbox::{
    Base, ConfinedProcess, Limits, Mechanism, PathAccess, Sandbox, SandboxError, SandboxedCommand,
    View,
};
use tokio_util::task::TaskTracker;

use crate::config::ToolFilesConfig;
use crate::folder::FOLDER;
use crate::process::Process;

/// Variables that a tool inherits if they are set. None holds a secret.
const INHERITED: [&str; 6] = ["HOME", "LANG", "LC_ALL", "PATH", "TERM", "TZ"];

/// Limits of each process of a tool.
const LIMITS: Limits = Limits {
    memory: Some(1 << 30),
    processes: Some(64),
    file_size: Some(256 << 20),
    // The process of a tool serves many calls, each with a time limit.
    cpu_seconds: None,
};

/// Folders that are passed to a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The workspace, without links.
    pub(crate) workspace: PathBuf,
    /// The existing folders that it may write.
    pub(crate) allowed_dirs: Vec<PathBuf>,
}

/// Starts the processes of tools. The sandbox is found and probed before the first one.
#[derive(Debug)]
pub(crate) struct Confinement {
    policy: PathPolicy,
    config: ToolFilesConfig,
    launcher: Option<PathBuf>,
    mechanism: Option<Mechanism>,
    sandbox: OnceLock<Result<Sandbox, String>>,
}

impl Confinement {
    /// Confines tools to the workspace of `policy`. `launcher` and `mechanism` replace this program
    /// and the best mechanism of this system.
    pub(crate) fn new(
        policy: &PathPolicy,
        config: ToolFilesConfig,
        launcher: Option<PathBuf>,
        mechanism: Option<Mechanism>,
    ) -> Self {
        Self {
            policy: policy.confined(),
            config,
            launcher,
            mechanism,
            sandbox: OnceLock::new(),
        }
    }

    /// Returns the sandbox.
    ///
    /// # Errors
    /// Returns the reason why there is none, or why it does not hold.
    pub(crate) fn sandbox(&self) -> Result<&Sandbox, String> {
        let found = self.sandbox.get_or_init(|| {
            let found = self.find().map_err(|error| error.to_string());
            found.map_err(|error| format!("tools in files run only in a sandbox: {error}"))
        });
        found.as_ref().map_err(String::clone)
    }

    fn find(&self) -> Result<Sandbox, SandboxError> {
        Sandbox::probed(
            self.launcher.clone(),
            self.mechanism.clone(),
            &self.view("")?,
        )
    }

    /// Starts a process of a tool: a script for the system's shell, in the workspace, with
    /// `variables` in addition to those that every tool has.
    ///
    /// # Errors
    /// Returns the reason why it cannot be confined or started.
    pub(crate) async fn start(
        self: &Arc<Self>,
        tool: &str,
        script: String,
        variables: Vec<(OsString, OsString)>,
        tasks: &TaskTracker,
    ) -> Result<Process, String> {
        let (confinement, tool) = (Arc::clone(self), tool.to_owned());
        let confine =
            tokio::task::spawn_blocking(move || confinement.process(&tool, &script, variables));
        let confined = confine.await.map_err(|error| error.to_string())??;
        Process::start(confined, tasks).map_err(|error| format!("it did not start: {error}"))
    }

    fn process(
        &self,
        tool: &str,
        script: &str,
        variables: Vec<(OsString, OsString)>,
    ) -> Result<ConfinedProcess, String> {
        let sandbox = self.sandbox()?;
        let inherited = INHERITED
            .iter()
            .filter_map(|key| Some((key.into(), std::env::var_os(key)?)));
        let command = SandboxedCommand {
            script,
            directory: &self.workspace().map_err(|error| error.to_string())?,
            environment: inherited.chain(variables).collect(),
            limits: LIMITS,
        };
        let view = self.view(tool).map_err(|error| error.to_string())?;
        let confined = sandbox.command(&view, command);
        confined.map_err(|error| error.to_string())
    }

    /// Returns the present folders for tools; none if they cannot be found.
    pub(crate) async fn places(self: &Arc<Self>) -> Places {
        let confinement = Arc::clone(self);
        let find = move || Places {
            workspace: confinement.workspace().unwrap_or_default(),
            allowed_dirs: confinement.allowed_dirs(),
        };
        let found = tokio::task::spawn_blocking(find).await;
        found.unwrap_or_default()
    }

    fn workspace(&self) -> Result<PathBuf, SandboxError> {
        Ok(self.policy.workspace().canonicalize()?)
    }

    /// Returns the existing folders that tools may write: in the workspace, without links, and not
    /// the folder of the tools themselves.
    fn allowed_dirs(&self) -> Vec<PathBuf> {
        let Ok(workspace) = self.workspace() else {
            return Vec::new();
        };
        let tools = workspace.join(FOLDER);
        let is_allowed = |path: &PathBuf| {
            path.starts_with(&workspace)
                && *path != workspace
                && !path.starts_with(&tools)
                && path.is_dir()
        };
        let folders = self.config.allowed_dirs.iter();
        folders
            .filter_map(|folder| self.policy.write(folder).ok())
            .map(|resolved| resolved.path().to_owned())
            .filter(is_allowed)
            .collect()
    }

    /// Returns `true` if the operator granted the network to a tool.
    pub(crate) fn has_network(&self, tool: &str) -> bool {
        self.config.network.iter().any(|name| name == tool)
    }

    /// Returns what a tool sees of the file system and the network.
    fn view(&self, tool: &str) -> Result<View, SandboxError> {
        let workspace = self.workspace()?;
        let confinement = self.policy.confinement();
        let mut view = View::new(Base::System, confinement.home);
        if self.has_network(tool) {
            view = view.with_network();
        }
        for (path, access) in confinement.roots {
            let access = match access {
                RootAccess::Closed => PathAccess::Hidden,
                RootAccess::Write | RootAccess::Read | RootAccess::Protected => {
                    PathAccess::ReadOnly
                }
            };
            if access == PathAccess::Hidden || path.starts_with(&workspace) {
                view.set(path, access);
            }
        }
        for folder in self.allowed_dirs() {
            view.set(folder, PathAccess::ReadWrite);
        }
        Ok(view)
    }

    /// Returns the configuration.
    pub(crate) fn config(&self) -> &ToolFilesConfig {
        &self.config
    }

    /// Explains an error of a tool that the confinement caused.
    pub(crate) fn hint(&self, tool: &str, error: &str) -> Option<String> {
        let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
        if says(&CONFINED) {
            let folders: Vec<String> = self
                .config
                .allowed_dirs
                .iter()
                .map(|folder| folder.display().to_string())
                .collect();
            return Some(format!(
                "Tools in files read the workspace and write only in these folders of it, if they \
                 exist: {} (tools.toolFiles.allowedDirs).",
                folders.join(", ")
            ));
        }
        (says(&NO_NETWORK) && !self.has_network(tool)).then(|| {
            "Tools in files have no network; the operator can grant it (tools.toolFiles.network)."
                .to_owned()
        })
    }
}

/// Texts of programs that read or write outside of their view.
const CONFINED: [&str; 2] = ["Read-only file system", "Permission denied"];

/// Texts of programs that have no network.
const NO_NETWORK: [&str; 5] = [
    "Connection refused",
    "Could not resolve",
    "Name or service not known",
    "Network is unreachable",
    "name resolution",
];

/// Returns a text as one word of the shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns paths as one variable, separated as in `PATH`.
pub(crate) fn joined(paths: &[PathBuf]) -> OsString {
    std::env::join_paths(paths).unwrap_or_default()
}
