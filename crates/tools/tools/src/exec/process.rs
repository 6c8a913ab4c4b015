//! Runs a process together with all its descendants.

use std::{
    future, io,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::AsyncRead,
    process::Child,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::output::CapturedStream;
pub(super) use group::{CommandGroup, start_new_group};

/// Time limit for draining the output after the process group has been killed. Only a process that
/// left the group can still hold a pipe open.
pub(super) const DRAIN: Duration = Duration::from_secs(1);

/// The way a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// It exited with this code, or with the negative number of the signal that ended it.
    Exited(i32),
    /// It was killed after this timeout.
    TimedOut(Duration),
    /// It was killed because its turn was stopped.
    Cancelled,
}

/// Output and end of a process.
#[derive(Debug)]
pub(super) struct FinishedProcess {
    pub(super) stdout: CapturedStream,
    pub(super) stderr: CapturedStream,
    pub(super) end: ProcessEnd,
}

/// Runs `command` to its end, or kills it after `limit` or when `cancel` fires. When this returns
/// or is dropped, the process and its group are gone.
pub(super) async fn run(
    mut command: Command,
    limit: Option<Duration>,
    cancel: &CancellationToken,
) -> io::Result<FinishedProcess> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    start_new_group(&mut command);
    let mut child = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()?;
    let mut group = CommandGroup::of(&child);
    let (mut stdout, mut stderr) = (CapturedStream::default(), CapturedStream::default());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let end = {
        let reading = async { tokio::try_join!(fill(&mut stdout, out), fill(&mut stderr, err)) };
        tokio::pin!(reading);
        let ending = ended(&mut child, limit, cancel);
        tokio::pin!(ending);
        // Read while waiting; otherwise a full pipe would block the process for ever.
        let (end, read) = tokio::select! {
            end = &mut ending => (end, false),
            read = &mut reading => {
                read?;
                (ending.await, true)
            }
        };
        group.kill();
        if !read && let Ok(read) = timeout(DRAIN, reading).await {
            read?;
        }
        end?
    };
    if !matches!(end, ProcessEnd::Exited(_)) {
        child.kill().await?;
    }
    Ok(FinishedProcess {
        stdout,
        stderr,
        end,
    })
}

async fn fill(
    captured: &mut CapturedStream,
    pipe: Option<impl AsyncRead + Unpin>,
) -> io::Result<()> {
    match pipe {
        Some(pipe) => captured.fill(pipe).await,
        None => Ok(()),
    }
}

async fn ended(
    child: &mut Child,
    limit: Option<Duration>,
    cancel: &CancellationToken,
) -> io::Result<ProcessEnd> {
    let expired = async {
        match limit {
            Some(limit) => {
                sleep(limit).await;
                limit
            }
            None => future::pending().await,
        }
    };
    tokio::select! {
        status = child.wait() => Ok(ProcessEnd::Exited(code(status?))),
        limit = expired => Ok(ProcessEnd::TimedOut(limit)),
        () = cancel.cancelled() => Ok(ProcessEnd::Cancelled),
    }
}

pub(super) fn code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        status
            .code()
            .or_else(|| status.signal().map(|signal| -signal))
            .unwrap_or(-1)
    }
    #[cfg(not(unix))]
    {
        status.code().unwrap_or(-1)
    }
}

#[cfg(unix)]
mod group {
    //! A process group: everything the command starts, except processes that leave the group on
    //! purpose.

    use std::{os::unix::process::CommandExt as _, process::Command};

    use nix::{
        sys::signal::{Signal, killpg},
        unistd::Pid,
    };
    use tokio::process::Child;

    /// Makes the process the leader of a new group.
    pub(in crate::exec) fn start_new_group(command: &mut Command) {
        command.process_group(0);
    }

    /// A process group that is killed when this value is dropped.
    pub(in crate::exec) struct CommandGroup(Option<Pid>);

    impl CommandGroup {
        pub(in crate::exec) fn of(child: &Child) -> Self {
            let leader = child.id().and_then(|id| i32::try_from(id).ok());
            Self(leader.map(Pid::from_raw))
        }

        /// Kills the group, once only: afterwards the id may belong to another process.
        pub(in crate::exec) fn kill(&mut self) {
            if let Some(leader) = self.0.take()
                && let Err(error) = killpg(leader, Signal::SIGKILL)
            {
                // Usually the group has already ended.
                tracing::trace!(%error, "process group not killed");
            }
        }
    }

    impl Drop for CommandGroup {
        fn drop(&mut self) {
            self.kill();
        }
    }
}

#[cfg(not(unix))]
mod group {
    //! Without process groups, only the shell itself is killed, when its handle is dropped.

    use std::process::Command;

    use tokio::process::Child;

    pub(in crate::exec) fn start_new_group(_command: &mut Command) {}

    pub(in crate::exec) struct CommandGroup;

    impl CommandGroup {
        pub(in crate::exec) fn of(_child: &Child) -> Self {
            Self
        }

        pub(in crate::exec) fn kill(&mut self) {}
    }
}
