//! Memory as Markdown files in folders, compatible with the Python program.
//!
//! Decision: a scope is a folder of [`MemoryFolders`]. A scope without a folder is refused instead
//! of falling back to shared memory. `MEMORY.md` is replaced by rename, after its [`Versions`] are
//! recorded. `HISTORY.md` is appended to and never renamed. Day notes are only read, except that
//! old ones are rolled up or removed if the settings say so.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use chrono::{Days, Local, NaiveDate};
use nanobot_disk::{Disk, FileStamp, LocalDisk, NewFolders};
use nanobot_types::Timestamp;
use tokio::sync::Mutex;

use crate::versions::{VersionContent, Versions};
use crate::{
    DayNote, Facts, MemoryError, MemoryFolders, MemorySettings, MemoryStore, MemoryVersions,
    Reason, RetentionSummary, Revision, Scope, Version, VersionText, file, history, notes,
};

const FACTS: &str = "MEMORY.md";

/// Memory in Markdown files below one folder.
#[derive(Debug)]
pub struct MarkdownStore {
    shared: Arc<MarkdownShared>,
    /// Held while writing.
    writing: Arc<Mutex<NewFolders>>,
}

#[derive(Debug)]
struct MarkdownShared {
    disk: Arc<dyn Disk>,
    folders: MemoryFolders,
    settings: MemorySettings,
    /// Stamps of files whose newest version was known to match their content.
    seen: std::sync::Mutex<HashMap<PathBuf, Option<FileStamp>>>,
}

/// File operations in the folder of one scope.
struct ScopeFiles<'a> {
    shared: &'a MarkdownShared,
    disk: &'a dyn Disk,
    folder: &'a Path,
}

impl MarkdownStore {
    /// Creates a store of shared memory in `<workspace>/memory`. Folders are created on the first
    /// write.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(LocalDisk), folder)
    }

    /// Creates a store of shared memory on another disk.
    pub fn on(disk: Arc<dyn Disk>, folder: impl Into<PathBuf>) -> Self {
        Self::made(disk, folder.into(), MemorySettings::default())
    }

    /// Replaces the settings.
    #[must_use]
    pub fn with_settings(self, settings: MemorySettings) -> Self {
        Self::made(
            self.shared.disk.clone(),
            self.shared.folders.root().to_owned(),
            settings,
        )
    }

    fn made(disk: Arc<dyn Disk>, root: PathBuf, settings: MemorySettings) -> Self {
        let folders = MemoryFolders::new(root, settings.scopes);
        let shared = MarkdownShared {
            disk,
            folders,
            settings,
            seen: std::sync::Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            writing: Arc::default(),
        }
    }

    /// Returns the folders in which the store keeps memory.
    #[must_use]
    pub fn folders(&self) -> &MemoryFolders {
        &self.shared.folders
    }

    /// Applies the retention settings to the old day notes of all scopes. Does nothing if the
    /// settings keep all notes.
    ///
    /// # Errors
    /// Returns [`MemoryError::Io`] if a file cannot be read or written. Every line is still in at
    /// least one file then, and retrying is safe.
    pub async fn apply_retention(&self, today: NaiveDate) -> Result<RetentionSummary, MemoryError> {
        let settings = self.shared.settings;
        let mut sum = RetentionSummary::default();
        if !settings.roll_up_monthly && settings.keep_daily_notes_days == 0 {
            return Ok(sum);
        }
        let shared = self.shared.clone();
        let scopes = tokio::task::spawn_blocking(move || shared.folders.existing())
            .await
            .unwrap_or_default();
        for scope in scopes {
            let tended = self
                .writing(&scope, move |work| {
                    notes::apply_retention(
                        work.disk,
                        work.folder,
                        &work.versions(),
                        &settings,
                        today,
                    )
                })
                .await?;
            sum.rolled_up += tended.rolled_up;
            sum.expired += tended.expired;
        }
        Ok(sum)
    }

    async fn reading<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&ScopeFiles<'_>) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let folder = self.shared.folders.of(scope)?;
        let (shared, place) = (self.shared.clone(), folder.clone());
        let done = tokio::task::spawn_blocking(move || {
            work(&ScopeFiles {
                shared: &shared,
                disk: &*shared.disk,
                folder: &place,
            })
        });
        done.await
            .map_err(|error| file::failed("reach", &folder)(io::Error::other(error)))?
    }

    /// Like [`Self::reading`], but excludes all other writers, in this process and in others. Work
    /// that was started is finished, even if the caller no longer waits for it.
    async fn writing<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&ScopeFiles<'_>) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let alone = self.writing.clone().lock_owned().await;
        self.reading(scope, move |at| {
            alone
                .ensure(at.disk, at.folder)
                .map_err(file::failed("create", at.folder))?;
            let _others_wait = at.versions().lock(&alone)?;
            work(at)
        })
        .await
    }
}

impl ScopeFiles<'_> {
    fn versions(&self) -> Versions<'_> {
        Versions::new(self.disk, self.folder, self.shared.settings.keep_versions)
    }

    fn facts(&self) -> Result<Facts, MemoryError> {
        let read = file::read(self.disk, &self.folder.join(FACTS))?.unwrap_or_default();
        Ok(Facts {
            revision: Revision(read.fingerprint),
            text: read.text,
        })
    }

    fn replace_facts(
        &self,
        text: &str,
        base: Revision,
        reason: &Reason,
    ) -> Result<Revision, MemoryError> {
        let path = self.folder.join(FACTS);
        let current = file::read(self.disk, &path)?.unwrap_or_default();
        if Revision(current.fingerprint) != base {
            return Err(MemoryError::Changed);
        }
        if current.length > file::READ_LIMIT {
            return Err(MemoryError::TooLong {
                path,
                length: current.length,
                limit: file::READ_LIMIT,
            });
        }
        if current.text != text {
            self.put(FACTS, text.as_bytes(), reason)?;
        }
        Ok(self.facts()?.revision)
    }

    /// Replaces the content of a file. Before that, a version of the current content is recorded if
    /// there is none yet, and a version of the new content.
    fn put(&self, name: &str, bytes: &[u8], reason: &Reason) -> Result<Version, MemoryError> {
        let versions = self.versions();
        versions.record_change(name, &Reason::Found)?;
        let version = versions.commit(name, &VersionContent::Bytes(bytes), reason)?;
        file::replace(self.disk, &self.folder.join(name), bytes)
            .inspect_err(|_| versions.remove(&version))?;
        Ok(version)
    }

    fn restore(&self, number: u64) -> Result<Version, MemoryError> {
        let version = self.versions().find(number)?;
        let is_name = Path::new(&version.file)
            .file_name()
            .is_some_and(|name| name == version.file.as_str());
        if version.removed || !is_name {
            return Err(MemoryError::NoVersion { number });
        }
        let bytes = self.versions().bytes(&version)?;
        self.put(&version.file, &bytes, &Reason::Restored { version: number })
    }

    fn version(&self, number: u64) -> Result<VersionText, MemoryError> {
        let versions = self.versions();
        let version = versions.find(number)?;
        let text =
            |version: &Version| Ok(String::from_utf8_lossy(&versions.bytes(version)?).into_owned());
        let before = version.before.and_then(|before| versions.find(before).ok());
        Ok(VersionText {
            before: before.as_ref().map(text).transpose()?.unwrap_or_default(),
            text: text(&version)?,
            version,
        })
    }

    /// Returns the names of the files that are watched for changes: the facts and the notes of
    /// today and yesterday.
    fn watched() -> Vec<String> {
        let today = Local::now().date_naive();
        let days = [Some(today), today.pred_opt()];
        std::iter::once(FACTS.to_owned())
            .chain(days.into_iter().flatten().map(notes::name))
            .collect()
    }

    /// Returns the [watched](Self::watched) files that changed since they were last seen.
    fn touched(&self) -> Result<Vec<String>, MemoryError> {
        let mut touched = Vec::new();
        for name in Self::watched() {
            let path = self.folder.join(&name);
            let stamp = file::stamp(self.disk, &path)?;
            if self.seen().get(&path) == Some(&stamp) {
                continue;
            }
            let current = file::read(self.disk, &path)?;
            if self.versions().is_known(&name, current.as_ref())? {
                let mut seen = self.seen();
                // Stamps of old notes are not needed any more.
                if seen.len() > MAX_SEEN {
                    seen.clear();
                }
                seen.insert(path, stamp);
            } else {
                touched.push(name);
            }
        }
        Ok(touched)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Option<FileStamp>>> {
        self.shared
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of files whose stamps are remembered.
const MAX_SEEN: usize = 1024;

#[async_trait]
impl MemoryStore for MarkdownStore {
    async fn facts(&self, scope: &Scope) -> Result<Facts, MemoryError> {
        self.reading(scope, |work| work.facts()).await
    }

    async fn replace_facts(
        &self,
        scope: &Scope,
        text: String,
        base: Revision,
        reason: &Reason,
    ) -> Result<Revision, MemoryError> {
        let reason = reason.clone();
        self.writing(scope, move |work| work.replace_facts(&text, base, &reason))
            .await
    }

    async fn append_history(
        &self,
        scope: &Scope,
        at: Timestamp,
        entry: &str,
    ) -> Result<(), MemoryError> {
        let entry = entry.trim_end().to_owned();
        self.writing(scope, move |work| {
            history::append(work.disk, work.folder, &at, &entry)
        })
        .await
    }

    async fn has_history(&self, scope: &Scope, entry: &str) -> Result<bool, MemoryError> {
        let entry = entry.trim_end().to_owned();
        self.reading(scope, move |work| {
            history::holds(work.disk, work.folder, &entry)
        })
        .await
    }

    async fn day_note(
        &self,
        scope: &Scope,
        date: NaiveDate,
    ) -> Result<Option<DayNote>, MemoryError> {
        self.reading(scope, move |work| notes::note(work.disk, work.folder, date))
            .await
    }

    async fn recent(&self, scope: &Scope, days: u32) -> Result<Vec<DayNote>, MemoryError> {
        self.reading(scope, move |work| {
            let Some(before) = days.checked_sub(1) else {
                return Ok(Vec::new());
            };
            let today = Local::now().date_naive();
            let first = today
                .checked_sub_days(Days::new(before.into()))
                .unwrap_or(NaiveDate::MIN);
            let days = notes::noted_days(work.disk, work.folder, first, today)?;
            days.into_iter()
                .filter_map(|date| notes::note(work.disk, work.folder, date).transpose())
                .collect()
        })
        .await
    }

    fn is_divided(&self) -> bool {
        self.shared.folders.is_divided()
    }

    fn versions(&self) -> Option<&dyn MemoryVersions> {
        Some(self)
    }
}

#[async_trait]
impl MemoryVersions for MarkdownStore {
    async fn log(&self, scope: &Scope) -> Result<Vec<Version>, MemoryError> {
        self.reading(scope, |work| work.versions().all()).await
    }

    async fn version(&self, scope: &Scope, number: u64) -> Result<VersionText, MemoryError> {
        self.reading(scope, move |work| work.version(number)).await
    }

    async fn restore(&self, scope: &Scope, number: u64) -> Result<Version, MemoryError> {
        self.writing(scope, move |work| work.restore(number)).await
    }

    async fn record_changes(
        &self,
        scope: &Scope,
        reason: &Reason,
    ) -> Result<Vec<Version>, MemoryError> {
        let touched = self.reading(scope, |work| work.touched()).await?;
        if touched.is_empty() {
            return Ok(Vec::new());
        }
        let reason = reason.clone();
        self.writing(scope, move |work| {
            let versions = work.versions();
            touched
                .iter()
                .filter_map(|name| versions.record_change(name, &reason).transpose())
                .collect()
        })
        .await
    }
}
