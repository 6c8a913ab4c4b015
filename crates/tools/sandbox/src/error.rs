use std::{io, path::PathBuf};

/// Reason why commands cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This system has no sandbox that nanobot can use.
    #[error("there is no sandbox on this system: {0}")]
    Unavailable(String),
    /// The sandbox was tried and does not hold.
    #[error("the sandbox does not hold: {0}")]
    Broken(String),
    /// The view cannot be enforced by the mechanism of this system.
    #[error("{path} cannot be confined: {reason}")]
    View {
        /// The path that the view opens or closes.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A process of the sandbox could not be started.
    #[error("the sandbox could not be started: {0}")]
    Start(#[from] io::Error),
}
