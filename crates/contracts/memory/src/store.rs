//! The contract of a memory store.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use chrono::NaiveDate;
use nanobot_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{MemoryError, Reason, Scope};

/// A fingerprint of the facts as they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// The facts and their revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Markdown; empty when there are none.
    pub text: String,
    /// What [`MemoryStore::replace_facts`] wants as `base`.
    pub revision: Revision,
}

/// The note of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayNote {
    /// The day.
    pub date: NaiveDate,
    /// Markdown.
    pub text: String,
}

/// A place where something was found.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryHit {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The text around it.
    pub excerpt: String,
    /// Higher is better; comparable within one search only.
    pub score: f64,
}

/// Facts, history and day notes.
#[async_trait]
pub trait MemoryStore: Send + Sync + fmt::Debug {
    /// The facts. None yet is an empty text.
    ///
    /// # Errors
    /// [`MemoryError::Io`] and [`MemoryError::Unsupported`].
    async fn facts(&self, scope: &Scope) -> Result<Facts, MemoryError>;

    /// Replaces the facts if they are still those of `base`: old or new, never a mixture, also
    /// after a crash. What was there and what is there now are versions before this returns.
    ///
    /// # Errors
    /// [`MemoryError::Changed`] when they are not those of `base`, [`MemoryError::TooLong`] when
    /// there is more than what was read.
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
    /// [`MemoryError::Io`].
    async fn append_history(
        &self,
        scope: &Scope,
        at: Timestamp,
        entry: &str,
    ) -> Result<(), MemoryError>;

    /// Whether an entry is among the last ones of the history: how one finds out after a crash
    /// what became of an append. White space at its end does not count.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn has_history(&self, scope: &Scope, entry: &str) -> Result<bool, MemoryError>;

    /// The note of a day, if there is one. Notes are never created by reading.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn day_note(
        &self,
        scope: &Scope,
        date: NaiveDate,
    ) -> Result<Option<DayNote>, MemoryError>;

    /// The notes of the last `days` days that exist, the newest first.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn recent(&self, scope: &Scope, days: u32) -> Result<Vec<DayNote>, MemoryError>;

    /// Whether people and rooms have memory of their own here. Elsewhere every scope but
    /// [`Scope::Shared`] is refused.
    fn is_divided(&self) -> bool {
        false
    }

    /// The versions of what is kept, where there are any.
    fn versions(&self) -> Option<&dyn MemoryVersions> {
        None
    }
}

/// A change of a file of memory, which stands at what the file was behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its number in its scope, from 1.
    pub number: u64,
    /// When it was noticed or made.
    pub at: Timestamp,
    /// The file's name in the folder of the scope.
    pub file: String,
    /// Why.
    pub reason: Reason,
    /// The length of the file behind the change, in bytes.
    pub bytes: u64,
    /// A fingerprint of it, in hexadecimal digits.
    pub digest: String,
    /// The version of the same file before this one, while it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Whether the file was removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// A version with what the file was before and behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionText {
    /// The version.
    pub version: Version,
    /// The text before it; empty when that is not kept.
    pub before: String,
    /// The text behind it.
    pub text: String,
}

/// What memory was, to be reviewed and brought back. How many versions are kept is a setting;
/// the newest of each file always is.
#[async_trait]
pub trait MemoryVersions: Send + Sync + fmt::Debug {
    /// All versions of a scope, the newest first.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn log(&self, scope: &Scope) -> Result<Vec<Version>, MemoryError>;

    /// One version.
    ///
    /// # Errors
    /// [`MemoryError::NoVersion`].
    async fn version(&self, scope: &Scope, number: u64) -> Result<VersionText, MemoryError>;

    /// Brings a file back to what it was behind a version, byte by byte. That is a version of its
    /// own, as is what was there before.
    ///
    /// # Errors
    /// [`MemoryError::NoVersion`].
    async fn restore(&self, scope: &Scope, number: u64) -> Result<Version, MemoryError>;

    /// Looks whether the facts and the newest notes are as they were last seen, and keeps a
    /// version of each that is not. Costs next to nothing when they are.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn notice(&self, scope: &Scope, reason: &Reason) -> Result<Vec<Version>, MemoryError>;
}

/// Search over what a memory store holds.
#[async_trait]
pub trait MemorySearch: Send + Sync + fmt::Debug {
    /// The best `limit` places for `query` in the files of `scopes` and nowhere else, the best
    /// first.
    ///
    /// # Errors
    /// [`MemoryError::Search`] and [`MemoryError::Unsupported`].
    async fn search(
        &self,
        scopes: &[Scope],
        query: &str,
        limit: usize,
    ) -> Result<Vec<MemoryHit>, MemoryError>;
}
