//! Creates the processes of commands.

use std::{
    any::Any,
    ffi::OsString,
    fmt, io,
    path::PathBuf,
    process::Command,
    sync::{Arc, OnceLock},
    time::Duration,
};

use nanobot_guard::{PathPolicy, RootAccess};
use nanobot_sandbox::{
    Base, Limits, Mechanism, PathAccess, Sandbox, SandboxError, SandboxedCommand, View,
};

use crate::config::{ExecConfig, SandboxProfile};

/// A command that is to be started.
#[derive(Debug, Clone)]
pub struct CommandRequest {
    /// Script for the system's shell.
    pub script: String,
    /// Folder that it starts in.
    pub directory: PathBuf,
    /// All variables of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Time after which it is killed.
    pub limit: Option<Duration>,
}

/// A process that is to be started, and what it needs.
#[derive(Debug)]
pub struct PreparedCommand {
    /// The process.
    pub process: Command,
    /// Something that has to exist while the process runs.
    pub needs: Option<Box<dyn Any + Send>>,
}

impl From<Command> for PreparedCommand {
    fn from(process: Command) -> Self {
        Self {
            process,
            needs: None,
        }
    }
}

/// Creates the process for a command. The tool adds pipes and a process group.
pub trait CommandRunner: Send + Sync + fmt::Debug {
    /// Returns a process that runs the script with the system's shell, possibly in a sandbox. This
    /// may access the disk and start processes.
    ///
    /// # Errors
    /// Returns an error if this runner cannot run commands as it promises. The model reads the
    /// reason.
    fn command(&self, request: &CommandRequest) -> io::Result<PreparedCommand>;

    /// `true` if commands may connect to other computers.
    fn has_network(&self) -> bool {
        true
    }

    /// Explains a failed command to the model if the output shows that this runner made it fail.
    fn hint(&self, output: &str) -> Option<String> {
        let _ = output;
        None
    }
}

/// Runs commands with the rights of this process, without a sandbox.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectRunner;

impl CommandRunner for DirectRunner {
    fn command(&self, request: &CommandRequest) -> io::Result<PreparedCommand> {
        let mut command = shell_command(&request.script);
        command
            .current_dir(&request.directory)
            .env_clear()
            .envs(request.environment.iter().cloned());
        Ok(command.into())
    }
}

#[cfg(not(windows))]
fn shell_command(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script);
    command
}

#[cfg(windows)]
fn shell_command(script: &str) -> Command {
    use std::os::windows::process::CommandExt as _;
    let mut command = Command::new("cmd");
    // `cmd` parses its own quoting, so the script is passed as is.
    command.arg("/C").raw_arg(script);
    command
}

/// Runs commands in the sandbox of this system, which is found and probed before the first one.
#[derive(Debug)]
pub struct SandboxRunner {
    policy: Arc<PathPolicy>,
    profile: SandboxProfile,
    config: ExecConfig,
    launcher: Option<PathBuf>,
    mechanism: Option<Mechanism>,
    sandbox: OnceLock<Result<Sandbox, Arc<SandboxError>>>,
}

impl SandboxRunner {
    /// Creates a runner for commands under `policy`, with this program as their launcher: its
    /// `main` has to call [`nanobot_sandbox::enter`] first, otherwise every command is refused.
    /// Nothing is started yet.
    #[must_use]
    pub fn new(config: &ExecConfig, policy: Arc<PathPolicy>) -> Self {
        Self {
            profile: config.sandbox.resolved(policy.is_restricted()),
            config: config.clone(),
            policy,
            launcher: None,
            mechanism: None,
            sandbox: OnceLock::new(),
        }
    }

    /// Uses another program as the launcher; its `main` calls [`nanobot_sandbox::enter`] first.
    #[must_use]
    pub fn with_launcher(self, launcher: PathBuf) -> Self {
        Self {
            launcher: Some(launcher),
            ..self
        }
    }

    /// Uses this mechanism rather than the best one of this system.
    #[must_use]
    pub fn with_mechanism(self, mechanism: Mechanism) -> Self {
        Self {
            mechanism: Some(mechanism),
            ..self
        }
    }

    /// Finds the sandbox and probes it, once. This starts processes. Returns the mechanism.
    ///
    /// # Errors
    /// Returns the reason why commands are refused.
    pub fn check(&self) -> Result<&Mechanism, Arc<SandboxError>> {
        self.sandbox().map(Sandbox::mechanism)
    }

    /// Returns the profile of the commands.
    #[must_use]
    pub fn profile(&self) -> SandboxProfile {
        self.profile
    }

    fn sandbox(&self) -> Result<&Sandbox, Arc<SandboxError>> {
        self.sandbox
            .get_or_init(|| {
                let (launcher, mechanism) = (self.launcher.clone(), self.mechanism.clone());
                Sandbox::probed(launcher, mechanism, &self.view()).map_err(Arc::new)
            })
            .as_ref()
            .map_err(Arc::clone)
    }

    fn view(&self) -> View {
        let confinement = self.policy.confinement();
        let base = match self.profile {
            SandboxProfile::Open => Base::Everything,
            _ => Base::System,
        };
        let mut view = View::new(base, confinement.home);
        if self.profile != SandboxProfile::Workspace {
            view = view.with_network();
        }
        for (path, access) in confinement.roots {
            let access = match access {
                RootAccess::Write => PathAccess::ReadWrite,
                RootAccess::Read | RootAccess::Protected => PathAccess::ReadOnly,
                RootAccess::Closed => PathAccess::Hidden,
            };
            view.set(path, access);
        }
        let binds = [
            (&self.config.sandbox_ro_binds, PathAccess::ReadOnly),
            (&self.config.sandbox_rw_binds, PathAccess::ReadWrite),
        ];
        for (paths, access) in binds {
            for path in paths {
                view.open(&self.policy.expanded(path), access);
            }
        }
        view
    }

    fn limits(&self, limit: Option<Duration>) -> Limits {
        let limits = self.config.limits;
        let bytes = |megabytes: u64| (megabytes > 0).then(|| megabytes.saturating_mul(1 << 20));
        Limits {
            memory: bytes(limits.memory_mb),
            processes: (limits.processes > 0).then_some(limits.processes),
            file_size: bytes(limits.file_size_mb),
            cpu_seconds: limit.map(|limit| limit.as_secs().max(1)),
        }
    }
}

impl CommandRunner for SandboxRunner {
    fn command(&self, request: &CommandRequest) -> io::Result<PreparedCommand> {
        let sandbox = self.sandbox().map_err(|error| {
            io::Error::other(format!(
                "{error}. The operator can install what is missing, or set tools.exec.sandbox to \
                 \"off\" to run commands with all rights of this user"
            ))
        })?;
        let directory = request.directory.canonicalize()?;
        let command = SandboxedCommand {
            script: &request.script,
            directory: &directory,
            environment: request.environment.clone(),
            limits: self.limits(request.limit),
        };
        let confined = sandbox
            .command(&self.view(), command)
            .map_err(io::Error::other)?;
        Ok(PreparedCommand {
            process: confined.process,
            needs: Some(Box::new(confined.placeholders)),
        })
    }

    fn has_network(&self) -> bool {
        self.profile != SandboxProfile::Workspace
    }

    fn hint(&self, output: &str) -> Option<String> {
        let sandbox = self.sandbox.get()?.as_ref().ok()?;
        explain(self.profile, sandbox.mechanism(), output).map(str::to_owned)
    }
}

/// Returns the explanation of a failure that the sandbox caused.
fn explain(profile: SandboxProfile, mechanism: &Mechanism, output: &str) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|word| output.contains(word));
    if profile == SandboxProfile::Workspace && says(&NO_NETWORK) {
        return Some(
            "Commands have no network (tools.exec.sandbox). Use web_fetch for pages; the operator \
             can set \"network\".",
        );
    }
    if *mechanism == Mechanism::Landlock && says(&["Permission denied"]) {
        return Some(
            "Without bubblewrap, commands create files only in folders that hold no protected file. \
             Use a subfolder, or write_file.",
        );
    }
    (profile != SandboxProfile::Open && says(&CONFINED)).then_some(
        "Commands write only inside the workspace, and not to protected files \
         (tools.exec.sandbox).",
    )
}

/// Texts of programs that have no network.
const NO_NETWORK: [&str; 5] = [
    "Could not resolve",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "getaddrinfo",
];

/// Texts of programs that write outside of the sandbox.
const CONFINED: [&str; 2] = ["Read-only file system", "Operation not permitted"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_by_the_sandbox_are_explained() {
        use SandboxProfile::{Network, Open, Workspace};
        let bubblewrap = Mechanism::Bubblewrap("/usr/bin/bwrap".into());
        for (profile, mechanism, output, expected) in [
            (
                Workspace,
                &bubblewrap,
                "Could not resolve host: a",
                "no network",
            ),
            (Network, &bubblewrap, "Could not resolve host: a", ""),
            (
                Workspace,
                &bubblewrap,
                "touch: Read-only file system",
                "protected files",
            ),
            (Open, &bubblewrap, "touch: Read-only file system", ""),
            (Workspace, &bubblewrap, "x: Permission denied", ""),
            (
                Open,
                &Mechanism::Landlock,
                "x: Permission denied",
                "Use a subfolder",
            ),
            (Workspace, &Mechanism::Landlock, "x: No such file", ""),
        ] {
            let hint = explain(profile, mechanism, output).unwrap_or_default();
            assert!(hint.contains(expected), "{output}: {hint}");
            assert_eq!(hint.is_empty(), expected.is_empty(), "{output}: {hint}");
        }
    }
}
