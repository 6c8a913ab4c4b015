//! Errors of running a round. A broken property is not an error but a [`crate::Failure`].

use std::io;
use std::path::PathBuf;

use nanobot_testkit::TestkitError;

/// Error of running the suite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// A file of the suite, or of a home, could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The program could not be started at all.
    #[error("cannot start {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The program fails on a fresh home, before anything was killed.
    #[error("the program does not work on a fresh home: {what}")]
    Unfit {
        /// Description of the failure.
        what: String,
    },
    /// The system cannot start threads.
    #[error("cannot start threads for the fakes")]
    Threads(#[source] io::Error),
    /// A fake could not be started.
    #[error("a fake of the outside world failed")]
    World(#[from] TestkitError),
    /// A line of a history or progress file is malformed.
    #[error("line {line} of {} cannot be read", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// Error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// A progress file belongs to a run with other settings.
    #[error("{} belongs to a run with seed {found}, not {wanted}", path.display())]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// Its seed.
        found: u64,
        /// The requested seed.
        wanted: u64,
    },
    /// A round ended without a result.
    #[error("round {round} panicked")]
    Panicked {
        /// The round.
        round: u64,
    },
}

impl SuiteError {
    /// Returns a closure for `map_err` that wraps an error of accessing a file.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }
}
