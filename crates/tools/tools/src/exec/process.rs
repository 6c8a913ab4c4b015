//! Runs a process together with all its descendants.

use std::{
    future, io,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use nanobot_sandbox::ProcessGroup;
use tokio::{
    io::AsyncRead,
    process::Child,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::output::CapturedStream;

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
    ProcessGroup::lead(&mut command);
    let mut child = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()?;
    let mut group = ProcessGroup::of(child.id());
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
