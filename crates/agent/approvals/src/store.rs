//! The file of approvals.
//!
//! A permission that any process revokes is gone at once. A damaged file permits nothing; the next
//! change moves it aside.

use std::io;
use std::path::{Path, PathBuf};

use nanobot_disk::{SharedFile, SharedFileError};

use crate::book::{Book, Grant, GrantId};
use crate::question::OpenQuestion;

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
    file: SharedFile<Book>,
}

impl ApprovalStore {
    /// Creates a store for a file, which need not exist.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self {
            file: SharedFile::at(path),
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
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
        self.file.exists()
    }

    pub(crate) fn read(&self) -> Result<Book, ApprovalError> {
        Ok(self.file.read()?)
    }

    /// Changes the file; the change is durable when this returns.
    pub(crate) fn edit<T>(&self, change: impl FnOnce(&mut Book) -> T) -> Result<T, ApprovalError> {
        let on_damage = |aside: &Path, error: &serde_json::Error| {
            tracing::error!(quarantined = %aside.display(), %error, "the file of approvals was damaged; permissions have to be given again");
        };
        Ok(self.file.edit(on_damage, change)?)
    }
}

impl From<SharedFileError> for ApprovalError {
    fn from(error: SharedFileError) -> Self {
        match error {
            SharedFileError::Damaged { path, source } => Self::Damaged { path, source },
            SharedFileError::Io { path, source } => Self::Io { path, source },
        }
    }
}
