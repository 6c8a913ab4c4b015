//! Errors of session stores.

use std::path::PathBuf;

use nanobot_types::SessionKey;

use crate::Seq;

/// An error of a session store.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Another writer appended first; read again and decide anew.
    #[error("session {key} is at {actual}, not at {expected}")]
    Moved {
        /// The session.
        key: SessionKey,
        /// The head that the caller expected.
        expected: Seq,
        /// The actual head.
        actual: Seq,
    },
    /// The file could not be read or written.
    #[error("cannot {action} session {key} in {}", path.display())]
    Io {
        /// The session.
        key: SessionKey,
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The store as a whole could not be read.
    #[error("cannot read the sessions in {}", path.display())]
    Store {
        /// The folder of the store.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The conversation cannot be cut at this position.
    #[error("session {key} cannot be cut at {position}, only from {first} to {last}")]
    OutOfReach {
        /// The session.
        key: SessionKey,
        /// The requested position.
        position: Seq,
        /// The first possible position.
        first: Seq,
        /// The last possible position.
        last: Seq,
    },
    /// A session of this key exists already.
    #[error("there is a session {key} already")]
    Taken {
        /// The session.
        key: SessionKey,
    },
    /// The entry cannot be encoded.
    #[error("session {key}: an entry cannot be encoded")]
    Encode {
        /// The session.
        key: SessionKey,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl SessionError {
    /// `true` if trying again later can succeed without reading the session again.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Store { .. })
    }
}
