//! Resource limits of a command.

use serde::{Deserialize, Serialize};

/// Resource limits of each process of a command. Without a value there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of one process (heap and private mappings), in bytes.
    pub memory: Option<u64>,
    /// Processes and threads at a time, in the whole sandbox.
    pub processes: Option<u64>,
    /// Size of one written file, in bytes.
    pub file_size: Option<u64>,
    /// CPU time of one process, in seconds.
    pub cpu_seconds: Option<u64>,
}

#[cfg(target_os = "linux")]
impl Limits {
    /// Sets the limits on this process, for it and all that it starts. `counts_others` is `true` if
    /// the kernel counts processes of the same user outside of the sandbox, too.
    pub(crate) fn set(self, counts_others: bool) -> nix::Result<()> {
        use nix::sys::resource::{Resource, setrlimit};

        let others = if counts_others { running_tasks() } else { 0 };
        let processes = self.processes.map(|limit| limit.saturating_add(others));
        for (resource, limit) in [
            (Resource::RLIMIT_CORE, Some(0)),
            (Resource::RLIMIT_DATA, self.memory),
            (Resource::RLIMIT_NPROC, processes),
            (Resource::RLIMIT_FSIZE, self.file_size),
            (Resource::RLIMIT_CPU, self.cpu_seconds),
        ] {
            if let Some(limit) = limit {
                lower(resource, limit, setrlimit)?;
            }
        }
        Ok(())
    }
}

/// Sets a limit, or the inherited one if that is lower and cannot be raised.
#[cfg(target_os = "linux")]
fn lower(
    resource: nix::sys::resource::Resource,
    limit: u64,
    set: impl Fn(nix::sys::resource::Resource, u64, u64) -> nix::Result<()>,
) -> nix::Result<()> {
    let (_, inherited) = nix::sys::resource::getrlimit(resource)?;
    let limit = limit.min(inherited);
    set(resource, limit, limit)
}

/// Returns the number of processes and threads of this computer: an upper bound for those of one
/// user.
#[cfg(target_os = "linux")]
fn running_tasks() -> u64 {
    // "0.20 0.18 0.12 1/80 11206": the fourth field is running/all.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace()
        .nth(3)
        .and_then(|tasks| tasks.split_once('/')?.1.parse().ok())
        .unwrap_or(0)
}
