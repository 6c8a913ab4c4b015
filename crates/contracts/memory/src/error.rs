//! Why memory could not be read or written.

use std::path::PathBuf;

/// An error of a memory store.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The facts changed since they were read; read again and decide anew.
    #[error("the facts changed since they were read")]
    Changed,
    /// A file could not be read or written. It is as it was, or, where only making it durable
    /// failed, as it was to be: read it again.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What failed.
        #[source]
        source: std::io::Error,
    },
    /// The facts are longer than what is read of them: replacing them would lose the rest.
    #[error("{} has {length} bytes, of which {limit} are read: shorten it by hand first", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        length: u64,
        /// How much of a file is read, in bytes.
        limit: u64,
    },
    /// There is no version of that number, or it is the removal of a file.
    #[error("there is no version {number} with a text")]
    NoVersion {
        /// The number.
        number: u64,
    },
    /// This store keeps no memory for that scope.
    #[error("no memory is kept for {scope}")]
    Unsupported {
        /// The scope in words.
        scope: String,
    },
    /// The search is not to be had.
    #[error("memory cannot be searched")]
    Search(#[source] Box<dyn std::error::Error + Send + Sync>),
}
