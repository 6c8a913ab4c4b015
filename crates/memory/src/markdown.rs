//! Memory as Markdown files in one folder, as the Python program keeps it.
//!
//! Decision: only everybody's memory is kept. A scope of one person or room is refused rather than
//! answered with what everybody may see. `MEMORY.md` is replaced by rename with its last versions
//! kept beside it, `HISTORY.md` is appended to and never renamed, and day notes are only read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{Days, Local, NaiveDate};
use nanobot_types::Timestamp;
use tokio::sync::Mutex;

use crate::{DayNote, Facts, MemoryError, MemoryStore, Revision, Scope, file, history};

/// Files in one folder.
#[derive(Debug)]
pub struct MarkdownStore {
    folder: Arc<PathBuf>,
    /// Held by those who write.
    writing: Arc<Mutex<()>>,
}

impl MarkdownStore {
    /// A store over `<workspace>/memory`. The folder is made when something is written.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Arc::new(folder.into()), writing: Arc::default() }
    }

    async fn reading<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&Path) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        only_shared(scope)?;
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        done.map_err(|error| file::failed("reach", &self.folder)(io::Error::other(error)))?
    }

    /// Like [`Self::reading`], with no other writer beside it. What was begun is finished, also
    /// when nobody waits for it any more.
    async fn writing<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&Path) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let alone = self.writing.clone().lock_owned().await;
        self.reading(scope, move |folder| {
            file::create_folder(folder)?;
            let done = work(folder);
            drop(alone);
            done
        })
        .await
    }
}

fn only_shared(scope: &Scope) -> Result<(), MemoryError> {
    match scope {
        Scope::Shared => Ok(()),
        Scope::Person(_) | Scope::Room(_) => Err(MemoryError::Unsupported { scope: scope.to_string() }),
    }
}

fn facts(folder: &Path) -> Result<Facts, MemoryError> {
    let read = file::read(&folder.join("MEMORY.md"))?.unwrap_or_default();
    Ok(Facts { revision: Revision(read.fingerprint), text: read.text })
}

fn note(folder: &Path, date: NaiveDate) -> Result<Option<DayNote>, MemoryError> {
    let read = file::read(&folder.join(date.format("%Y-%m-%d.md").to_string()))?;
    Ok(read.map(|read| DayNote { date, text: read.text }))
}

/// The days with a note between `first` and `last`, the newest first.
fn noted_days(folder: &Path, first: NaiveDate, last: NaiveDate) -> Result<Vec<NaiveDate>, MemoryError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(file::failed("list", folder))?,
    };
    let mut days = Vec::new();
    for entry in entries {
        let name = entry.map_err(file::failed("list", folder))?.file_name();
        let date = name.to_str().and_then(|name| NaiveDate::parse_from_str(name, "%Y-%m-%d.md").ok());
        days.extend(date.filter(|date| (first..=last).contains(date)));
    }
    days.sort_unstable_by(|a, b| b.cmp(a));
    Ok(days)
}

#[async_trait]
impl MemoryStore for MarkdownStore {
    async fn facts(&self, scope: &Scope) -> Result<Facts, MemoryError> {
        self.reading(scope, facts).await
    }

    async fn replace_facts(&self, scope: &Scope, text: String, base: Revision) -> Result<Revision, MemoryError> {
        self.writing(scope, move |folder| {
            let current = facts(folder)?;
            if current.revision != base {
                return Err(MemoryError::Changed);
            }
            if current.text != text {
                file::replace(&folder.join("MEMORY.md"), text.as_bytes())?;
            }
            Ok(facts(folder)?.revision)
        })
        .await
    }

    async fn append_history(&self, scope: &Scope, at: Timestamp, entry: &str) -> Result<(), MemoryError> {
        let entry = entry.trim_end().to_owned();
        self.writing(scope, move |folder| history::append(folder, &at, &entry)).await
    }

    async fn day_note(&self, scope: &Scope, date: NaiveDate) -> Result<Option<DayNote>, MemoryError> {
        self.reading(scope, move |folder| note(folder, date)).await
    }

    async fn recent(&self, scope: &Scope, days: u32) -> Result<Vec<DayNote>, MemoryError> {
        self.reading(scope, move |folder| {
            let Some(before) = days.checked_sub(1) else {
                return Ok(Vec::new());
            };
            let today = Local::now().date_naive();
            let first = today.checked_sub_days(Days::new(before.into())).unwrap_or(NaiveDate::MIN);
            let days = noted_days(folder, first, today)?;
            days.into_iter().filter_map(|date| note(folder, date).transpose()).collect()
        })
        .await
    }
}
