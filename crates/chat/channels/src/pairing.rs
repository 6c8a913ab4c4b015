//! Pairing: a stranger who writes in a direct chat gets a code, and gets access once an authorized
//! person approves the code.
//!
//! Decision: nothing is held in memory. Every change reads the file, modifies it and replaces it
//! under the lock of a separate file, and every query reads it. So an approval made by any process
//! takes effect at once. The file has the Python program's format. A damaged file grants no access
//! and is moved to quarantine by the next change; an unreadable file grants no access and is left
//! untouched.

mod book;
mod code;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use nanobot_channel::{ChannelName, ChatId, SenderId};
use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};

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
    path: Arc<Path>,
}

impl PairingStore {
    /// Creates a store for the file in a home's data folder. The file need not exist.
    #[must_use]
    pub fn in_folder(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join(NAME).into(),
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
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
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Book::default()),
            read => read.map_err(|source| self.failed(source))?,
        };
        serde_json::from_slice(&bytes).map_err(|source| PairingError::Damaged {
            path: self.path().to_owned(),
            source,
        })
    }

    /// Changes the file under an exclusive lock across processes. Writes it only if it changed.
    fn edit<T>(&self, change: impl FnOnce(&mut Book) -> T) -> Result<T, PairingError> {
        let failed = |source| self.failed(source);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let guard = File::options()
            .create(true)
            .append(true)
            .open(self.sibling_path("lock"))
            .map_err(failed)?;
        guard.lock().map_err(failed)?;
        let before = match self.read() {
            Err(PairingError::Damaged { source, .. }) => {
                self.quarantine(&source).map_err(failed)?;
                Book::default()
            }
            read => read?,
        };
        let mut book = before.clone();
        let result = change(&mut book);
        if book != before {
            self.write(&book).map_err(failed)?;
        }
        Ok(result)
    }

    /// Replaces the file. It is durable when this returns, and private to its owner.
    fn write(&self, book: &Book) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(book)?;
        replace_file(
            &LocalDisk,
            &self.path,
            &bytes,
            FileDraft::Private,
            Durability::Disk,
        )
    }

    fn quarantine(&self, error: &serde_json::Error) -> io::Result<()> {
        let quarantined =
            self.sibling_path(&format!("damaged-{}", Utc::now().format("%Y%m%d%H%M%S%3f")));
        fs::rename(&self.path, &quarantined)?;
        tracing::error!(quarantined = %quarantined.display(), %error, "the pairing file was damaged; people have to be approved again");
        Ok(())
    }

    fn sibling_path(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{ending}"));
        name.into()
    }

    fn failed(&self, source: io::Error) -> PairingError {
        PairingError::Io {
            path: self.path().to_owned(),
            source,
        }
    }
}
