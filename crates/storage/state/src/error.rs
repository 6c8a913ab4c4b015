//! The error type of this crate.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

use crate::database::WriteFault;

/// Error of the state of a home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A file or folder could not be created, read or moved.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The database failed.
    #[error("the state database {} failed while trying to {action}", path.display())]
    Database {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file was written by a newer version; it is left as it is.
    #[error(
        "{} has version {found}, but this program supports versions up to {known}: \
         use the newer program, or move the file away (conversations are not in it)",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest supported version.
        known: u32,
    },
    /// The file is a database of another program; it is left as it is.
    #[error("{} is a database of another program: move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file system does not support a write-ahead log.
    #[error("{} needs a local file system (journal mode is {mode:?} here, not a write-ahead log)", path.display())]
    NoWriteAheadLog {
        /// The file.
        path: PathBuf,
        /// The journal mode that SQLite fell back to.
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
        /// The owner's process id, if it could be read.
        pid: Option<u32>,
    },
    /// The database is closed.
    #[error("the state database is closed")]
    Closed,
}

impl StateError {
    /// `true` if a file could not be read or written for a reason outside of it, such as a full
    /// disk or missing permissions. It says nothing about the content of the file.
    #[must_use]
    pub fn is_io(&self) -> bool {
        match self {
            Self::Io { .. } => true,
            Self::Database { source, .. } => {
                let code = source
                    .downcast_ref::<WriteFault>()
                    .and_then(|fault| fault.sqlite_error_code());
                source.is::<io::Error>()
                    || matches!(
                        code,
                        Some(
                            ErrorCode::SystemIoFailure
                                | ErrorCode::CannotOpen
                                | ErrorCode::ReadOnly
                                | ErrorCode::PermissionDenied
                                | ErrorCode::DatabaseBusy
                                | ErrorCode::DatabaseLocked
                        )
                    )
            }
            Self::Newer { .. }
            | Self::Foreign { .. }
            | Self::NoWriteAheadLog { .. }
            | Self::Owned { .. }
            | Self::Closed => false,
        }
    }
}
