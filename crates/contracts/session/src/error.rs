//! Why a session could not be read or written.

use std::path::PathBuf;

use nanobot_types::SessionKey;

use crate::Seq;

/// An error of a session store.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Somebody else appended first; read again and decide anew.
    #[error("session {key} is at {actual}, not at {expected}")]
    Moved {
        /// The session.
        key: SessionKey,
        /// The head the caller knew.
        expected: Seq,
        /// The head that is there.
        actual: Seq,
    },
    /// The file could not be read or written.
    #[error("cannot {action} session {key} in {}", path.display())]
    Io {
        /// The session.
        key: SessionKey,
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What failed.
        #[source]
        source: std::io::Error,
    },
    /// The store as a whole could not be read.
    #[error("cannot read the sessions in {}", path.display())]
    Store {
        /// Its folder.
        path: PathBuf,
        /// What failed.
        #[source]
        source: std::io::Error,
    },
    /// The conversation cannot be cut there.
    #[error("session {key} cannot be cut at {position}, only from {first} to {last}")]
    OutOfReach {
        /// The session.
        key: SessionKey,
        /// Where it was to be cut.
        position: Seq,
        /// The first position where it can be.
        first: Seq,
        /// The last one.
        last: Seq,
    },
    /// The entry cannot be written down.
    #[error("session {key}: an entry cannot be encoded")]
    Encode {
        /// The session.
        key: SessionKey,
        /// What failed.
        #[source]
        source: serde_json::Error,
    },
}

impl SessionError {
    /// Whether trying again later, without reading anew, can succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Store { .. })
    }
}
