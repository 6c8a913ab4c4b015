//! The process of a bridge: from its first line to its end.
//!
//! Decision: the process leads a group of its own, so that an interrupt of the terminal reaches
//! nanobot alone, which then ends the bridge; and the group is killed with the value, so that
//! nothing of it remains. A crash of nanobot closes the standard input of the bridge, which ends it
//! as well.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nanobot_redact::{Secret, Secrets};
use nanobot_sandbox::ProcessGroup;
use sha2::{Digest as _, Sha256};
use tokio::io::BufReader;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::lock::FileLock;
use crate::output::{Output, read_line};
use crate::{BridgeError, listening};

/// Time until the bridge listens. It takes about a second.
const START_TIME: Duration = Duration::from_secs(30);
/// Time for the end after the standard input was closed.
const STOP_TIME: Duration = Duration::from_secs(2);
/// Time for the output to end after the process. Only a process that left the group can still hold
/// the pipes open.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// Exit code for wrong settings.
const WRONG_SETTINGS: i32 = 2;
/// Name of the process in logs.
const PROGRAM: &str = "bridge";

/// A running bridge. Dropping it kills the process with everything that it started.
#[derive(Debug)]
pub struct RunningBridge {
    url: String,
    token: Secret,
    folder: PathBuf,
    process: Process,
}

/// A process with its pipes and locks.
#[derive(Debug)]
struct Process {
    /// Declared before `child`, so that it is dropped while the process id is still in use.
    group: ProcessGroup,
    child: Child,
    input: Option<ChildStdin>,
    output: Arc<Output>,
    reading: TaskTracker,
    /// The reason of the end, if the process has ended.
    reason: Option<String>,
    /// Released last, when the process has ended.
    _locks: (FileLock, Option<FileLock>),
}

/// A bridge that is about to be started.
pub(crate) struct Started {
    /// Its command, with all variables except those of the supervisor.
    pub(crate) command: Command,
    pub(crate) folder: PathBuf,
    /// The lock of the account.
    pub(crate) lock: FileLock,
    /// The lock of the installed version.
    pub(crate) version_lock: Option<FileLock>,
    /// Secrets in the variables.
    pub(crate) secrets: Secrets,
}

/// Starts a bridge and waits until it listens.
pub(crate) async fn start(started: Started) -> Result<RunningBridge, BridgeError> {
    let Started {
        mut command,
        folder,
        mut lock,
        version_lock,
        secrets,
    } = started;
    lock.wait_for_predecessor().await;
    let token = random_token();
    secrets.add([token.expose().to_owned()]);
    command
        .env("BRIDGE_PORT", "0")
        .env("BRIDGE_TOKEN", token.expose())
        .env("BRIDGE_SUPERVISED", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    ProcessGroup::lead(command.as_std_mut());
    let (mut process, stdout) = Process::spawn(command, secrets, (lock, version_lock))?;
    let mut stdout = BufReader::new(stdout);
    let url = process.first_line(&mut stdout).await?;
    let output = Arc::clone(&process.output);
    // The rest belongs to nobody, and a full pipe would block the bridge.
    process.follow(async move { output.follow(stdout, PROGRAM).await });
    Ok(RunningBridge {
        url,
        token,
        folder,
        process,
    })
}

impl RunningBridge {
    /// The address for the client (`ws://127.0.0.1:40123`).
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The token for the client.
    #[must_use]
    pub fn token(&self) -> &str {
        self.token.expose()
    }

    /// Waits until the process has ended, and returns why, with the last lines of its output. May
    /// be cancelled and called again.
    pub async fn ended(&mut self) -> BridgeError {
        BridgeError::Process(self.process.ended().await)
    }

    /// Ends the process, by force after two seconds.
    pub async fn stop(mut self) {
        self.process.input = None;
        if timeout(STOP_TIME, self.process.ended()).await.is_err() {
            tracing::warn!("WhatsApp bridge did not end when it was told to");
            self.process.group.kill();
            self.process.ended().await;
        }
    }

    /// The folder of the installation.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }
}

impl Process {
    /// Starts a command. Its standard output is returned, its error output is followed.
    fn spawn(
        mut command: Command,
        secrets: Secrets,
        mut locks: (FileLock, Option<FileLock>),
    ) -> Result<(Self, ChildStdout), BridgeError> {
        let failed = |why: &str| BridgeError::Process(format!("cannot be started: {why}"));
        let mut child = command
            .spawn()
            .map_err(|error| failed(&error.to_string()))?;
        let group = ProcessGroup::of(child.id());
        let pipes = (child.stdout.take(), child.stderr.take());
        let (Some(stdout), Some(stderr)) = pipes else {
            return Err(failed("it has no pipes"));
        };
        if let Some(pid) = child.id() {
            locks.0.name_process(pid)?;
        }
        let output = Arc::new(Output::new(secrets));
        let process = Self {
            group,
            input: child.stdin.take(),
            child,
            output: Arc::clone(&output),
            reading: TaskTracker::new(),
            reason: None,
            _locks: locks,
        };
        process.follow(async move { output.follow(stderr, PROGRAM).await });
        Ok((process, stdout))
    }

    fn follow(&self, reading: impl Future<Output = ()> + Send + 'static) {
        self.reading.spawn(reading);
    }

    /// Reads the address of the bridge.
    async fn first_line(
        &mut self,
        stdout: &mut BufReader<ChildStdout>,
    ) -> Result<String, BridgeError> {
        let read = timeout(START_TIME, read_line(stdout, listening::MAX_LINE)).await;
        let line = match read {
            Ok(Ok(Some(line))) => line,
            Ok(_closed) => {
                let ended = timeout(STOP_TIME, self.ended()).await;
                let silent = |_elapsed| self.output.explain("closed its output");
                return Err(BridgeError::Process(ended.unwrap_or_else(silent)));
            }
            Err(_elapsed) => {
                let why = format!("did not start within {} seconds", START_TIME.as_secs());
                return Err(BridgeError::Process(self.output.explain(&why)));
            }
        };
        listening::parse(&line).map_err(|why| {
            self.output.add(&line, PROGRAM);
            BridgeError::Process(self.output.explain(&why))
        })
    }

    /// Waits for the end and returns its reason.
    async fn ended(&mut self) -> String {
        if let Some(reason) = &self.reason {
            return reason.clone();
        }
        let status = self.child.wait().await;
        self.group.kill();
        self.reading.close();
        if timeout(DRAIN_TIME, self.reading.wait()).await.is_err() {
            tracing::debug!("output of the WhatsApp bridge was not read to its end");
        }
        let reason = match status {
            Ok(status) => self.output.explain(&describe(status)),
            Err(error) => format!("cannot be watched: {error}"),
        };
        self.reason.insert(reason).clone()
    }
}

/// Returns 256 random bits as hexadecimal digits. A random UUID has 122 random bits.
fn random_token() -> Secret {
    let mut hash = Sha256::new();
    for _ in 0..3 {
        hash.update(Uuid::new_v4());
    }
    Secret::new(format!("{:x}", hash.finalize()))
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(WRONG_SETTINGS) => format!("refused its settings (exit code {WRONG_SETTINGS})"),
        Some(code) => format!("ended with exit code {code}"),
        // A signal, with its number.
        None => format!("was killed ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_256_bits_and_differ() {
        let tokens = [random_token(), random_token()];
        assert_ne!(tokens[0], tokens[1]);
        for token in &tokens {
            assert_eq!(token.expose().len(), 64);
            assert!(token.expose().bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert!(!format!("{token:?}").contains(token.expose()));
        }
    }
}
