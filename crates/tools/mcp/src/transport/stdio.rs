//! A server as a child process: one message per line.
//!
//! Decision: a line that is no message is skipped, because programs print to their standard output
//! while they start. A line over the size limit ends the connection: its message is lost, and who
//! waits for it should not wait longer.

use std::io;
use std::time::Duration;

use nanobot_escape::sanitize_line;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::MAX_MESSAGE;
use super::process::{ProcessGroup, start};
use crate::McpError;
use crate::config::McpServerConfig;
use crate::output::OutputTail;

/// Messages that wait to be written.
const QUEUE: usize = 16;
/// Time that a server has to end after its input was closed, and again after it was asked to.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum length of a line of error output, in bytes; the rest of the line becomes further lines.
const MAX_ERROR_LINE: u64 = 4096;

/// A line to write, and the receiver of the result.
type Outgoing = (Vec<u8>, oneshot::Sender<io::Result<()>>);

/// A connection to a child process. Dropping it kills the process with its group.
#[derive(Debug)]
pub(crate) struct StdioTransport {
    name: String,
    lines: BufReader<ChildStdout>,
    line: Vec<u8>,
    outgoing: Option<mpsc::Sender<Outgoing>>,
    child: Child,
    group: ProcessGroup,
}

impl StdioTransport {
    /// Starts the process. Its error output goes to the log and to `tail`.
    pub(crate) fn start(
        name: &str,
        config: &McpServerConfig,
        tasks: &TaskTracker,
        tail: &OutputTail,
    ) -> Result<Self, McpError> {
        let (mut child, group) = start(config)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(McpError::Session("it has no pipes".to_owned()));
        };
        let (outgoing, queue) = mpsc::channel(QUEUE);
        tasks.spawn(write_lines(stdin, queue));
        tasks.spawn(log_lines(name.to_owned(), stderr, tail.clone()));
        Ok(Self {
            name: name.to_owned(),
            lines: BufReader::new(stdout),
            line: Vec::new(),
            outgoing: Some(outgoing),
            child,
            group,
        })
    }

    /// Reads one line without its line feed; `None` at the end and after an oversized line. A
    /// cancelled read loses nothing.
    async fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let piece = self.lines.fill_buf().await.ok()?;
            if piece.is_empty() {
                return None;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let (taken, used) = match end {
                Some(end) => (piece.get(..end).unwrap_or_default(), end + 1),
                None => (piece, piece.len()),
            };
            if self.line.len() + taken.len() > MAX_MESSAGE {
                tracing::warn!(server = %self.name, "an MCP server sent a message over the size limit");
                return None;
            }
            self.line.extend_from_slice(taken);
            self.lines.consume(used);
            if end.is_some() {
                return Some(std::mem::take(&mut self.line));
            }
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = serde_json::to_vec(&item).map_err(io::Error::from);
        let queue = self.outgoing.clone();
        async move {
            let mut line = line?;
            line.push(b'\n');
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let (done, written) = oneshot::channel();
            let queue = queue.ok_or_else(closed)?;
            let sent = queue.send((line, done)).await;
            sent.map_err(|_queue_closed| closed())?;
            written.await.map_err(|_writer_ended| closed())?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = self.next_line().await?;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(message) => return Some(message),
                Err(error) => {
                    tracing::debug!(server = %self.name, %error, "an MCP server printed a line that is no message");
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A server ends when its input ends.
        drop(self.outgoing.take());
        if tokio::time::timeout(GRACE, self.child.wait())
            .await
            .is_err()
        {
            self.group.terminate();
            drop(tokio::time::timeout(GRACE, self.child.wait()).await);
        }
        Ok(())
    }
}

async fn write_lines(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some((line, done)) = queue.recv().await {
        let written = async {
            stdin.write_all(&line).await?;
            stdin.flush().await
        };
        let result = written.await;
        let is_over = result.is_err();
        // The sender may have stopped waiting.
        drop(done.send(result));
        if is_over {
            return;
        }
    }
}

async fn log_lines(name: String, errors: impl AsyncRead + Unpin, tail: OutputTail) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut piece = (&mut errors).take(MAX_ERROR_LINE);
        match piece.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = sanitize_line(String::from_utf8_lossy(&line).trim_end());
        if !text.trim().is_empty() {
            tracing::debug!(server = %name, line = %text, "error output of an MCP server");
            tail.push(&text);
        }
    }
}
