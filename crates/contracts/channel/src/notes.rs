//! What a channel remembers for itself.

use async_trait::async_trait;

/// Why a note could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// It is longer than [`LONGEST_NOTE`].
    #[error("longer than a note may be")]
    TooLong,
    /// The disk failed.
    #[error("a note cannot be read or written")]
    Io(#[from] std::io::Error),
}

/// Keeps a few small texts of one channel over restarts: where it was, what it left behind. Only the
/// owner of the home can read them. They are whole or not there at all, and no store of messages: a
/// channel that loses them still works.
#[async_trait]
pub trait Notes: Send + Sync + std::fmt::Debug {
    /// The text of that name, if there is one.
    ///
    /// # Errors
    /// [`NoteError::Io`], also when it is not text.
    async fn read(&self, name: &'static str) -> Result<Option<String>, NoteError>;

    /// Replaces the text of that name, which is small letters and `-`. It is on disk when this
    /// returns.
    ///
    /// # Errors
    /// Why it was not; the old text stands then, or the new one.
    async fn write(&self, name: &'static str, text: &str) -> Result<(), NoteError>;

    /// Takes a text away, if there is one. It is gone from the disk when this returns.
    ///
    /// # Errors
    /// [`NoteError::Io`]; it is there or gone then.
    async fn remove(&self, name: &'static str) -> Result<(), NoteError>;

    /// Replaces the text of that name without waiting for the disk: it outlives the process, and
    /// perhaps not the machine.
    ///
    /// # Errors
    /// As [`Self::write`].
    async fn jot(&self, name: &'static str, text: &str) -> Result<(), NoteError>;

    /// Keeps the beginning of `bytes`, at most [`LONGEST_ASIDE`] of them, in a file of its own for a
    /// person to look at; the same `key` is the same file. It is on disk when this returns. Of more
    /// than [`MOST_ASIDE`] files the oldest are removed.
    ///
    /// # Errors
    /// [`NoteError::Io`]; nothing is kept then.
    async fn set_aside(&self, key: &str, bytes: &[u8]) -> Result<(), NoteError>;

    /// Counts what was set aside and is still there.
    ///
    /// # Errors
    /// [`NoteError::Io`].
    async fn aside(&self) -> Result<Aside, NoteError>;
}

/// Messages that were [set aside](Notes::set_aside).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    /// Number of files.
    pub count: usize,
    /// Their folder, as it is shown to a person.
    pub place: String,
}

/// The longest [note](Notes), in bytes.
pub const LONGEST_NOTE: usize = 64 << 10;

/// Most files that are [set aside](Notes::set_aside) at a time.
pub const MOST_ASIDE: usize = 64;

/// Most bytes of one that are kept.
pub const LONGEST_ASIDE: usize = 1 << 20;
