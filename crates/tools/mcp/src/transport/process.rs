//! The process of a server: its own group, few variables, and no survivor.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::McpError;
use crate::config::McpServerConfig;

/// Variables that a server inherits if they are set. API keys and tokens of this program are not
/// among them.
const INHERITED: &[&str] = if cfg!(windows) {
    &[
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
    ]
} else {
    &["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"]
};

/// Starts the process of a server.
pub(super) fn start(config: &McpServerConfig) -> Result<(Child, ProcessGroup), McpError> {
    let inherited = INHERITED
        .iter()
        .filter_map(|key| Some((OsString::from(key), std::env::var_os(key)?)));
    let mut command = Command::new(expanded(config.command.trim()));
    command
        .args(&config.args)
        .env_clear()
        .envs(inherited)
        .envs(&config.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if !config.cwd.trim().is_empty() {
        command.current_dir(expanded(config.cwd.trim()));
    }
    #[cfg(unix)]
    command.process_group(0);
    let child = command.spawn().map_err(|source| McpError::Start {
        command: config.command.clone(),
        source,
    })?;
    let group = ProcessGroup::of(&child);
    Ok((child, group))
}

/// Replaces a leading `~` by the home folder.
fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

/// The processes that a server started, except those that left the group on purpose. They are
/// killed when this value is dropped.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    #[cfg(unix)]
    leader: Option<nix::unistd::Pid>,
}

#[cfg(unix)]
impl ProcessGroup {
    fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            leader: leader.map(nix::unistd::Pid::from_raw),
        }
    }

    /// Asks the group to end.
    pub(super) fn terminate(&self) {
        self.signal(nix::sys::signal::Signal::SIGTERM);
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        if let Some(leader) = self.leader
            && let Err(error) = nix::sys::signal::killpg(leader, signal)
        {
            // Usually the group has already ended.
            tracing::trace!(%error, "process group of an MCP server not signalled");
        }
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(nix::sys::signal::Signal::SIGKILL);
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    fn of(_child: &Child) -> Self {
        Self {}
    }

    /// Does nothing: the process itself is killed when its handle is dropped.
    pub(super) fn terminate(&self) {}
}
