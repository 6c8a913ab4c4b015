//! Forking and rewinding conversations on request of a command.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::ControlError;

/// Reason why a conversation was not forked or rewound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum SessionEditError {
    /// A turn is running in it.
    #[error("a turn is at work in {session}")]
    AtWork {
        /// The conversation.
        session: String,
    },
    /// The position is out of range.
    #[error("session {session} cannot be cut at {position}, only from {first} to {last}")]
    OutOfReach {
        /// The conversation.
        session: String,
        /// The requested position.
        position: u64,
        /// The first valid position.
        first: u64,
        /// The last valid position.
        last: u64,
    },
    /// The target of the copy already has messages.
    #[error("there is a conversation {session} already")]
    Taken {
        /// The requested key of the copy.
        session: String,
    },
    /// The conversation could not be read or written, or the gateway is gone.
    #[error("{why}")]
    Failed {
        /// The error with its causes.
        why: String,
    },
}

impl From<ControlError> for SessionEditError {
    fn from(error: ControlError) -> Self {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        Self::Failed {
            why: format!("{error}{}", source.unwrap_or_default()),
        }
    }
}

/// Forks and rewinds conversations for other commands.
#[async_trait]
pub trait SessionEditor: Send + Sync + std::fmt::Debug {
    /// Copies a conversation, entirely or up to message `at`, to `to` or to the first free name.
    /// Returns the key of the copy.
    ///
    /// # Errors
    /// Returns [`SessionEditError`]; an incomplete copy may remain.
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, SessionEditError>;

    /// Undoes everything after message `to`. Not possible while a turn is running.
    ///
    /// # Errors
    /// Returns [`SessionEditError`]; nothing is undone then.
    async fn rewind(&self, session: &str, to: u64) -> Result<(), SessionEditError>;
}
