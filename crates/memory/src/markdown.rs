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
use nanobot_disk::{Disk, LocalDisk, NewFolders};
use nanobot_types::Timestamp;
use tokio::sync::Mutex;

use crate::{DayNote, Facts, MemoryError, MemoryStore, Revision, Scope, file, history};

/// Files in one folder.
#[derive(Debug)]
pub struct MarkdownStore {
    disk: Arc<dyn Disk>,
    folder: Arc<PathBuf>,
    /// Held by those who write.
    writing: Arc<Mutex<NewFolders>>,
}

impl MarkdownStore {
    /// A store over `<workspace>/memory`. The folder is made when something is written.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(LocalDisk), folder)
    }

    /// The same on another disk.
    pub fn on(disk: Arc<dyn Disk>, folder: impl Into<PathBuf>) -> Self {
        Self { disk, folder: Arc::new(folder.into()), writing: Arc::default() }
    }

    async fn reading<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&dyn Disk, &Path) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        only_shared(scope)?;
        let (disk, folder) = (self.disk.clone(), self.folder.clone());
        let done = tokio::task::spawn_blocking(move || work(&*disk, &folder)).await;
        done.map_err(|error| file::failed("reach", &self.folder)(io::Error::other(error)))?
    }

    /// Like [`Self::reading`], with no other writer beside it. What was begun is finished, also
    /// when nobody waits for it any more.
    async fn writing<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&dyn Disk, &Path) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let alone = self.writing.clone().lock_owned().await;
        self.reading(scope, move |disk, folder| {
            alone.ensure(disk, folder).map_err(file::failed("create", folder))?;
            work(disk, folder)
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

fn facts(disk: &dyn Disk, folder: &Path) -> Result<Facts, MemoryError> {
    let read = file::read(disk, &folder.join("MEMORY.md"))?.unwrap_or_default();
    Ok(Facts { revision: Revision(read.fingerprint), text: read.text })
}

fn note(disk: &dyn Disk, folder: &Path, date: NaiveDate) -> Result<Option<DayNote>, MemoryError> {
    let read = file::read(disk, &folder.join(date.format("%Y-%m-%d.md").to_string()))?;
    Ok(read.map(|read| DayNote { date, text: read.text }))
}

/// The days with a note between `first` and `last`, the newest first.
fn noted_days(
    disk: &dyn Disk,
    folder: &Path,
    first: NaiveDate,
    last: NaiveDate,
) -> Result<Vec<NaiveDate>, MemoryError> {
    let files = match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(file::failed("list", folder))?,
    };
    let date_of = |file: &PathBuf| NaiveDate::parse_from_str(file.file_name()?.to_str()?, "%Y-%m-%d.md").ok();
    let dates = files.iter().filter_map(date_of);
    let mut days: Vec<NaiveDate> = dates.filter(|date| (first..=last).contains(date)).collect();
    days.sort_unstable_by(|a, b| b.cmp(a));
    Ok(days)
}

#[async_trait]
impl MemoryStore for MarkdownStore {
    async fn facts(&self, scope: &Scope) -> Result<Facts, MemoryError> {
        self.reading(scope, facts).await
    }

    async fn replace_facts(&self, scope: &Scope, text: String, base: Revision) -> Result<Revision, MemoryError> {
        self.writing(scope, move |disk, folder| {
            let current = facts(disk, folder)?;
            if current.revision != base {
                return Err(MemoryError::Changed);
            }
            if current.text != text {
                file::replace(disk, &folder.join("MEMORY.md"), text.as_bytes())?;
            }
            Ok(facts(disk, folder)?.revision)
        })
        .await
    }

    async fn append_history(&self, scope: &Scope, at: Timestamp, entry: &str) -> Result<(), MemoryError> {
        let entry = entry.trim_end().to_owned();
        self.writing(scope, move |disk, folder| history::append(disk, folder, &at, &entry)).await
    }

    async fn day_note(&self, scope: &Scope, date: NaiveDate) -> Result<Option<DayNote>, MemoryError> {
        self.reading(scope, move |disk, folder| note(disk, folder, date)).await
    }

    async fn recent(&self, scope: &Scope, days: u32) -> Result<Vec<DayNote>, MemoryError> {
        self.reading(scope, move |disk, folder| {
            let Some(before) = days.checked_sub(1) else {
                return Ok(Vec::new());
            };
            let today = Local::now().date_naive();
            let first = today.checked_sub_days(Days::new(before.into())).unwrap_or(NaiveDate::MIN);
            let days = noted_days(disk, folder, first, today)?;
            days.into_iter().filter_map(|date| note(disk, folder, date).transpose()).collect()
        })
        .await
    }
}
