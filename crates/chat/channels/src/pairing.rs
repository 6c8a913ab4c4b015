//! Pairing: a stranger who writes in a direct chat is given a code, and is let in once somebody who
//! may do so approves it.
//!
//! Decision: nothing is held in memory. Every change reads the file, changes it and replaces it
//! under a lock of its own file, and every question reads it, so that an approval works at once,
//! whichever process made it. The file is the Python program's. One that is damaged is kept aside
//! by the next change, and lets nobody in until then; one that cannot be read lets nobody in and is
//! not touched.

mod book;
mod code;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use nanobot_channel::{ChannelName, ChatId, SenderId};

use book::Book;
pub use book::{Asked, Asker, Pairings, PendingPairing, Person, Untold};

/// How the file is called.
const NAME: &str = "pairing.json";

/// Why people cannot be paired.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// Nobody was given this code, or it is not good any more.
    #[error(
        "nobody waits with this code: it was mistyped, or is older than ten minutes, or used already"
    )]
    UnknownCode,
    /// The file is there and is not what it should be.
    #[error("{} is damaged and lets nobody in", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The disk failed.
    #[error("{} cannot be used", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        #[source]
        source: io::Error,
    },
}

/// Reads and changes the file. Every method blocks for as long as the disk takes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PairingStore {
    path: Arc<Path>,
}

impl PairingStore {
    /// The file in the folder of a home's data. It need not exist.
    #[must_use]
    pub fn in_folder(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join(NAME).into(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether somebody was approved on a channel.
    ///
    /// # Errors
    /// [`PairingError::Damaged`] and [`PairingError::Io`]: let nobody in then.
    pub fn is_approved(
        &self,
        channel: &ChannelName,
        sender: &SenderId,
    ) -> Result<bool, PairingError> {
        Ok(self.read()?.is_approved(channel, sender))
    }

    /// The code of a stranger: the one they have, or a new one that is stored when this returns. They
    /// are told in `chat`, and are once they were approved.
    ///
    /// # Errors
    /// [`PairingError::Io`]: tell them nothing then.
    pub fn ask(
        &self,
        channel: &ChannelName,
        sender: &SenderId,
        chat: &ChatId,
        now: DateTime<Utc>,
    ) -> Result<Asked, PairingError> {
        self.edit(|book| book.ask(channel, sender, chat, now))
    }

    /// Lets in who has a code; where `channel` is named, only somebody of that channel. A code works
    /// once, and five wrong ones while it is open make it void.
    ///
    /// # Errors
    /// [`PairingError::UnknownCode`] and [`PairingError::Io`].
    pub fn approve(
        &self,
        code: &str,
        channel: Option<&ChannelName>,
        now: DateTime<Utc>,
    ) -> Result<Person, PairingError> {
        self.edit(|book| book.approve(code, channel, now))?
            .ok_or(PairingError::UnknownCode)
    }

    /// Takes a code back without letting anybody in.
    ///
    /// # Errors
    /// As [`PairingStore::approve`].
    pub fn deny(
        &self,
        code: &str,
        channel: Option<&ChannelName>,
        now: DateTime<Utc>,
    ) -> Result<Person, PairingError> {
        self.edit(|book| book.deny(code, channel, now))?
            .ok_or(PairingError::UnknownCode)
    }

    /// Who was approved and does not know it, and who waits. `waited` are those who waited when this
    /// was asked before: a person may have taken their code out of the file by hand.
    ///
    /// # Errors
    /// [`PairingError::Damaged`] and [`PairingError::Io`].
    pub fn untold(&self, waited: &[Asker]) -> Result<Untold, PairingError> {
        Ok(self.read()?.untold(waited))
    }

    /// Notes that they know it.
    ///
    /// # Errors
    /// [`PairingError::Io`].
    pub fn told(&self, askers: &[Asker]) -> Result<(), PairingError> {
        self.edit(|book| book.told(askers))
    }

    /// Takes an approval back, and the code of the same person if there is one. Of an id with a
    /// number and a name (`7|ann`) either is enough. Who was approved until now.
    ///
    /// # Errors
    /// [`PairingError::Io`].
    pub fn revoke(&self, person: &Person) -> Result<Vec<Person>, PairingError> {
        self.edit(|book| book.revoke(person))
    }

    /// Who was approved, and who waits.
    ///
    /// # Errors
    /// [`PairingError::Damaged`] and [`PairingError::Io`].
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

    /// Changes the file, alone among all processes; what does not change is not written.
    fn edit<T>(&self, change: impl FnOnce(&mut Book) -> T) -> Result<T, PairingError> {
        let failed = |source| self.failed(source);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let guard = File::options()
            .create(true)
            .append(true)
            .open(self.beside("lock"))
            .map_err(failed)?;
        guard.lock().map_err(failed)?;
        let before = match self.read() {
            Err(PairingError::Damaged { source, .. }) => {
                self.keep_aside(&source).map_err(failed)?;
                Book::default()
            }
            read => read?,
        };
        let mut book = before.clone();
        let told = change(&mut book);
        if book != before {
            self.write(folder, &book).map_err(failed)?;
        }
        Ok(told)
    }

    /// Replaces the file. It is whole and on disk when this returns, and its owner's alone.
    fn write(&self, folder: &Path, book: &Book) -> io::Result<()> {
        let mut draft = tempfile::Builder::new()
            .prefix(".pairing-")
            .tempfile_in(folder)?;
        draft.write_all(&serde_json::to_vec_pretty(book)?)?;
        draft.as_file().sync_all()?;
        draft.persist(&self.path).map_err(|error| error.error)?;
        sync_folder(folder)
    }

    fn keep_aside(&self, error: &serde_json::Error) -> io::Result<()> {
        let aside = self.beside(&format!("damaged-{}", Utc::now().format("%Y%m%d%H%M%S%3f")));
        fs::rename(&self.path, &aside)?;
        tracing::error!(aside = %aside.display(), %error, "the file of paired people was damaged; they have to be approved anew");
        Ok(())
    }

    fn beside(&self, ending: &str) -> PathBuf {
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

/// Makes a new name durable.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// There, names are durable with their file.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
