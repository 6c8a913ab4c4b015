//! The parent's side of one helper process.

use std::{
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nanobot_sandbox::ProcessGroup;
use tokio::{
    io::{BufReader, BufWriter},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{ARGUMENT, MAX_FACTS};
use crate::{ExtractError, exchange::Parts, frame, page::MAX_TEXT};

/// Timeout for the exit of a killed process.
const END: Duration = Duration::from_secs(2);

/// A helper that waits for a request or processes one. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct Helper {
    /// Declared before `child`, so that it is dropped while the process id is still in use.
    group: ProcessGroup,
    child: Child,
    /// With a buffer, so that a small request is one write and wakes the helper once.
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Reasons why a helper sent no response.
pub(super) enum HelperFailure {
    /// It ended before it read the request, as a worn-out helper does.
    Retired,
    /// It failed on this request and cannot be used again.
    For(ExtractError),
}

impl Helper {
    /// Starts `program` as a helper.
    pub(super) fn start(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg(ARGUMENT).env_clear().kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        #[cfg(unix)]
        command.current_dir("/");
        ProcessGroup::lead(command.as_std_mut());
        let mut child = command.spawn()?;
        let pipe = || io::Error::other("the reader has no pipe");
        let (input, output) = (
            BufWriter::new(child.stdin.take().ok_or_else(pipe)?),
            BufReader::new(child.stdout.take().ok_or_else(pipe)?),
        );
        let group = ProcessGroup::of(child.id());
        Ok(Self {
            group,
            child,
            input,
            output,
        })
    }

    /// Returns `true` if the process is running.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a request of `size` bytes and waits for the response.
    pub(super) async fn exchange(
        &mut self,
        request: &Parts,
        size: usize,
    ) -> Result<Parts, HelperFailure> {
        let sent = frame::send(&mut self.input, request).await;
        // A helper that died while reading is diagnosed by its exit status in either case.
        let limit = MAX_TEXT + MAX_FACTS + 2 * size;
        let received = match sent {
            Ok(()) => frame::receive(&mut self.output, limit).await,
            Err(error) => Err(error),
        };
        match received {
            Ok(parts) => Ok(parts),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(HelperFailure::For(ExtractError::TooMuch))
            }
            Err(_closed) => Err(self.reason().await),
        }
    }

    /// Kills the helper and its process group.
    pub(super) async fn end(mut self) {
        self.ended().await;
    }

    /// Returns the exit status after the pipe was closed.
    async fn ended(&mut self) -> Option<ExitStatus> {
        // A helper that closed its pipes on its own has its exit code already; any other is killed
        // here.
        self.group.kill();
        timeout(END, self.child.wait()).await.ok()?.ok()
    }

    async fn reason(&mut self) -> HelperFailure {
        let Some(status) = self.ended().await else {
            return HelperFailure::For(ExtractError::Ended(
                "it did not exit when killed".to_owned(),
            ));
        };
        if status.success() {
            return HelperFailure::Retired;
        }
        HelperFailure::For(
            signal::reason(status).unwrap_or_else(|| ExtractError::Ended(status.to_string())),
        )
    }
}

#[cfg(unix)]
mod signal {
    use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

    use nix::sys::signal::Signal;

    use crate::ExtractError;

    /// Maps the signal that ended a process to the limit that was exceeded.
    pub(super) fn reason(status: ExitStatus) -> Option<ExtractError> {
        match Signal::try_from(status.signal()?).ok()? {
            // Rust aborts on a stack overflow and on a failed allocation.
            Signal::SIGABRT | Signal::SIGSEGV | Signal::SIGBUS => Some(ExtractError::OutOfMemory),
            Signal::SIGXCPU => Some(ExtractError::OutOfTime),
            Signal::SIGILL | Signal::SIGTRAP | Signal::SIGFPE => Some(ExtractError::Broken),
            _ => None,
        }
    }
}

#[cfg(not(unix))]
mod signal {
    use std::process::ExitStatus;

    use crate::ExtractError;

    /// Windows exit codes for a stack overflow, an abort, and an access violation.
    const DEATHS: [u32; 3] = [0xC000_00FD, 0xC000_0409, 0xC000_0005];

    pub(super) fn reason(status: ExitStatus) -> Option<ExtractError> {
        let code = status.code()?.cast_unsigned();
        DEATHS.contains(&code).then_some(ExtractError::OutOfMemory)
    }
}
