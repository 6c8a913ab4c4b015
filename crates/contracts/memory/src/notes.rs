//! Day notes: `2026-03-15.md`, written by a person or the assistant, and what becomes of old ones.
//!
//! Decision: only files named exactly like that are notes; everything else in the folder is left
//! alone, whatever it is called. Nothing old is touched unless the settings say so, and what is
//! removed is a version first.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{Datelike as _, Days, Months, NaiveDate};
use nanobot_disk::{Access, Disk, read_to_end};

use crate::versions::{Content, Versions};
use crate::{DayNote, MemoryError, MemorySettings, Reason, file, month};

/// Notes of this many days stay as they are, whatever the settings say.
const RECENT: u64 = 7;
/// The file in which expired notes can be found among the versions.
const EXPIRED: &str = "expired-notes.md";

/// What became of old day notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// Notes that stand in the file of their month now.
    pub rolled_up: usize,
    /// Notes that were kept long enough and are gone.
    pub expired: usize,
}

/// The name of a note.
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

/// The days with a note between `first` and `last`, the newest first.
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

/// Does with notes that were kept long enough what the settings say: months that are over are
/// rolled up, or single notes removed.
pub(crate) fn tend(
    disk: &dyn Disk,
    folder: &Path,
    versions: &Versions<'_>,
    settings: &MemorySettings,
    today: NaiveDate,
) -> Result<Tended, MemoryError> {
    let days = u64::from(settings.keep_daily_notes_days).max(RECENT);
    let old = today
        .checked_sub_days(Days::new(days))
        .unwrap_or(NaiveDate::MIN);
    let notes = noted_days(disk, folder, NaiveDate::MIN, old)?;
    if !settings.roll_up_monthly {
        return Ok(Tended {
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
    let mut tended = Tended::default();
    for days in months.into_values() {
        tended.rolled_up += roll_up(disk, folder, versions, days)?;
    }
    Ok(tended)
}

/// Whether the month of a day ended before another day.
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
    let before = whole(disk, &path)?.unwrap_or_default();
    let merged = month::merged(&before, &notes);
    if merged != before {
        versions.notice(&name, &Reason::Found)?;
        let version = versions.commit(&name, &Content::Bytes(&merged), &Reason::RolledUp)?;
        file::replace(disk, &path, &merged).inspect_err(|_| versions.withdraw(&version))?;
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
        &Content::Bytes(&month::merged(b"", &notes)),
        &Reason::Expired,
    )?;
    remove(disk, folder, &notes)?;
    Ok(notes.len())
}

/// The whole notes of some days. One that is a folder, or too long to be read whole, is left alone.
fn texts(
    disk: &dyn Disk,
    folder: &Path,
    days: &[NaiveDate],
) -> Result<Vec<(NaiveDate, Vec<u8>)>, MemoryError> {
    let mut texts = Vec::new();
    for day in days {
        match whole(disk, &folder.join(name(*day))) {
            Ok(Some(text)) => texts.push((*day, text)),
            Ok(None) => {}
            Err(error) if is_no_note(&error) => {
                tracing::warn!(%day, error = &error as &dyn std::error::Error, "an old note is left alone");
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

/// All of a file; `None` when there is none.
fn whole(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, MemoryError> {
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
        .map_err(file::failed("tidy", folder))
}
