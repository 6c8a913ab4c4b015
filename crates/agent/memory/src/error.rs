//! Errors of memory stores.

use std::path::PathBuf;

/// An error of a memory store.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The facts changed since they were read; read again and decide anew.
    #[error("the facts changed since they were read")]
    Changed,
    /// A file could not be read or written. It is unchanged; or, if only the sync failed, it has
    /// the new content. Read it again to find out.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The facts are longer than the part that is read: replacing them would lose the rest.
    #[error("{} has {length} bytes, of which {limit} are read: shorten it by hand first", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        length: u64,
        /// Maximum size that is read of a file, in bytes.
        limit: u64,
    },
    /// There is no version with this number, or it is the removal of a file.
    #[error("there is no version {number} with a text")]
    NoVersion {
        /// The number.
        number: u64,
    },
    /// This store keeps no memory for the scope.
    #[error("no memory is kept for {scope}")]
    Unsupported {
        /// The scope, for people to read.
        scope: String,
    },
    /// The search is not available.
    #[error("memory cannot be searched")]
    Search(#[source] Box<dyn std::error::Error + Send + Sync>),
}
