//! The task that owns the process.
//!
//! Decision: a task exchanges lines with the program, not the callers: a caller that is cancelled
//! leaves no half of a line behind.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use crate::{
    CryptoError,
    line::{encode, receive},
    protocol::{Operation, Outcome, Request, Response},
    stderr::Tail,
};

/// Requests that may wait.
const WAITING: usize = 64;

/// Time for the program to end after its stdin was closed.
const END: Duration = Duration::from_secs(10);

/// Variables that the program inherits if they are set. It reads none of them itself; Windows needs
/// them to start a process.
const INHERITED: &[&str] = if cfg!(windows) {
    &["SYSTEMDRIVE", "SYSTEMROOT", "TEMP"]
} else {
    &[]
};

/// Handle of the task that owns the process. The process ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    orders: mpsc::Sender<Order>,
}

#[derive(Debug)]
enum Order {
    Ask {
        operation: Box<Operation>,
        reply: oneshot::Sender<Result<Value, CryptoError>>,
    },
    /// `ended` is dropped after the program has ended.
    Close { ended: oneshot::Sender<()> },
}

impl Worker {
    /// Starts `program`, which keeps its temporary files in `folder`.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        request_time: Duration,
    ) -> Result<Self, CryptoError> {
        let cannot = |why: &dyn std::fmt::Display| {
            CryptoError::Program(format!("{} cannot be started: {why}", program.display()))
        };
        let mut child = command(program, folder).spawn().map_err(|e| cannot(&e))?;
        let input = child.stdin.take().ok_or_else(|| cannot(&"no stdin"))?;
        let output = child.stdout.take().ok_or_else(|| cannot(&"no stdout"))?;
        let errors = Tail::new(child.stderr.take());
        let program = Program {
            child,
            input,
            output: BufReader::new(output),
            errors,
            last_id: 0,
            request_time,
        };
        let (orders, waiting) = mpsc::channel(WAITING);
        // The task ends with its last handle.
        drop(TaskTracker::new().spawn(run(program, waiting)));
        Ok(Self { orders })
    }

    /// Returns the result of an operation.
    pub(crate) async fn ask(&self, operation: Operation) -> Result<Value, CryptoError> {
        let (reply, answer) = oneshot::channel();
        let operation = Box::new(operation);
        let order = Order::Ask { operation, reply };
        if self.orders.send(order).await.is_err() {
            return Err(ended());
        }
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Ends the program and waits for it.
    pub(crate) async fn close(&self) {
        let (ended, end) = oneshot::channel();
        if self.orders.send(Order::Close { ended }).await.is_ok() {
            // Always an error: the sender was dropped.
            drop(end.await);
        }
    }
}

fn ended() -> CryptoError {
    CryptoError::Program("has ended".to_owned())
}

fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        // SQLite would otherwise use a folder that the program cannot write to.
        .env("SQLITE_TMPDIR", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // Signals of the terminal are for the gateway, which closes the program.
    #[cfg(unix)]
    command.process_group(0).current_dir("/");
    command
}

async fn run(mut program: Program, mut waiting: mpsc::Receiver<Order>) {
    let mut failed = None;
    let mut closing = None;
    loop {
        let order = tokio::select! {
            order = waiting.recv() => order,
            () = program.errors.drain() => continue,
        };
        match order {
            Some(Order::Ask { operation, reply }) => {
                let result = match &failed {
                    None => program.ask(*operation).await,
                    Some(error) => Err(CryptoError::clone(error)),
                };
                if let Err(error @ CryptoError::Program(_)) = &result {
                    failed = Some(error.clone());
                }
                // The caller may have been cancelled.
                drop(reply.send(result));
            }
            Some(Order::Close { ended }) => {
                closing = Some(ended);
                break;
            }
            None => break,
        }
    }
    // Later requests find the channel closed.
    drop(waiting);
    program.end().await;
    // Dropping the sender wakes the caller, too; a cancelled one needs nothing.
    drop(closing);
}

#[derive(Debug)]
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    errors: Tail,
    last_id: u64,
    request_time: Duration,
}

impl Program {
    async fn ask(&mut self, operation: Operation) -> Result<Value, CryptoError> {
        self.last_id += 1;
        let id = self.last_id;
        let line = encode(&Request { id, operation })
            .map_err(|_too_long| CryptoError::Refused("the request is too large".to_owned()))?;
        let response = match timeout(self.request_time, self.exchange(&line)).await {
            Ok(Ok(response)) => response,
            Ok(Err(why)) => return Err(self.lost(&why).await),
            Err(_elapsed) => return Err(self.lost("does not answer").await),
        };
        let Ok(response) = serde_json::from_slice::<Response>(&response) else {
            return Err(self.lost("returned a line that is not a response").await);
        };
        if response.id != id {
            return Err(self.lost("answered another request").await);
        }
        match response.outcome {
            Outcome::Done(value) => Ok(value),
            Outcome::Failed(failure) => Err(failure.into()),
        }
    }

    /// Sends a line and returns the next one. Returns a reason if there is none.
    async fn exchange(&mut self, line: &[u8]) -> Result<Vec<u8>, String> {
        let Self {
            input,
            output,
            errors,
            ..
        } = self;
        let exchange = async {
            // A program that died while reading is diagnosed by its output.
            let sent = input.write_all(line).await;
            match receive(output).await {
                Ok(Some(line)) => sent
                    .map(|()| line)
                    .map_err(|_broken| "has ended".to_owned()),
                Ok(None) => Err("has ended".to_owned()),
                Err(error) => Err(format!("returned no response: {error}")),
            }
        };
        tokio::select! {
            result = exchange => result,
            // Never returns.
            () = errors.drain() => Err("has ended".to_owned()),
        }
    }

    /// Kills a program that is of no more use. Returns the error, with its last words.
    async fn lost(&mut self, why: &str) -> CryptoError {
        let status = self.kill().await;
        let mut text = why.to_owned();
        if let Some(status) = status {
            text = format!("{text} ({status})");
        }
        let words = self.errors.text();
        if !words.is_empty() {
            text = format!("{text}: {words}");
        }
        tracing::warn!(reason = %text, "the encryption program of Matrix is lost");
        CryptoError::Program(text)
    }

    /// Kills the process. Returns the status if it had ended on its own.
    async fn kill(&mut self) -> Option<std::process::ExitStatus> {
        const GRACE: Duration = Duration::from_millis(500);
        let on_its_own = timeout(GRACE, self.child.wait())
            .await
            .ok()
            .and_then(Result::ok);
        if on_its_own.is_none()
            && let Err(error) = self.child.start_kill()
        {
            tracing::debug!(%error, "the encryption program of Matrix cannot be killed");
        }
        // A process that the program started could keep its stderr open.
        let rest = async {
            self.errors.finish().await;
            self.child.wait().await
        };
        drop(timeout(END, rest).await);
        on_its_own
    }

    /// Closes stdin and waits for the end.
    async fn end(self) {
        let Self {
            mut child,
            input,
            output,
            mut errors,
            ..
        } = self;
        drop((input, output));
        let end = async {
            errors.finish().await;
            child.wait().await
        };
        match timeout(END, end).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => tracing::debug!(%status, "the encryption program of Matrix failed"),
            // It is killed when `child` is dropped.
            Ok(Err(_)) | Err(_) => tracing::warn!("the encryption program of Matrix did not end"),
        }
    }
}
