//! Day notes (`2026-03-15.md`), written by a person or the assistant, and the retention of old
//! ones.
//!
//! Decision: only files with exactly such a name are notes; all other files in the folder are left
//! alone. Old notes are changed only if the settings say so, and a version is recorded before
//! anything is removed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{Datelike as _, Days, Months, NaiveDate};
use nanobot_disk::{Access, Disk, read_to_end};

use crate::versions::{VersionContent, Versions};
use crate::{DayNote, MemoryError, MemorySettings, Reason, file, month};

/// Number of days for which notes are never changed, whatever the settings are.
const RECENT: u64 = 7;
/// File name under which expired notes are recorded as versions.
const EXPIRED: &str = "expired-notes.md";

/// Result of applying the retention settings to old day notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionSummary {
    /// Number of notes that were moved to the file of their month.
    pub rolled_up: usize,
    /// Number of notes that were removed after their retention period.
    pub expired: usize,
}

/// Returns the file name of a note.
pub(crate) fn name(date: NaiveDate) -> String {
    date.format("%Y-%m-%d.md").to_string()
}

pub(crate) fn note(
    disk: &dyn Disk,
    folder: &Path,
    date: NaiveDate,
) -> Result<Option<DayNote>, MemoryError> {
    let read = file::read(disk, &folder.join(name(date)))?;
    Ok(read.map(|read| DayNote {
        date,
        text: read.text,
    }))
}

/// Returns the days from `first` to `last` that have a note, the newest first.
pub(crate) fn noted_days(
    disk: &dyn Disk,
    folder: &Path,
    first: NaiveDate,
    last: NaiveDate,
) -> Result<Vec<NaiveDate>, MemoryError> {
    let files = match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(file::failed("list", folder))?,
    };
    let date_of = |file: &PathBuf| {
        let found = file.file_name()?.to_str()?;
        let date = NaiveDate::parse_from_str(found, "%Y-%m-%d.md").ok()?;
        (name(date) == found).then_some(date)
    };
    let dates = files.iter().filter_map(date_of);
    let mut days: Vec<NaiveDate> = dates.filter(|date| (first..=last).contains(date)).collect();
    days.sort_unstable_by(|a, b| b.cmp(a));
    Ok(days)
}

/// Applies the retention settings to notes that are old enough: rolls up past months, or removes
/// single notes.
pub(crate) fn apply_retention(
    disk: &dyn Disk,
    folder: &Path,
    versions: &Versions<'_>,
    settings: &MemorySettings,
    today: NaiveDate,
) -> Result<RetentionSummary, MemoryError> {
    let days = u64::from(settings.keep_daily_notes_days).max(RECENT);
    let old = today
        .checked_sub_days(Days::new(days))
        .unwrap_or(NaiveDate::MIN);
    let notes = noted_days(disk, folder, NaiveDate::MIN, old)?;
    if !settings.roll_up_monthly {
        return Ok(RetentionSummary {
            rolled_up: 0,
            expired: expire(disk, folder, versions, notes)?,
        });
    }
    let mut months: BTreeMap<(i32, u32), Vec<NaiveDate>> = BTreeMap::new();
    for day in notes.into_iter().filter(|day| ends_before(*day, old)) {
        months
            .entry((day.year(), day.month()))
            .or_default()
            .push(day);
    }
    let mut tended = RetentionSummary::default();
    for days in months.into_values() {
        tended.rolled_up += roll_up(disk, folder, versions, days)?;
    }
    Ok(tended)
}

/// `true` if the month of `day` ended before `other`.
fn ends_before(day: NaiveDate, other: NaiveDate) -> bool {
    let next = day
        .with_day(1)
        .and_then(|first| first.checked_add_months(Months::new(1)));
    next.is_some_and(|next| next <= other)
}

fn roll_up(
    disk: &dyn Disk,
    folder: &Path,
    versions: &Versions<'_>,
    mut days: Vec<NaiveDate>,
) -> Result<usize, MemoryError> {
    days.sort_unstable();
    let notes = texts(disk, folder, &days)?;
    let Some((first, _)) = notes.first() else {
        return Ok(0);
    };
    let name = first.format("%Y-%m.md").to_string();
    let path = folder.join(&name);
    let before = read_complete(disk, &path)?.unwrap_or_default();
    let merged = month::merged(&before, &notes);
    if merged != before {
        versions.record_change(&name, &Reason::Found)?;
        let version = versions.commit(&name, &VersionContent::Bytes(&merged), &Reason::RolledUp)?;
        file::replace(disk, &path, &merged).inspect_err(|_| versions.remove(&version))?;
    }
    remove(disk, folder, &notes)?;
    Ok(notes.len())
}

fn expire(
    disk: &dyn Disk,
    folder: &Path,
    versions: &Versions<'_>,
    mut days: Vec<NaiveDate>,
) -> Result<usize, MemoryError> {
    days.sort_unstable();
    let notes = texts(disk, folder, &days)?;
    if notes.is_empty() {
        return Ok(0);
    }
    versions.commit(
        EXPIRED,
        &VersionContent::Bytes(&month::merged(b"", &notes)),
        &Reason::Expired,
    )?;
    remove(disk, folder, &notes)?;
    Ok(notes.len())
}

/// Returns the complete notes of some days. A note that is a folder, or too long to be read
/// completely, is skipped.
fn texts(
    disk: &dyn Disk,
    folder: &Path,
    days: &[NaiveDate],
) -> Result<Vec<(NaiveDate, Vec<u8>)>, MemoryError> {
    let mut texts = Vec::new();
    for day in days {
        match read_complete(disk, &folder.join(name(*day))) {
            Ok(Some(text)) => texts.push((*day, text)),
            Ok(None) => {}
            Err(error) if is_no_note(&error) => {
                tracing::warn!(%day, error = &error as &dyn std::error::Error, "skipped an old note that cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(texts)
}

fn is_no_note(error: &MemoryError) -> bool {
    match error {
        MemoryError::TooLong { .. } => true,
        MemoryError::Io { source, .. } => source.kind() == io::ErrorKind::IsADirectory,
        _ => false,
    }
}

/// Returns the complete content of a file; `None` if there is no such file.
fn read_complete(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, MemoryError> {
    let file = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(file::failed("read", path))?,
    };
    let length = file.stamp().map_err(file::failed("read", path))?.length;
    if length > file::READ_LIMIT {
        return Err(MemoryError::TooLong {
            path: path.to_owned(),
            length,
            limit: file::READ_LIMIT,
        });
    }
    read_to_end(&*file, 0, file::READ_LIMIT)
        .map(Some)
        .map_err(file::failed("read", path))
}

fn remove(
    disk: &dyn Disk,
    folder: &Path,
    notes: &[(NaiveDate, Vec<u8>)],
) -> Result<(), MemoryError> {
    for (day, _) in notes {
        let path = folder.join(name(*day));
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file::failed("remove", &path)(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    disk.sync_folder(folder)
        .map_err(file::failed("sync", folder))
}
