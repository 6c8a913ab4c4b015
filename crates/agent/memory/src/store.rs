//! The contract of a memory store.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use chrono::NaiveDate;
use nanobot_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{MemoryError, Reason, Scope};

/// Fingerprint of the facts at the time when they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// The facts and their revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The facts as Markdown; empty if there are none.
    pub text: String,
    /// The revision that [`MemoryStore::replace_facts`] expects as `base`.
    pub revision: Revision,
}

/// The note of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayNote {
    /// The day.
    pub date: NaiveDate,
    /// The note as Markdown.
    pub text: String,
}

/// A match of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryHit {
    /// The file.
    pub path: PathBuf,
    /// Line number in the file, from 1.
    pub line: u32,
    /// The text around the match.
    pub excerpt: String,
    /// Higher is better; comparable within one search only.
    pub score: f64,
}

/// Facts, history and day notes.
#[async_trait]
pub trait MemoryStore: Send + Sync + fmt::Debug {
    /// Returns the facts; the text is empty if there are none yet.
    ///
    /// # Errors
    /// Returns [`MemoryError::Io`] if they cannot be read, and [`MemoryError::Unsupported`] if the
    /// store keeps no memory for the scope.
    async fn facts(&self, scope: &Scope) -> Result<Facts, MemoryError>;

    /// Replaces the facts if their revision is still `base`. The replacement is atomic, also in a
    /// crash. Both the old and the new facts are recorded as versions before this returns.
    ///
    /// # Errors
    /// Returns [`MemoryError::Changed`] if the revision is not `base`, and [`MemoryError::TooLong`]
    /// if the facts are longer than the part that is read.
    async fn replace_facts(
        &self,
        scope: &Scope,
        text: String,
        base: Revision,
        reason: &Reason,
    ) -> Result<Revision, MemoryError>;

    /// Appends an entry and a blank line to the history.
    ///
    /// # Errors
    /// Returns [`MemoryError::Io`] if the entry cannot be written.
    async fn append_history(
        &self,
        scope: &Scope,
        at: Timestamp,
        entry: &str,
    ) -> Result<(), MemoryError>;

    /// `true` if the entry is among the last ones of the history. Used after a crash to find out
    /// whether an append was done. Trailing white space is ignored.
    ///
    /// # Errors
    /// Returns [`MemoryError::Io`] if the history cannot be read.
    async fn has_history(&self, scope: &Scope, entry: &str) -> Result<bool, MemoryError>;

    /// Returns the note of a day, if there is one. Reading never creates a note.
    ///
    /// # Errors
    /// Returns [`MemoryError::Io`] if the note cannot be read.
    async fn day_note(
        &self,
        scope: &Scope,
        date: NaiveDate,
    ) -> Result<Option<DayNote>, MemoryError>;

    /// Returns the existing notes of the last `days` days, the newest first.
    ///
    /// # Errors
    /// Returns [`MemoryError::Io`] if a note cannot be read.
    async fn recent(&self, scope: &Scope, days: u32) -> Result<Vec<DayNote>, MemoryError>;

    /// `true` if people and rooms have memory of their own. Otherwise every scope other than
    /// [`Scope::Shared`] is refused.
    fn is_divided(&self) -> bool {
        false
    }

    /// Returns the versions of the memory, if the store keeps any.
    fn versions(&self) -> Option<&dyn MemoryVersions> {
        None
    }
}

/// Record of a change of a memory file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Number of the version in its scope, from 1.
    pub number: u64,
    /// Time at which the change was made or found.
    pub at: Timestamp,
    /// Name of the file in the folder of the scope.
    pub file: String,
    /// Reason for the change.
    pub reason: Reason,
    /// Length of the file after the change, in bytes.
    pub bytes: u64,
    /// Fingerprint of the file after the change, in hexadecimal digits.
    pub digest: String,
    /// The previous version of the same file, if it is still kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// `true` if the file was removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// A version with the text of the file before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionText {
    /// The version.
    pub version: Version,
    /// The text before the change; empty if it is not kept.
    pub before: String,
    /// The text after the change.
    pub text: String,
}

/// Earlier versions of memory, for review and restore. The number of versions kept is a setting;
/// the newest version of each file is always kept.
#[async_trait]
pub trait MemoryVersions: Send + Sync + fmt::Debug {
    /// Returns all versions of a scope, the newest first.
    ///
    /// # Errors
    /// Returns [`MemoryError::Io`] if they cannot be read.
    async fn log(&self, scope: &Scope) -> Result<Vec<Version>, MemoryError>;

    /// Returns one version.
    ///
    /// # Errors
    /// Returns [`MemoryError::NoVersion`] if there is no version with this number.
    async fn version(&self, scope: &Scope, number: u64) -> Result<VersionText, MemoryError>;

    /// Restores the exact bytes that a file had after a version. The restored content is recorded
    /// as a version of its own, and so is the content that it replaces.
    ///
    /// # Errors
    /// Returns [`MemoryError::NoVersion`] if there is no version with this number, or if it is the
    /// removal of a file.
    async fn restore(&self, scope: &Scope, number: u64) -> Result<Version, MemoryError>;

    /// Checks whether the facts and the newest notes changed since they were last seen, and records
    /// a version of each file that did. Very cheap if nothing changed.
    ///
    /// # Errors
    /// Returns [`MemoryError::Io`] if a file cannot be read or a version cannot be written.
    async fn record_changes(
        &self,
        scope: &Scope,
        reason: &Reason,
    ) -> Result<Vec<Version>, MemoryError>;
}

/// Search over the content of a memory store.
#[async_trait]
pub trait MemorySearch: Send + Sync + fmt::Debug {
    /// Returns the best `limit` matches for `query`, the best first, in the files of `scopes` only.
    ///
    /// # Errors
    /// Returns [`MemoryError::Search`] if the search is not available, and
    /// [`MemoryError::Unsupported`] if a scope has no memory.
    async fn search(
        &self,
        scopes: &[Scope],
        query: &str,
        limit: usize,
    ) -> Result<Vec<MemoryHit>, MemoryError>;
}
