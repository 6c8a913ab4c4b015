//! Why a round could not be run. A broken promise is no error: it is a [`crate::Failure`].

use std::io;
use std::path::PathBuf;

use nanobot_testkit::TestkitError;

/// What kept the suite from working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// A file of the suite, or of a home, could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was being done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The program could not be started at all.
    #[error("cannot start {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The program does not work before anything was killed.
    #[error("the program does not work on a fresh home: {what}")]
    Unfit {
        /// What it did.
        what: String,
    },
    /// The system gives no threads.
    #[error("cannot start threads for the fakes")]
    Threads(#[source] io::Error),
    /// A fake could not be started.
    #[error("a fake of the outside world failed")]
    World(#[from] TestkitError),
    /// A line of a history or progress file is not what it should be.
    #[error("line {line} of {} cannot be read", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why not.
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
        /// The seed asked for.
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
    /// For `map_err`: a file that cannot be dealt with.
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
