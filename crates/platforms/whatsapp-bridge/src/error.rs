//! Errors of the bridge.

use std::io;
use std::path::Path;

/// A failure of the bridge's installation or process. Contains no secret.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// Node.js or npm is missing or too old, the installation failed or is missing, or a file
    /// cannot be written; says what to do.
    #[error("{0}")]
    Install(String),
    /// Another program runs the bridge of this account.
    #[error("another program runs this bridge")]
    InUse,
    /// The process did not start, or ended.
    #[error("the WhatsApp bridge {0}")]
    Process(String),
}

impl BridgeError {
    /// Returns a function that makes an error of a failed file operation: `action` is a verb
    /// (`write`).
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Install(format!("cannot {action} {}: {error}", path.display()))
    }
}
