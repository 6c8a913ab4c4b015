//! A process under test: spawns it, waits for it, kills it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::{SuiteError, System};

/// Timeout for a process to become ready or to exit.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A running process. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: u32,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: PathBuf,
}

/// Outcome of a start.
#[derive(Debug)]
pub(crate) enum Start {
    Ready,
    /// It exited, or was not ready in time.
    Refused {
        code: Option<i32>,
        said: String,
    },
}

impl Process {
    /// Starts the program with its standard error redirected to a file.
    pub(crate) fn spawn(
        system: &dyn System,
        home: &Path,
        stderr: PathBuf,
    ) -> Result<Self, SuiteError> {
        let command = system.command(home);
        let program = PathBuf::from(command.get_program());
        let log = File::create(&stderr).map_err(SuiteError::file("create", &stderr))?;
        let mut command = Command::from(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let failed = |source| SuiteError::Spawn {
            program: program.clone(),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        let pid = child.id().unwrap_or_default();
        Ok(Self {
            child,
            pid,
            stdout: BufReader::new(stdout).lines(),
            stderr,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the process is ready or has exited.
    pub(crate) async fn wait_ready(&mut self, system: &dyn System) -> Start {
        let ready = async {
            while let Ok(Some(line)) = self.stdout.next_line().await {
                if system.is_ready(&line) {
                    return true;
                }
            }
            false
        };
        match tokio::time::timeout(START_LIMIT, ready).await {
            Ok(true) => Start::Ready,
            Ok(false) => {
                let code = self
                    .child
                    .wait()
                    .await
                    .ok()
                    .and_then(|status| status.code());
                Start::Refused {
                    code,
                    said: self.stderr(),
                }
            }
            Err(_) => Start::Refused {
                code: None,
                said: format!("nothing in {START_LIMIT:?}; {}", self.stderr()),
            },
        }
    }

    /// Kills the process with SIGKILL and waits for its exit.
    pub(crate) async fn kill(&mut self) {
        // An error means that it has already exited.
        drop(self.child.kill().await);
    }

    fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}
