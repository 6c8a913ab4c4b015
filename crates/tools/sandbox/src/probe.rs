//! The effect probe: a process in the sandbox tries to do what its view forbids.

use std::{
    fs,
    io::{self, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{SandboxError, scratch::ScratchFolder, view::View};

/// Timeout of the whole probe.
const LIMIT: Duration = Duration::from_secs(10);
/// Timeout of one connection.
const CONNECT: Duration = Duration::from_millis(500);
/// Content of the secret file.
const SECRET: &str = "nanobot-probe-secret";

/// What the process has to try.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Attempts {
    /// A file that it must not be able to read.
    secret: PathBuf,
    /// A file that it must not be able to create.
    written: PathBuf,
    /// An address that answers.
    address: SocketAddr,
    /// A process outside of the sandbox.
    process: u32,
}

/// What the process could do.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Effects {
    read: bool,
    written: bool,
    connected: bool,
    saw_process: bool,
}

/// Tries everything and reports it on standard output.
pub(crate) fn attempt(attempts: &Attempts) -> io::Result<ExitCode> {
    let process = format!("/proc/{}/stat", attempts.process);
    let effects = Effects {
        read: fs::read_to_string(&attempts.secret).is_ok_and(|text| text == SECRET),
        written: fs::write(&attempts.written, SECRET).is_ok(),
        connected: TcpStream::connect_timeout(&attempts.address, CONNECT).is_ok(),
        saw_process: fs::read_to_string(process).is_ok(),
    };
    let report = serde_json::to_string(&effects)?;
    io::stdout().write_all(report.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the probe with a command that `start` makes for the attempts. `closed` is a folder of this
/// user that the view has to hide; files are created in it for a moment.
pub(crate) fn run(
    view: &View,
    closed: &Path,
    start: impl FnOnce(Attempts) -> Result<Command, SandboxError>,
) -> Result<(), SandboxError> {
    let folder = ScratchFolder::create_in(closed, ".sandbox-probe-")?;
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let secret = folder.path().join("secret");
    fs::write(&secret, SECRET)?;
    let written = folder.path().join("written");
    let command = start(Attempts {
        secret,
        written: written.clone(),
        address: listener.local_addr()?,
        process: std::process::id(),
    })?;
    let reported = finish(command)?;
    let broken = |what: &str| Err(SandboxError::Broken(what.to_owned()));
    if written.exists() || reported.written {
        return broken("a command could write a file outside");
    }
    if reported.read {
        return broken("a command could read a secret file");
    }
    if reported.saw_process {
        return broken("a command could see another process");
    }
    let connected = reported.connected || listener.accept().is_ok();
    if connected && !view.has_network() {
        return broken("a command could open a connection");
    }
    Ok(())
}

/// Runs the command to its end and reads its report.
fn finish(mut command: Command) -> Result<Effects, SandboxError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn()?;
    let id = child.id();
    let (ended, ending) = mpsc::channel();
    let waiting = thread::spawn(move || ended.send(child.wait_with_output()));
    let output = match ending.recv_timeout(LIMIT) {
        Ok(output) => output?,
        Err(_timeout) => {
            kill(id);
            drop(waiting);
            return Err(SandboxError::Broken("its probe did not end".to_owned()));
        }
    };
    serde_json::from_slice(&output.stdout).map_err(|_not_a_report| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let said = errors.lines().last().unwrap_or_default();
        SandboxError::Unavailable(format!("its probe ended with {}: {said}", output.status))
    })
}

/// Kills a process that has not been waited for.
#[cfg(target_os = "linux")]
fn kill(id: u32) {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    let process = i32::try_from(id).map(Pid::from_raw);
    if let Ok(Err(error)) = process.map(|process| kill(process, Signal::SIGKILL)) {
        tracing::debug!(%error, "the probe of the sandbox was not killed");
    }
}

#[cfg(not(target_os = "linux"))]
fn kill(_id: u32) {}
