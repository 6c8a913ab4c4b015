//! The jobs file.
//!
//! Decision: each change reads the file, changes it and replaces it while holding a separate lock
//! file, so that any number of processes may do so; nothing is cached in memory. A file that cannot
//! be parsed is left exactly as it is, and every change is refused until the user has corrected it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use nanobot_disk::{Access, Disk as _, Durability, FileDraft, LocalDisk, NewFolders, replace_file};
use nanobot_types::JobId;

use crate::job::{Jobs, KNOWN_VERSION};

/// Reason why jobs cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum CronError {
    /// The file is not valid.
    #[error(
        "{} cannot be read as jobs, and nothing was changed; correct it (or move it away to start without jobs)",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The file was written by a newer version of the program.
    #[error(
        "{} has version {version}, but this program supports versions up to {KNOWN_VERSION}; nothing was changed",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// An I/O operation failed.
    #[error("{} cannot be used", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A schedule is invalid.
    #[error(transparent)]
    Schedule(#[from] crate::ScheduleError),
    /// A text of a job is too long.
    #[error(
        "the {what} of a job has at most {limit} characters; put more into a file and name that"
    )]
    TooLong {
        /// `message` or `name`.
        what: &'static str,
        /// The limit, in characters.
        limit: usize,
    },
    /// There is no such job.
    #[error("Job {id} not found")]
    Unknown {
        /// The id that was given.
        id: JobId,
    },
}

/// Maximum length of a job's message, in characters.
pub const MAX_MESSAGE_CHARS: usize = 8_000;
/// Maximum length of a job's name, in characters.
pub(crate) const MAX_NAME_CHARS: usize = 200;

/// Modification time and length of the file.
pub(crate) type StoreStamp = (SystemTime, u64);

/// Reads and changes the jobs file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JobStore {
    path: Arc<Path>,
}

impl JobStore {
    /// Creates a store for the jobs in `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into().into(),
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the stamp by which a change of the file is detected.
    pub(crate) fn stamp(&self) -> Option<StoreStamp> {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }

    /// Reads all jobs. Blocks.
    ///
    /// # Errors
    /// Returns [`CronError::Unreadable`], [`CronError::TooNew`] or [`CronError::Io`].
    pub fn read(&self) -> Result<Jobs, CronError> {
        let bytes = match std::fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Jobs::default()),
            read => read.map_err(|source| self.failed(source))?,
        };
        let jobs: Jobs =
            serde_json::from_slice(&bytes).map_err(|source| CronError::Unreadable {
                path: self.path().to_owned(),
                source,
            })?;
        if jobs.version() > KNOWN_VERSION {
            return Err(CronError::TooNew {
                path: self.path().to_owned(),
                version: jobs.version(),
            });
        }
        Ok(jobs)
    }

    /// Changes the jobs while no other process can. The file is written only if `change` changed
    /// something. Blocks.
    ///
    /// # Errors
    /// Returns the same errors as [`JobStore::read`]; nothing is changed then.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Jobs) -> T) -> Result<T, CronError> {
        Ok(self.edit_and_stamp(change)?.0)
    }

    /// Changes the jobs like [`JobStore::edit`], and also returns the stamp of the file as this
    /// change left it.
    pub(crate) fn edit_and_stamp<T>(
        &self,
        change: impl FnOnce(&mut Jobs) -> T,
    ) -> Result<(T, Option<StoreStamp>), CronError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        NewFolders::default()
            .ensure(&LocalDisk, folder)
            .map_err(|source| self.failed(source))?;
        let guard = LocalDisk
            .open(&self.sibling("lock"), Access::Append)
            .map_err(|source| self.failed(source))?;
        guard.lock().map_err(|source| self.failed(source))?;
        let before = self.read()?;
        let mut jobs = before.clone();
        let result = change(&mut jobs);
        if jobs != before {
            self.write(&jobs).map_err(|source| self.failed(source))?;
        }
        Ok((result, self.stamp()))
    }

    fn write(&self, jobs: &Jobs) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(jobs)?;
        let draft = FileDraft::Like(&self.path);
        replace_file(&LocalDisk, &self.path, &bytes, draft, Durability::Disk)
    }

    pub(crate) fn sibling(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{ending}"));
        name.into()
    }

    pub(crate) fn failed(&self, source: io::Error) -> CronError {
        CronError::Io {
            path: self.path().to_owned(),
            source,
        }
    }
}
