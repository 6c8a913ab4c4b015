//! Why a command ends without success, for the person at the terminal.
//!
//! Decision: every failure is what failed, where, and what to try, in one value; libraries' errors are
//! turned into it at this edge and nowhere else. Exit codes: 1 for a turn or an operation that failed,
//! 2 for usage and configuration, 128 + N for signal N.

use std::fmt;
use std::io;
use std::process::ExitCode;

use nanobot_config::ConfigError;
use nanobot_runtime::RuntimeError;
pub(crate) use nanobot_runtime::chain;

/// A turn or an operation failed.
pub(crate) const FAILED: u8 = 1;
/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;

/// What ends the program early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to say; `Display` is what standard error gets.
    Said {
        /// What failed and where.
        what: String,
        /// What to try.
        remedy: Option<String>,
        /// How the process exits.
        code: u8,
    },
    /// Everything was said already.
    Silent(u8),
}

impl Failure {
    /// A failed operation.
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Said {
            what: what.into(),
            remedy: Some(remedy.into()),
            code: FAILED,
        }
    }

    /// How the process exits.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Said { code, .. } | Self::Silent(code) => ExitCode::from(*code),
        }
    }
}

impl fmt::Display for Failure {
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

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Said {
            what: chain(&error),
            remedy: Some(error.remedy()),
            code: USAGE,
        }
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        Self::Said {
            what: chain(&error),
            remedy: error.remedy(),
            code: error.exit_code(),
        }
    }
}

/// Writing to standard output failed. A reader that went away has seen what it wanted.
impl From<io::Error> for Failure {
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
