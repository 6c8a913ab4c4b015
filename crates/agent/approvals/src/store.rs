//! The file of approvals.
//!
//! Decision: nothing is held in memory. Every change reads the file, modifies it and replaces it
//! under the lock of a separate file, and every query reads it, so that a permission which any
//! process revokes is gone at once. A damaged file permits nothing; the next change moves it aside.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};

use crate::book::{Book, Grant, GrantId};
use crate::question::OpenQuestion;

/// Maximum size of the file that is read, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// Error of the file of approvals.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The file exists but cannot be parsed.
    #[error("{} is damaged and permits nothing", path.display())]
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
    /// Too many calls wait for an answer.
    #[error("too many questions wait for an answer")]
    Full,
}

/// Reads and changes the file of approvals. Every method blocks for disk I/O. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ApprovalStore {
    path: Arc<Path>,
}

impl ApprovalStore {
    /// Creates a store for a file, which need not exist.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the standing permissions, oldest first.
    ///
    /// # Errors
    /// Returns [`ApprovalError::Damaged`] or [`ApprovalError::Io`] if the file cannot be used.
    pub fn grants(&self) -> Result<Vec<Grant>, ApprovalError> {
        Ok(self.read()?.grants)
    }

    /// Returns the questions that are not settled, oldest first.
    ///
    /// # Errors
    /// Same as [`ApprovalStore::grants`].
    pub fn questions(&self) -> Result<Vec<OpenQuestion>, ApprovalError> {
        Ok(self.read()?.questions)
    }

    /// Revokes a standing permission, or all of them if `id` is `None`. Returns those that were
    /// revoked.
    ///
    /// # Errors
    /// Same as [`ApprovalStore::grants`].
    pub fn revoke(&self, id: Option<&GrantId>) -> Result<Vec<Grant>, ApprovalError> {
        if !self.exists() {
            return Ok(Vec::new());
        }
        self.edit(|book| {
            let is_meant = |grant: &Grant| id.is_none_or(|id| grant.id == *id);
            let (revoked, kept) = std::mem::take(&mut book.grants)
                .into_iter()
                .partition(is_meant);
            book.grants = kept;
            revoked
        })
    }

    /// `true` if the file may exist: without it nothing is permitted or asked.
    pub(crate) fn exists(&self) -> bool {
        !matches!(fs::metadata(&self.path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    pub(crate) fn read(&self) -> Result<Book, ApprovalError> {
        let failed = |source| self.failed(source);
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Book::default()),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                return Err(failed(io::ErrorKind::FileTooLarge.into()));
            }
            Ok(_) => {}
        }
        let bytes = fs::read(&self.path).map_err(failed)?;
        serde_json::from_slice(&bytes).map_err(|source| ApprovalError::Damaged {
            path: self.path().to_owned(),
            source,
        })
    }

    /// Changes the file under an exclusive lock across processes. Writes it only if it changed; it
    /// is durable when this returns.
    pub(crate) fn edit<T>(&self, change: impl FnOnce(&mut Book) -> T) -> Result<T, ApprovalError> {
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
            Err(ApprovalError::Damaged { source, .. }) => {
                self.quarantine(&source).map_err(failed)?;
                Book::default()
            }
            read => read?,
        };
        let mut book = before.clone();
        let result = change(&mut book);
        if book != before {
            let bytes = serde_json::to_vec_pretty(&book).map_err(|error| failed(error.into()))?;
            let (draft, durability) = (FileDraft::Private, Durability::Disk);
            replace_file(&LocalDisk, &self.path, &bytes, draft, durability).map_err(failed)?;
        }
        Ok(result)
    }

    fn quarantine(&self, error: &serde_json::Error) -> io::Result<()> {
        let moment = chrono::Utc::now().format("%Y%m%d%H%M%S%3f");
        let quarantined = self.sibling_path(&format!("damaged-{moment}"));
        fs::rename(&self.path, &quarantined)?;
        tracing::error!(quarantined = %quarantined.display(), %error, "the file of approvals was damaged; permissions have to be given again");
        Ok(())
    }

    fn sibling_path(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{ending}"));
        name.into()
    }

    fn failed(&self, source: io::Error) -> ApprovalError {
        ApprovalError::Io {
            path: self.path().to_owned(),
            source,
        }
    }
}
