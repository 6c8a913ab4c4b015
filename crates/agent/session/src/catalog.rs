//! The contract for managing whole conversations: previews, deletion and restoration.
//!
//! Decision: a deleted conversation is moved aside, not removed, so that a deletion can be undone
//! until its retention is over. This is an optional ability of a store, because it concerns files.

use async_trait::async_trait;
use nanobot_types::{SessionKey, Timestamp};

use crate::SessionError;

/// Beginning and end of a conversation, as shown in a list. Each text is one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPreview {
    /// The first message of a person, cut at a word.
    pub opening: Option<String>,
    /// The last visible message of a person or of the assistant.
    pub latest: Option<String>,
}

/// A deleted conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedSession {
    /// Its key.
    pub key: SessionKey,
    /// Time of the deletion.
    pub at: Timestamp,
}

/// Conversations as a person manages them.
#[async_trait]
pub trait SessionCatalog: Send + Sync + std::fmt::Debug {
    /// Reads the beginning and the end of a session. The cost does not depend on its length.
    ///
    /// # Errors
    /// Returns [`SessionError::Io`] if the session cannot be read.
    async fn preview(&self, key: &SessionKey) -> Result<SessionPreview, SessionError>;

    /// Moves a session aside, so that it is neither listed nor read. Returns `false` if there is
    /// no such session. No turn may run in it.
    ///
    /// # Errors
    /// Returns [`SessionError::Io`] if it cannot be moved; nothing is changed then.
    async fn delete(&self, key: &SessionKey) -> Result<bool, SessionError>;

    /// Removes a session for good: a copy that its maker could not complete. No one else may write
    /// to it.
    ///
    /// # Errors
    /// Returns [`SessionError::Io`] if it cannot be removed.
    async fn discard(&self, key: &SessionKey) -> Result<(), SessionError>;

    /// Restores the session of this key that was deleted last. Returns `false` if there is none.
    ///
    /// # Errors
    /// Returns [`SessionError::Taken`] if a new session has the key by now, and
    /// [`SessionError::Io`] if it cannot be moved back.
    async fn restore(&self, key: &SessionKey) -> Result<bool, SessionError>;

    /// Returns the deleted sessions, the latest deletion first.
    ///
    /// # Errors
    /// Returns [`SessionError::Store`] if a folder cannot be listed.
    async fn deleted(&self) -> Result<Vec<DeletedSession>, SessionError>;
}
