//! The one error of this crate.

use std::io;
use std::path::PathBuf;

/// Why the state of a home cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A file or folder could not be made, read or moved.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The database refused.
    #[error("the state database {} failed while trying to {action}", path.display())]
    Database {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file was written by a later version; it is left as it is.
    #[error(
        "{} is of version {found} and this program knows versions up to {known}: \
         use the newer program, or move the file away (conversations are not in it)",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// The file is a database of some other program; it is left as it is.
    #[error("{} is a database of another program: move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file system cannot keep a write-ahead log.
    #[error("{} needs a local file system (journal mode is {mode:?} here, not a write-ahead log)", path.display())]
    NoWriteAheadLog {
        /// The file.
        path: PathBuf,
        /// The mode that the database fell back to.
        mode: String,
    },
    /// Another process owns the home.
    #[error(
        "{} is in use by another gateway{}: stop that one first",
        path.display(),
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    Owned {
        /// The lock file.
        path: PathBuf,
        /// The owner, where it could be read.
        pid: Option<u32>,
    },
    /// The database was closed.
    #[error("the state database is closed")]
    Closed,
}
