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
    /// This store keeps no memory for that scope.
    #[error("no memory is kept for {scope}")]
    Unsupported {
        /// The scope in words.
        scope: String,
    },
}
