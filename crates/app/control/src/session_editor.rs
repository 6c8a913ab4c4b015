//! Changes to whole conversations on request of a command.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::ControlError;

/// Reason why a conversation was not changed.
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
    /// There is no such conversation.
    #[error("there is no conversation {session}")]
    Unknown {
        /// The requested conversation.
        session: String,
    },
    /// Its subagents have not finished.
    #[error("subagents of {session} are at work")]
    Subagents {
        /// The conversation.
        session: String,
    },
    /// There is no exchange that can be undone.
    #[error("there is no message to undo in {session}")]
    NothingToUndo {
        /// The conversation.
        session: String,
    },
    /// There is nothing that can be restored.
    #[error("there is nothing to restore of {session}")]
    NothingToRestore {
        /// The conversation.
        session: String,
    },
    /// No deleted conversation has this key.
    #[error("there is no deleted conversation {session}")]
    NotDeleted {
        /// The requested conversation.
        session: String,
    },
    /// The new name cannot be used.
    #[error("{why}")]
    Name {
        /// Reason for the user.
        why: String,
    },
    /// The conversation could not be read or written, or the gateway is gone.
    #[error("{why}")]
    Failed {
        /// The error with its causes.
        why: String,
        /// `true` if the disk is full, or a quota or limit is used up.
        #[serde(default)]
        needs_room: bool,
    },
}

impl From<ControlError> for SessionEditError {
    fn from(error: ControlError) -> Self {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        Self::Failed {
            why: format!("{error}{}", source.unwrap_or_default()),
            needs_room: false,
        }
    }
}

/// An exchange that was undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneExchange {
    /// The person's message, as one line.
    pub asked: String,
    /// Tool calls whose effects remain, such as written files and sent messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<String>,
}

/// Changes conversations for other commands.
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

    /// Names a conversation; `None` removes its name. Possible while a turn is running.
    ///
    /// # Errors
    /// Returns [`SessionEditError`]; nothing is changed then.
    async fn rename(&self, session: &str, name: Option<&str>) -> Result<(), SessionEditError>;

    /// Moves a conversation aside, so that it can be restored until its retention is over. Not
    /// possible while a turn is running.
    ///
    /// # Errors
    /// Returns [`SessionEditError`]; nothing is changed then.
    async fn delete(&self, session: &str) -> Result<(), SessionEditError>;

    /// Restores the conversation of this key that was deleted last.
    ///
    /// # Errors
    /// Returns [`SessionEditError`]; nothing is changed then.
    async fn restore(&self, session: &str) -> Result<(), SessionEditError>;

    /// Undoes the last message of a person and everything after it. Not possible while a turn is
    /// running.
    ///
    /// # Errors
    /// Returns [`SessionEditError`]; nothing is undone then.
    async fn undo(&self, session: &str) -> Result<UndoneExchange, SessionEditError>;

    /// Restores what was undone last, unless a message followed. Not possible while a turn is
    /// running.
    ///
    /// # Errors
    /// Returns [`SessionEditError`]; nothing is restored then.
    async fn redo(&self, session: &str) -> Result<(), SessionEditError>;
}
