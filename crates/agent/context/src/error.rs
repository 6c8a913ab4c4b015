//! Errors that only an operator can fix.

use std::path::PathBuf;

/// Error while preparing a workspace.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// A file or folder of the workspace could not be created.
    #[error("cannot create {}", path.display())]
    Create {
        /// Path that was to be created; no partial file is left there.
        path: PathBuf,
        /// The underlying I/O error.
        #[source]
        source: std::io::Error,
    },
}
