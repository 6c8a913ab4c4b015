//! The process in which jobs are created and fired, and the lock that allows one to fire them.
//!
//! Decision: an operating system's lock decides, which a crash releases. A gateway has precedence,
//! because only it reaches all channels: it holds a second lock while it runs, and a prompt that
//! sees it held begins no more runs and gives up the first one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use nanobot_disk::{LocalDisk, NewFolders};
use tokio::sync::mpsc;

use crate::job::Job;
use crate::{CronError, JobStore};

/// The process in which jobs are created and fired.
#[derive(Clone, Debug)]
pub enum JobHost {
    /// A gateway. It fires all jobs, and its bus keeps messages over restarts.
    Gateway,
    /// An open prompt without a gateway. It fires only jobs that write to the terminal, and its bus
    /// ends with it.
    Prompt {
        /// Receives notices for the user at the prompt.
        notices: mpsc::Sender<String>,
    },
    /// A process that fires no jobs.
    Other,
}

impl JobHost {
    /// `true` if this host can fire the job.
    pub(crate) fn can_fire(&self, job: &Job) -> bool {
        match self {
            Self::Gateway => true,
            Self::Prompt { .. } => job.is_for_terminal(),
            Self::Other => false,
        }
    }

    /// `true` if this host is a prompt.
    pub(crate) fn is_prompt(&self) -> bool {
        matches!(self, Self::Prompt { .. })
    }

    /// Describes the limits of firing a new job; `None` if there are none.
    pub(crate) fn limits(&self, job: &Job) -> Option<&'static str> {
        match self {
            Self::Gateway => None,
            _ if self.can_fire(job) => Some(
                "It fires while this prompt is open; otherwise only `nanobot gateway` (or its service) fires it.",
            ),
            _ => {
                Some("It fires only while `nanobot gateway` (or its service) runs; none runs now.")
            }
        }
    }
}

/// The right to fire jobs. Dropping it releases it.
#[derive(Debug, Default)]
pub(crate) struct FiringRight {
    firing: Option<File>,
    /// Held by a gateway also while it waits for the right.
    gateway: Option<File>,
}

impl FiringRight {
    /// `true` if this process may fire jobs.
    pub(crate) fn is_held(&self) -> bool {
        self.firing.is_some()
    }

    /// Acquires the right if no other process has it, and returns `true` if it is held then. Blocks
    /// only for file operations.
    ///
    /// # Errors
    /// Returns [`CronError::Io`] if a lock file cannot be used.
    pub(crate) fn acquire(&mut self, store: &JobStore, host: &JobHost) -> Result<bool, CronError> {
        match host {
            JobHost::Other => return Ok(false),
            JobHost::Prompt { .. } if store.is_gateway_present()? => return Ok(false),
            JobHost::Gateway if self.gateway.is_none() => {
                self.gateway = store.try_lock("gateway")?;
                if self.gateway.is_none() {
                    return Ok(false);
                }
            }
            JobHost::Gateway | JobHost::Prompt { .. } => {}
        }
        if self.firing.is_none() {
            self.firing = store.try_lock("firing")?;
        }
        Ok(self.is_held())
    }

    /// Releases the right.
    pub(crate) fn release(&mut self) {
        *self = Self::default();
    }
}

impl JobStore {
    /// `true` if a gateway fires jobs or waits until it may.
    pub(crate) fn is_gateway_present(&self) -> Result<bool, CronError> {
        Ok(self.try_lock("gateway")?.is_none())
    }

    fn try_lock(&self, ending: &str) -> Result<Option<File>, CronError> {
        let path = self.sibling(ending);
        if let Some(folder) = path.parent() {
            NewFolders::default()
                .ensure(&LocalDisk, folder)
                .map_err(|source| self.failed(source))?;
        }
        let file = open(&path).map_err(|source| self.failed(source))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            // A file system without locks has one process only, as far as this program can know.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(Some(file))
            }
            Err(TryLockError::Error(source)) => Err(self.failed(source)),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_precedes_a_prompt() {
        let home = tempfile::tempdir().unwrap();
        let store = || JobStore::new(home.path().join("jobs.json"));
        let prompt = JobHost::Prompt {
            notices: mpsc::channel(1).0,
        };
        let acquire =
            |right: &mut FiringRight, host: &JobHost| right.acquire(&store(), host).unwrap();
        let (mut first, mut second) = (FiringRight::default(), FiringRight::default());
        let mut gateway = FiringRight::default();
        assert!(acquire(&mut first, &prompt));
        assert!(!acquire(&mut second, &prompt), "one prompt fires");
        assert!(!store().is_gateway_present().unwrap());
        assert!(
            !acquire(&mut gateway, &JobHost::Gateway),
            "the prompt still fires"
        );
        assert!(store().is_gateway_present().unwrap());
        first.release();
        assert!(!acquire(&mut second, &prompt), "a gateway waits");
        assert!(acquire(&mut gateway, &JobHost::Gateway));
        drop(gateway);
        assert!(!acquire(&mut first, &JobHost::Other));
        assert!(acquire(&mut second, &prompt));
    }
}
