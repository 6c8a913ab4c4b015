//! Conversations cut by a command: copied, or gone back in.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::ControlError;

/// Why a conversation was not cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum CutError {
    /// A turn is at work in it.
    #[error("a turn is at work in {session}")]
    AtWork {
        /// The conversation.
        session: String,
    },
    /// It cannot be cut there.
    #[error("session {session} cannot be cut at {position}, only from {first} to {last}")]
    OutOfReach {
        /// The conversation.
        session: String,
        /// Where it was to be cut.
        position: u64,
        /// The first position where it can be.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// The copy has messages already.
    #[error("there is a conversation {session} already")]
    Taken {
        /// The key that the copy was to have.
        session: String,
    },
    /// It could not be read or written, or the gateway is gone.
    #[error("{why}")]
    Failed {
        /// What failed, with what led to it.
        why: String,
    },
}

impl From<ControlError> for CutError {
    fn from(error: ControlError) -> Self {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        Self::Failed {
            why: format!("{error}{}", source.unwrap_or_default()),
        }
    }
}

/// Cuts conversations for other commands.
#[async_trait]
pub trait Cuts: Send + Sync + std::fmt::Debug {
    /// Copies a conversation, all of it or up to a message, to `to` or to the first free name; the
    /// key of the copy.
    ///
    /// # Errors
    /// [`CutError`]; a copy that was begun is shorter.
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, CutError>;

    /// Undoes everything behind message `to`. Not beside a turn.
    ///
    /// # Errors
    /// [`CutError`]; nothing is undone then.
    async fn rewind(&self, session: &str, to: u64) -> Result<(), CutError>;
}
