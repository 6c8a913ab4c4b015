//! Pairing: a stranger who writes in a direct chat gets a code, and gets access once an authorized
//! person approves the code.
//!
//! An approval made by any process takes effect at once. The file has the Python program's format. A
//! damaged file grants no access and is moved to quarantine by the next change; an unreadable file
//! grants no access and is left untouched.

mod book;
mod code;

use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use nanobot_channel::{ChannelName, ChatId, SenderId};
use nanobot_disk::{SharedFile, SharedFileError};

use book::Book;
pub use book::{Asker, PairingReply, Pairings, PendingPairing, Person, UnnotifiedPeople};

/// Name of the pairing file.
const NAME: &str = "pairing.json";

/// Error of pairing.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// No one was given this code, or it is no longer valid.
    #[error("unknown code: it was mistyped, is older than ten minutes, or was used already")]
    UnknownCode,
    /// The file exists but cannot be parsed.
    #[error("{} is damaged and lets no one in", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Parse error.
        #[source]
        source: serde_json::Error,
    },
    /// Disk I/O failed.
    #[error("{} cannot be used", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        #[source]
        source: io::Error,
    },
}

/// Reads and changes the pairing file. Every method blocks for disk I/O. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PairingStore {
    file: SharedFile<Book>,
}

impl PairingStore {
    /// Creates a store for the file in a home's data folder. The file need not exist.
    #[must_use]
    pub fn in_folder(data_dir: &Path) -> Self {
        Self {
            file: SharedFile::at(&data_dir.join(NAME)),
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns `true` if `sender` was approved on a channel.
    ///
    /// # Errors
    /// Returns [`PairingError::Damaged`] or [`PairingError::Io`] if the file cannot be used; the
    /// caller must deny access then.
    pub fn is_approved(
        &self,
        channel: &ChannelName,
        sender: &SenderId,
    ) -> Result<bool, PairingError> {
        Ok(self.read()?.is_approved(channel, sender))
    }

    /// Returns the code of a stranger: their open one, or a new one that is durable when this
    /// returns. The code is sent to `chat`, and so is the news of the approval.
    ///
    /// # Errors
    /// Returns [`PairingError::Io`] if the disk fails; the caller must not send a code then.
    pub fn ask(
        &self,
        channel: &ChannelName,
        sender: &SenderId,
        chat: &ChatId,
        now: DateTime<Utc>,
    ) -> Result<PairingReply, PairingError> {
        self.edit(|book| book.ask(channel, sender, chat, now))
    }

    /// Approves the person with a code; if `channel` is given, only one of that channel. A code
    /// works once, and five wrong ones while it is open make it void.
    ///
    /// # Errors
    /// Returns [`PairingError::UnknownCode`] if the code is not valid, and [`PairingError::Io`] if
    /// the disk fails.
    pub fn approve(
        &self,
        code: &str,
        channel: Option<&ChannelName>,
        now: DateTime<Utc>,
    ) -> Result<Person, PairingError> {
        self.edit(|book| book.approve(code, channel, now))?
            .ok_or(PairingError::UnknownCode)
    }

    /// Revokes a code without approving anyone.
    ///
    /// # Errors
    /// Same as [`PairingStore::approve`].
    pub fn deny(
        &self,
        code: &str,
        channel: Option<&ChannelName>,
        now: DateTime<Utc>,
    ) -> Result<Person, PairingError> {
        self.edit(|book| book.deny(code, channel, now))?
            .ok_or(PairingError::UnknownCode)
    }

    /// Returns the approved people who were not notified yet, and those who wait. `waited` are the
    /// people who waited at the previous call: a person may have removed their code from the file
    /// by hand.
    ///
    /// # Errors
    /// Returns [`PairingError::Damaged`] or [`PairingError::Io`] if the file cannot be used.
    pub fn unnotified(&self, waited: &[Asker]) -> Result<UnnotifiedPeople, PairingError> {
        Ok(self.read()?.unnotified(waited))
    }

    /// Records that these people were notified of their approval.
    ///
    /// # Errors
    /// Returns [`PairingError::Io`] if the disk fails.
    pub fn mark_notified(&self, askers: &[Asker]) -> Result<(), PairingError> {
        self.edit(|book| book.mark_notified(askers))
    }

    /// Revokes an approval, and the open code of the same person. For an id with a number and a
    /// name (`7|ann`), either is enough. Returns the people who were approved until now.
    ///
    /// # Errors
    /// Returns [`PairingError::Io`] if the disk fails.
    pub fn revoke(&self, person: &Person) -> Result<Vec<Person>, PairingError> {
        self.edit(|book| book.revoke(person))
    }

    /// Lists the approved people and those who wait.
    ///
    /// # Errors
    /// Returns [`PairingError::Damaged`] or [`PairingError::Io`] if the file cannot be used.
    pub fn list(&self, now: DateTime<Utc>) -> Result<Pairings, PairingError> {
        Ok(self.read()?.list(now))
    }

    fn read(&self) -> Result<Book, PairingError> {
        Ok(self.file.read()?)
    }

    /// Changes the file; the change is durable when this returns.
    fn edit<T>(&self, change: impl FnOnce(&mut Book) -> T) -> Result<T, PairingError> {
        let on_damage = |aside: &Path, error: &serde_json::Error| {
            tracing::error!(quarantined = %aside.display(), %error, "the pairing file was damaged; people have to be approved again");
        };
        Ok(self.file.edit(on_damage, change)?)
    }
}

impl From<SharedFileError> for PairingError {
    fn from(error: SharedFileError) -> Self {
        match error {
            SharedFileError::Damaged { path, source } => Self::Damaged { path, source },
            SharedFileError::Io { path, source } => Self::Io { path, source },
        }
    }
}
