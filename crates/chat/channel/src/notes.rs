//! Small private storage of a channel.

use async_trait::async_trait;

/// Reason why a note could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// The note is longer than [`MAX_NOTE_BYTES`].
    #[error("longer than a note may be")]
    TooLong,
    /// The disk failed.
    #[error("a note cannot be read or written")]
    Io(#[from] std::io::Error),
}

/// Keeps a few small texts of one channel across restarts, such as its position and what it has to
/// clean up. Only the owner of the home can read them. Each is either complete or absent, unless it
/// is [overwritten](Notes::overwrite). They are not a message store: a channel that loses them
/// still works.
#[async_trait]
pub trait Notes: Send + Sync + std::fmt::Debug {
    /// Returns the text named `name`, if there is one.
    ///
    /// # Errors
    /// Returns [`NoteError::Io`] if it cannot be read or is not valid text.
    async fn read(&self, name: &'static str) -> Result<Option<String>, NoteError>;

    /// Replaces the text named `name`, which consists of lower-case letters and `-`. The text is on
    /// disk when this returns.
    ///
    /// # Errors
    /// Returns [`NoteError::TooLong`] if the text is too long, and [`NoteError::Io`] if it cannot
    /// be written. Either the old or the new text is there then.
    async fn write(&self, name: &'static str, text: &str) -> Result<(), NoteError>;

    /// Removes the text named `name`, if there is one. It is gone from the disk when this returns.
    ///
    /// # Errors
    /// Returns [`NoteError::Io`] if it cannot be removed; it is unknown whether it is still there.
    async fn remove(&self, name: &'static str) -> Result<(), NoteError>;

    /// Replaces the text named `name` without waiting for the disk: it survives the process, but
    /// perhaps not a crash of the machine.
    ///
    /// # Errors
    /// Same as [`Self::write`].
    async fn write_unsynced(&self, name: &'static str, text: &str) -> Result<(), NoteError>;

    /// Replaces the text named `name` like [`Self::write_unsynced`], but in place, which is many
    /// times faster where files are. For texts of lines that stand for themselves: if the process
    /// is killed meanwhile, lines of both texts may be there, and one may be cut.
    ///
    /// # Errors
    /// Same as [`Self::write_unsynced`], but after [`NoteError::Io`] a mix may be there, too.
    async fn overwrite(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.write_unsynced(name, text).await
    }

    /// Quarantines the first [`MAX_QUARANTINED_BYTES`] bytes of `bytes` in a file of their own, for a
    /// person to look at. The same `key` gives the same file. It is on disk when this returns. If
    /// there are more than [`MAX_QUARANTINED_FILES`] files, the oldest are removed.
    ///
    /// # Errors
    /// Returns [`NoteError::Io`] if it cannot be written; nothing is kept then.
    async fn quarantine(&self, key: &str, bytes: &[u8]) -> Result<(), NoteError>;

    /// Counts the quarantined files that are still there.
    ///
    /// # Errors
    /// Returns [`NoteError::Io`] if the folder cannot be read.
    async fn quarantined(&self) -> Result<Quarantined, NoteError>;
}

/// The messages that are [quarantined](Notes::quarantine).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantined {
    /// Number of files.
    pub count: usize,
    /// Their folder, as shown to a person.
    pub folder: String,
}

/// Maximum length of a [note](Notes), in bytes.
pub const MAX_NOTE_BYTES: usize = 64 << 10;

/// Maximum number of [quarantined](Notes::quarantine) files.
pub const MAX_QUARANTINED_FILES: usize = 64;

/// Maximum number of bytes kept of a [quarantined](Notes::quarantine) message.
pub const MAX_QUARANTINED_BYTES: usize = 1 << 20;
