//! The contract of a memory store.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use chrono::NaiveDate;
use nanobot_types::{SenderId, SessionKey, Timestamp};

use crate::MemoryError;

/// Whose memory it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everybody's.
    #[default]
    Shared,
    /// One person's; never shown in a group.
    Person(SenderId),
    /// One group's.
    Room(SessionKey),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str("everybody"),
            Self::Person(person) => write!(f, "person {person}"),
            Self::Room(room) => write!(f, "room {room}"),
        }
    }
}

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
    /// after a crash.
    ///
    /// # Errors
    /// [`MemoryError::Changed`] when they are not.
    async fn replace_facts(&self, scope: &Scope, text: String, base: Revision) -> Result<Revision, MemoryError>;

    /// Appends an entry and a blank line to the history.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn append_history(&self, scope: &Scope, at: Timestamp, entry: &str) -> Result<(), MemoryError>;

    /// The note of a day, if there is one. Notes are never created by reading.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn day_note(&self, scope: &Scope, date: NaiveDate) -> Result<Option<DayNote>, MemoryError>;

    /// The notes of the last `days` days that exist, the newest first.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn recent(&self, scope: &Scope, days: u32) -> Result<Vec<DayNote>, MemoryError>;
}

/// Search over what a memory store holds.
#[async_trait]
pub trait MemorySearch: Send + Sync + fmt::Debug {
    /// The best `limit` places for `query`, the best first.
    ///
    /// # Errors
    /// [`MemoryError::Io`].
    async fn search(&self, scope: &Scope, query: &str, limit: usize) -> Result<Vec<MemoryHit>, MemoryError>;
}
