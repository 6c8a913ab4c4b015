//! The contract of a session store.

use async_trait::async_trait;
use nanobot_types::{Map, SessionKey, Timestamp};

use crate::{Entry, Record, Seq, SessionError};

/// Where to begin reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At the cursor: what is still sent to the model. The cost depends on what lies behind the
    /// cursor, never on what lies before it. A store of files leaves the oldest messages out where
    /// more than a few megabytes are there ([`SessionView::is_partial`]): no model takes as much.
    Cursor,
    /// At a position.
    Seq(Seq),
    /// At a position, and only so many messages of it; rewinds after these are there, too.
    Range {
        /// The first message.
        from: Seq,
        /// The message after the last.
        upto: Seq,
    },
}

/// A session as read at one moment. The default is one that does not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionView {
    /// Messages in the session; what [`SessionStore::append`] wants as `head`.
    pub head: Seq,
    /// Messages before this are not sent to the model.
    pub cursor: Seq,
    /// What is known about the session beside its messages.
    pub metadata: Map,
    /// Journal ids of inbound messages whose turns ended lately, the newest last, also when
    /// those turns lie before the cursor. Bounded.
    pub answered: Vec<nanobot_types::MessageId>,
    /// Every entry with at least the wanted number of messages before it, in order.
    pub records: Vec<Record>,
}

impl SessionView {
    /// `true` if messages at the cursor were left out of a read with [`ReadFrom::Cursor`].
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let first = self
            .records
            .iter()
            .find(|record| matches!(record.entry, Entry::Message(_)));
        first.is_some_and(|first| first.seq > self.cursor)
    }
}

/// A line of a session list.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// The session.
    pub key: SessionKey,
    /// When it began, where the file says so.
    pub created_at: Option<Timestamp>,
    /// When it was last written to.
    pub updated_at: Option<Timestamp>,
    /// Messages in it.
    pub messages: u64,
    /// Its metadata.
    pub metadata: Map,
}

/// Append-only session logs.
#[async_trait]
pub trait SessionStore: Send + Sync + std::fmt::Debug {
    /// Appends entries behind `head` and returns the new head. When it returns `Ok`, the entries
    /// survive a crash of the process and of the machine, all of them or a prefix of them. A
    /// session that does not exist begins here, with head 0. Without entries only the head is
    /// checked.
    ///
    /// # Errors
    /// [`SessionError::Moved`] when `head` is not the head; nothing is appended then.
    /// [`SessionError::Io`] when it could not be made durable; read again to see what is there.
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError>;

    /// Reads a session. One that does not exist is empty. What is damaged is passed over and
    /// kept; it never makes the rest unreadable.
    ///
    /// # Errors
    /// [`SessionError::Io`].
    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError>;

    /// All sessions, the latest first.
    ///
    /// # Errors
    /// [`SessionError::Io`] when the store itself cannot be read; a broken session is listed.
    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError>;
}
