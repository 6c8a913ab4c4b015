//! Failures of a command, for the user at the terminal.
//!
//! Decision: every failure is one value with what failed, where, and what to try. Errors of
//! libraries are converted to it here and nowhere else. Exit codes: 1 for a turn or an operation
//! that failed, 2 for usage and configuration, 128 + N for signal N.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use nanobot_config::ConfigError;
pub(crate) use nanobot_runtime::chain;
use nanobot_runtime::{MAKE_ROOM, RuntimeError, disk_failure, is_disk_failure};

use crate::output;

/// Exit code for a turn or an operation that failed.
pub(crate) const FAILED: u8 = 1;
/// Exit code for wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;

/// A reason to end the program early.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// A failure to report; `Display` formats it for standard error.
    Said {
        /// The operation that failed, and where.
        what: String,
        /// The remedy.
        remedy: Option<String>,
        /// Exit code of the process.
        code: u8,
    },
    /// A failure that was already reported, with the exit code.
    Silent(u8),
}

impl CommandFailure {
    /// Returns the failure of an operation.
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Said {
            what: what.into(),
            remedy: Some(remedy.into()),
            code: FAILED,
        }
    }

    /// Returns the failure of an operation by its error. The remedy for a full disk replaces
    /// `remedy`.
    pub(crate) fn of(error: &(dyn Error + 'static), remedy: impl Into<String>) -> Self {
        let remedy = match is_disk_failure(error) {
            true => MAKE_ROOM.to_owned(),
            false => remedy.into(),
        };
        Self::new(output::sanitize(&chain(error)), remedy)
    }

    /// Returns the failure to write a file, like [`Self::of`].
    pub(crate) fn unwritable(file: &Path, error: &io::Error, remedy: &str) -> Self {
        let words = disk_failure(error);
        let why = words.map_or_else(|| error.to_string(), str::to_owned);
        let what = format!("cannot write {}: {why}", file.display());
        Self::new(what, words.map_or(remedy, |_| MAKE_ROOM))
    }

    /// Returns the failure of a command that was used wrongly.
    pub(crate) fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Said {
            what: what.into(),
            remedy: Some(remedy.into()),
            code: USAGE,
        }
    }

    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// Returns the operation that failed, and the remedy; `None` if both were already reported.
    pub(crate) fn explanation(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::Said { what, remedy, .. } => Some((what, remedy.as_deref())),
            Self::Silent(_) => None,
        }
    }

    /// Returns the exit code as a number.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Said { code, .. } | Self::Silent(code) => *code,
        }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Said { what, remedy, .. } = self else {
            return Ok(());
        };
        write!(formatter, "nanobot: {what}")?;
        match remedy {
            Some(remedy) => write!(formatter, "\n  try: {remedy}"),
            None => Ok(()),
        }
    }
}

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> Self {
        RuntimeError::from(error).into()
    }
}

impl From<RuntimeError> for CommandFailure {
    fn from(error: RuntimeError) -> Self {
        Self::Said {
            what: chain(&error),
            remedy: error.remedy(),
            code: error.exit_code(),
        }
    }
}

/// Converts an error of standard output. If the reader closed the pipe, it has read what it wanted.
impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Silent(0);
        }
        Self::new(
            format!("cannot write the output: {error}"),
            "Check where the output goes, and whether that disk is full.",
        )
    }
}
