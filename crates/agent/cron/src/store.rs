//! The file of jobs.
//!
//! Decision: every change reads the file, changes it and replaces it under a lock of its own file,
//! so that any number of processes may do so; nothing is held in memory. A file that cannot be
//! read is left exactly as it is, and no change is made until a person looked at it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use nanobot_disk::{Access, Disk as _, LocalDisk, NewFolders, write_all};
use nanobot_types::JobId;

use crate::job::{Jobs, KNOWN_VERSION};

/// Why jobs cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum CronError {
    /// The file is there and is not what it should be.
    #[error(
        "{} cannot be read as jobs, and nothing was changed; correct it (or move it away to begin without jobs)",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A later program wrote the file.
    #[error(
        "{} has version {version}, and this program knows versions up to {KNOWN_VERSION}; nothing was changed",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The disk failed.
    #[error("{} cannot be used", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        #[source]
        source: io::Error,
    },
    /// A schedule cannot be one.
    #[error(transparent)]
    Schedule(#[from] crate::ScheduleError),
    /// A text of a job is too long.
    #[error(
        "the {what} of a job has at most {limit} characters; put more into a file and name that"
    )]
    TooLong {
        /// Its message or its name.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// There is no such job.
    #[error("Job {id} not found")]
    Unknown {
        /// What was asked for.
        id: JobId,
    },
}

/// The most characters of what a job tells the assistant.
pub const LONGEST_MESSAGE: usize = 8_000;
/// The most characters of a job's name.
pub(crate) const LONGEST_NAME: usize = 200;

/// When the file was last changed, and how long it is.
pub(crate) type Stamp = (SystemTime, u64);

/// Reads and changes the file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JobStore {
    path: Arc<Path>,
}

impl JobStore {
    /// The jobs in `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into().into(),
        }
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file is told by.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }

    /// All jobs. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// [`CronError::Unreadable`], [`CronError::TooNew`] and [`CronError::Io`].
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

    /// Changes the jobs, alone among all processes; what does not change is not written. Blocks.
    ///
    /// # Errors
    /// As [`JobStore::read`]; nothing is changed then.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Jobs) -> T) -> Result<T, CronError> {
        Ok(self.edit_and_stamp(change)?.0)
    }

    /// The same, and what the file is told by before anybody else can change it.
    pub(crate) fn edit_and_stamp<T>(
        &self,
        change: impl FnOnce(&mut Jobs) -> T,
    ) -> Result<(T, Option<Stamp>), CronError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        NewFolders::default()
            .ensure(&LocalDisk, folder)
            .map_err(|source| self.failed(source))?;
        let guard = LocalDisk
            .open(&self.beside("lock"), Access::Append)
            .map_err(|source| self.failed(source))?;
        guard.lock().map_err(|source| self.failed(source))?;
        let before = self.read()?;
        let mut jobs = before.clone();
        let told = change(&mut jobs);
        if jobs != before {
            self.write(&jobs).map_err(|source| self.failed(source))?;
        }
        Ok((told, self.stamp()))
    }

    fn write(&self, jobs: &Jobs) -> io::Result<()> {
        let draft = self.beside("tmp");
        let mut file = LocalDisk.open(&draft, Access::DraftOf(&self.path))?;
        write_all(&mut *file, &serde_json::to_vec_pretty(jobs)?)?;
        file.sync()?;
        drop(file);
        LocalDisk.rename(&draft, &self.path)?;
        LocalDisk.sync_folder(self.path.parent().unwrap_or(Path::new(".")))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{ending}"));
        name.into()
    }

    fn failed(&self, source: io::Error) -> CronError {
        CronError::Io {
            path: self.path().to_owned(),
            source,
        }
    }
}
