//! What only an operator can fix.

use std::path::PathBuf;

/// Why a workspace could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// A file or folder of the workspace could not be made.
    #[error("cannot create {}", path.display())]
    Create {
        /// What was to be made; nothing half-written is left there.
        path: PathBuf,
        /// What failed.
        #[source]
        source: std::io::Error,
    },
}
