//! A running process of a tool: its pipes, its group, and the end of its error output.
//!
//! Decision: a process never outlives its value, and neither does what it started. Lines are
//! bounded while they are read, and error output is drained all the time, so that neither fills
//! memory nor blocks the process.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_escape::sanitize_line;
use nanobot_sandbox::{ConfinedProcess, Placeholders, ProcessGroup};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// Maximum size of one line or of the whole output, in bytes.
pub(crate) const MAX_OUTPUT: usize = 8 << 20;
/// Bytes of error output that are kept, the last ones.
const MAX_ERRORS: usize = 4096;
/// Lines of error output in a message.
const SHOWN_LINES: usize = 5;
/// Time for the error output to end after the process was killed. Only a process that left the
/// group can still hold the pipe open.
const DRAIN: Duration = Duration::from_secs(1);

/// A process. It is killed with its group when this value is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    group: ProcessGroup,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: Arc<Mutex<VecDeque<u8>>>,
    reading: JoinHandle<()>,
    _placeholders: Placeholders,
}

/// Failure of a process.
#[derive(Debug)]
pub(crate) enum ProcessFailure {
    /// It ended, or closed its output.
    Ended,
    /// Its output is larger than the limit.
    TooLarge,
    /// Its output is not what was asked for.
    Garbled,
}

impl Process {
    /// Starts a process.
    ///
    /// # Errors
    /// Returns the error of the platform.
    pub(crate) fn start(confined: ConfinedProcess, tasks: &TaskTracker) -> io::Result<Self> {
        let ConfinedProcess {
            mut process,
            placeholders,
        } = confined;
        process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        ProcessGroup::lead(&mut process);
        let mut child = Command::from(process).kill_on_drop(true).spawn()?;
        let group = ProcessGroup::of(child.id());
        let pipes = (child.stdout.take(), child.stderr.take());
        let (Some(output), Some(stderr)) = pipes else {
            return Err(io::Error::other("it has no pipes"));
        };
        let errors = Arc::new(Mutex::default());
        let reading = tasks.spawn(keep_last(stderr, Arc::clone(&errors)));
        Ok(Self {
            input: child.stdin.take(),
            output: BufReader::new(output),
            child,
            group,
            errors,
            reading,
            _placeholders: placeholders,
        })
    }

    /// `true` if it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Writes to its input.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), ProcessFailure> {
        let Some(input) = &mut self.input else {
            return Err(ProcessFailure::Ended);
        };
        let writing = async {
            input.write_all(bytes).await?;
            input.flush().await
        };
        writing
            .await
            .map_err(|_pipe_closed: io::Error| ProcessFailure::Ended)
    }

    /// Closes its input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Reads one line without its line feed.
    pub(crate) async fn read_line(&mut self) -> Result<Vec<u8>, ProcessFailure> {
        let mut line = Vec::new();
        let mut limited = (&mut self.output).take(MAX_OUTPUT as u64 + 1);
        let read = limited.read_until(b'\n', &mut line).await;
        if read.is_err() {
            return Err(ProcessFailure::Ended);
        }
        match line.pop() {
            Some(b'\n') => Ok(line),
            _ if line.len() >= MAX_OUTPUT => Err(ProcessFailure::TooLarge),
            _ => Err(ProcessFailure::Ended),
        }
    }

    /// Reads its output to the end.
    pub(crate) async fn read_to_end(&mut self) -> Result<Vec<u8>, ProcessFailure> {
        let mut output = Vec::new();
        let mut limited = (&mut self.output).take(MAX_OUTPUT as u64 + 1);
        match limited.read_to_end(&mut output).await {
            Ok(_) if output.len() > MAX_OUTPUT => Err(ProcessFailure::TooLarge),
            Ok(_) => Ok(output),
            Err(_) => Err(ProcessFailure::Ended),
        }
    }

    /// Waits for its end and returns `true` if it succeeded, and the status as a text.
    pub(crate) async fn wait(&mut self) -> (bool, String) {
        match self.child.wait().await {
            Ok(status) => (status.success(), status.to_string()),
            Err(error) => (false, error.to_string()),
        }
    }

    /// Kills it and returns the last lines of its error output; empty if there are none.
    pub(crate) async fn last_errors(mut self) -> String {
        self.group.kill();
        if tokio::time::timeout(DRAIN, &mut self.reading)
            .await
            .is_err()
        {
            tracing::debug!("error output of a tool was not read to its end");
        }
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = errors.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let lines = lines.get(lines.len().saturating_sub(SHOWN_LINES)..);
        sanitize_line(&lines.unwrap_or_default().join("\n"))
    }

    /// Kills it and says why it failed.
    pub(crate) async fn explain(self, failure: &ProcessFailure) -> String {
        match failure {
            ProcessFailure::TooLarge => {
                format!("it wrote more than {} MiB", MAX_OUTPUT >> 20)
            }
            ProcessFailure::Garbled => "it wrote something else than an answer".to_owned(),
            ProcessFailure::Ended => match self.last_errors().await {
                said if said.is_empty() => "it ended unexpectedly".to_owned(),
                said => format!("it ended unexpectedly: {said}"),
            },
        }
    }
}

async fn keep_last(mut pipe: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = vec![0; MAX_ERRORS];
    // A pipe that cannot be read has ended.
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(buffer.iter().take(read));
        let excess = kept.len().saturating_sub(MAX_ERRORS);
        kept.drain(..excess);
    }
}
