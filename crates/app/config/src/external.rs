//! Secrets outside the configuration: `file:PATH` and `exec:COMMAND ARGUMENTS`.
//!
//! Decision: only the configuration file may contain such a reference, and only under the name of a
//! secret. Any other text that begins so is plain text. A reference is resolved once for each loaded
//! configuration, when it is first needed, and is never written back. `literal:` before a text keeps
//! it as it is.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::{Environment, Paths};

/// Maximum size of a secret, in bytes.
const MAX_SIZE: u64 = 64 << 10;
/// Maximum run time of a command.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Interval of checks whether a command has ended.
const POLL: Duration = Duration::from_millis(5);
/// Variables that a command receives.
const PASSED_ON: [&str; 7] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GPG_TTY",
];

/// A reference to a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExternalSecret<'a> {
    File(&'a str),
    Command(&'a str),
    /// The text itself.
    Literal(&'a str),
}

impl<'a> ExternalSecret<'a> {
    /// Parses the value of a secret; `None` if it is the secret itself.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "file" => Some(Self::File(rest)),
            "exec" => Some(Self::Command(rest)),
            "literal" => Some(Self::Literal(rest)),
            _ => None,
        }
    }

    /// Returns the secret. The error is the reason for the user and contains no secret.
    pub(crate) fn resolve(
        self,
        paths: &Paths,
        environment: &Environment,
    ) -> Result<String, String> {
        match self {
            Self::File(path) => read_file(path, paths),
            Self::Command(command) => run(command, paths, environment),
            Self::Literal(text) => Ok(text.to_owned()),
        }
    }
}

/// Returns `true` for a reference to a file by its path, which contains no secret of its own.
pub(crate) fn is_file_reference(text: &str) -> bool {
    text.starts_with("file:/") || text.starts_with("file:~/")
}

fn read_file(text: &str, paths: &Paths) -> Result<String, String> {
    if !(Path::new(text).is_absolute() || text.starts_with("~/")) {
        return Err("`file:` needs an absolute path, or one that begins with ~/".to_owned());
    }
    let path = paths.expand(text);
    let shown = path.display();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("{shown} does not exist"),
        _ => format!("{shown} cannot be read: {error}"),
    };
    // Opening a pipe would wait for its writer.
    let is_file = fs::metadata(&path).map_err(failed)?.is_file();
    if !is_file {
        return Err(format!("{shown} is not a regular file"));
    }
    let file = File::open(&path).map_err(failed)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(format!(
                "other users may read {shown}: run `chmod 600 {shown}`"
            ));
        }
    }
    let mut bytes = Vec::new();
    file.take(MAX_SIZE + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    text_of(bytes, &shown.to_string())
}

/// Checks the bytes of a secret and removes the line breaks at their end.
fn text_of(bytes: Vec<u8>, whose: &str) -> Result<String, String> {
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_SIZE) {
        return Err(format!("{whose} has more than 64 KiB"));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(format!("{whose} is not UTF-8 text"));
    };
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(format!("{whose} is empty"));
    }
    Ok(text.to_owned())
}

fn run(command: &str, paths: &Paths, environment: &Environment) -> Result<String, String> {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else {
        return Err("`exec:` needs a command".to_owned());
    };
    let is_relative = program.contains('/') && !program.starts_with('/');
    if is_relative && !program.starts_with("~/") {
        return Err("`exec:` needs the name of a program or its absolute path".to_owned());
    }
    let file = match program.starts_with("~/") {
        true => paths.expand(program),
        false => program.into(),
    };
    let passed = PASSED_ON
        .into_iter()
        .filter_map(|name| Some((name, environment.variable(name)?)));
    let mut command = Command::new(file);
    command
        .args(words)
        .env_clear()
        .envs(passed)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped());
    #[cfg(unix)]
    command.current_dir("/");
    let child = command
        .spawn()
        .map_err(|error| format!("`{program}` cannot be run: {error}"))?;
    text_of(
        output_of(child, program)?,
        &format!("the output of `{program}`"),
    )
}

/// Returns the output of a command that succeeds within the time limit. Ends it otherwise.
fn output_of(mut child: Child, program: &str) -> Result<Vec<u8>, String> {
    let started = Instant::now();
    let (sender, receiver) = mpsc::sync_channel(1);
    if let Some(output) = child.stdout.take() {
        // Not joined: a process that the command left behind may keep the pipe open.
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(MAX_SIZE + 1).read_to_end(&mut bytes);
            drop(sender.send(read.map(|_| bytes)));
        });
    }
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < TIME_LIMIT => std::thread::park_timeout(POLL),
            Ok(None) | Err(_) => {
                drop(child.kill());
                drop(child.wait());
                return Err(format!("`{program}` did not end within 10 s"));
            }
        }
    };
    let rest = TIME_LIMIT.saturating_sub(started.elapsed());
    let output = receiver.recv_timeout(rest);
    // A command whose output is too long ends with a failure, because the rest is not read.
    let is_too_long = |bytes: &Vec<u8>| u64::try_from(bytes.len()).is_ok_and(|n| n > MAX_SIZE);
    match output {
        Ok(Ok(bytes)) if status.success() || is_too_long(&bytes) => Ok(bytes),
        Ok(Ok(_)) => Err(format!("`{program}` failed: {status}")),
        Ok(Err(error)) => Err(format!("the output of `{program}` cannot be read: {error}")),
        Err(_) => Err(format!("`{program}` did not end within 10 s")),
    }
}
