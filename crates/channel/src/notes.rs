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
}

/// The longest [note](Notes), in bytes.
pub const LONGEST_NOTE: usize = 64 << 10;
