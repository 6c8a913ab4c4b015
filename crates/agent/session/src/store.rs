//! The contract of a session store.

use async_trait::async_trait;
use nanobot_types::{Map, SessionKey, Timestamp};

use crate::{Entry, Record, Seq, SessionCatalog, SessionError};

/// Position at which a read begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The cursor: the messages that are still sent to the model. The cost depends on what comes
    /// after the cursor, never on what comes before it. A file store omits the oldest messages if
    /// there are more than a few megabytes ([`SessionView::is_partial`]), because no model accepts
    /// that much.
    Cursor,
    /// A position.
    Seq(Seq),
    /// A range of messages. Rewinds after the range are included.
    Range {
        /// The first message.
        from: Seq,
        /// The message after the last.
        upto: Seq,
    },
}

/// Snapshot of a session. The default is a session that does not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionView {
    /// Number of messages in the session; the `head` that [`SessionStore::append`] expects.
    pub head: Seq,
    /// Messages before this position are not sent to the model.
    pub cursor: Seq,
    /// The session's metadata.
    pub metadata: Map,
    /// Journal ids of inbound messages whose turns ended recently, the newest last. It includes
    /// turns before the cursor and is bounded.
    pub answered: Vec<nanobot_types::MessageId>,
    /// Every entry at or after the requested position, in order.
    pub records: Vec<Record>,
}

impl SessionView {
    /// `true` if messages after the cursor were omitted by a read with [`ReadFrom::Cursor`].
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let first = self
            .records
            .iter()
            .find(|record| matches!(record.entry, Entry::Message(_)));
        first.is_some_and(|first| first.seq > self.cursor)
    }
}

/// Summary of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// The session.
    pub key: SessionKey,
    /// Time at which it was created, if the file has it.
    pub created_at: Option<Timestamp>,
    /// Time of the last write.
    pub updated_at: Option<Timestamp>,
    /// Number of messages.
    pub messages: u64,
    /// Its metadata.
    pub metadata: Map,
}

/// Append-only session logs.
#[async_trait]
pub trait SessionStore: Send + Sync + std::fmt::Debug {
    /// Appends entries after `head` and returns the new head. When it returns `Ok`, the entries
    /// survive a crash of the process and of the machine. If it is interrupted, either all entries
    /// or a prefix of them are there. A session that does not exist is created, with head 0. If
    /// there are no entries, only the head is checked.
    ///
    /// # Errors
    /// Returns [`SessionError::Moved`] if `head` is not the actual head; nothing is appended then.
    /// Returns [`SessionError::Io`] if the entries could not be made durable; read the session
    /// again to see which entries are there.
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError>;

    /// Reads a session. A session that does not exist is empty. Damaged lines are skipped and kept;
    /// they never make the rest unreadable.
    ///
    /// # Errors
    /// Returns [`SessionError::Io`] if the session cannot be read.
    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError>;

    /// Returns all sessions, the latest first. A session that cannot be read is listed too.
    ///
    /// # Errors
    /// Returns [`SessionError::Store`] if the store as a whole cannot be read.
    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError>;

    /// Returns the store's catalog, if it can delete and restore whole sessions.
    fn catalog(&self) -> Option<&dyn SessionCatalog> {
        None
    }
}
