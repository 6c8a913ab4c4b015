//! A process with everything that it starts, except processes that leave its group on purpose; in a
//! sandbox those end with it, too. Where there are no process groups, only the process itself is
//! killed, by its own handle.

use std::process::Command;

/// A process group, which is killed when this value is dropped.
#[derive(Debug)]
pub struct ProcessGroup {
    #[cfg(unix)]
    leader: Option<nix::unistd::Pid>,
}

impl ProcessGroup {
    /// Makes the process that `command` starts the leader of a new group.
    pub fn lead(command: &mut Command) {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        #[cfg(not(unix))]
        let _ = command;
    }

    /// Names the group by the id of its running leader; `None` if that has already ended.
    #[must_use]
    pub fn of(leader: Option<u32>) -> Self {
        #[cfg(not(unix))]
        let _ = leader;
        Self {
            #[cfg(unix)]
            leader: leader
                .and_then(|id| i32::try_from(id).ok())
                .map(nix::unistd::Pid::from_raw),
        }
    }

    /// Kills the group, once only: afterwards the id may belong to another group.
    pub fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader.take()
            && let Err(error) = nix::sys::signal::killpg(leader, nix::sys::signal::SIGKILL)
        {
            // Usually the group has already ended.
            tracing::trace!(%error, "process group not killed");
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn dropped_group_takes_its_children_with_it() {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "sleep 600 & sleep 600"])
            .stdout(Stdio::piped());
        ProcessGroup::lead(&mut command);
        let mut child = command.spawn().unwrap();
        drop(ProcessGroup::of(Some(child.id())));
        // The pipe ends with the last process that holds it.
        let mut output = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
