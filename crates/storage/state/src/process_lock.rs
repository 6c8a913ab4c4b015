//! Lock that allows one process per file.
//!
//! Decision: the operating system's lock on a file decides; the process id in it is for people. A
//! crash releases the lock, so a leftover file means nothing.
//!
//! There are two short moments in which the lock is held but the process id in it is not its
//! owner's: a new owner has not written its own id yet, or the owner was killed while it started a
//! child, which holds the lock until it executes another program. Both pass quickly, so a lock
//! whose named owner is not alive is waited for.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::StateError;
use crate::database::private;

/// Time to wait for a lock whose named owner is not alive.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between attempts while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Ownership of a lock file, until it is dropped.
#[derive(Debug)]
pub struct ProcessLock {
    file: File,
    path: PathBuf,
}

/// The process that owns a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Its process id, if it can be read.
    pub pid: Option<u32>,
}

impl ProcessLock {
    /// Acquires the lock of a file, or fails at once if another process owns it. Creates the file
    /// and its folder if they are missing; they remain. Blocks only while the lock is held in the
    /// name of a process that is gone, for at most 10 s.
    ///
    /// # Errors
    /// Returns [`StateError::Owned`], with the owner's process id if it can be read (not on
    /// Windows, where a locked file cannot be read), or [`StateError::Io`].
    pub fn acquire(path: PathBuf) -> Result<Self, StateError> {
        let fault = |action| {
            let path = path.clone();
            move |source: io::Error| StateError::Io {
                action,
                path,
                source,
            }
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        private::create_folder(folder).map_err(fault("create the folder of"))?;
        let mut file = private::options(OpenOptions::new().read(true).write(true).create(true))
            .open(&path)
            .map_err(fault("open the lock"))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let pid = read_pid(&mut file);
                    if begun.elapsed() > ORPHAN_TIMEOUT || owner::may_be_alive(pid) {
                        return Err(StateError::Owned { path, pid });
                    }
                    std::thread::park_timeout(POLL_INTERVAL);
                }
                Err(TryLockError::Error(source)) => return Err(fault("lock")(source)),
            }
        }
        write_pid(&mut file).map_err(fault("write the process id into"))?;
        Ok(Self { file, path })
    }

    /// Returns the holder of a lock; `None` while it is free. Takes a shared lock for an instant to
    /// find that out, and creates nothing.
    ///
    /// # Errors
    /// Returns [`StateError::Io`] if the lock file cannot be opened or locked.
    pub fn holder(path: &Path) -> Result<Option<LockHolder>, StateError> {
        let fault = |source| StateError::Io {
            action: "look at the lock",
            path: path.to_owned(),
            source,
        };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => {
                drop(file.unlock());
                Ok(None)
            }
            Err(TryLockError::WouldBlock) => Ok(Some(LockHolder {
                pid: read_pid(&mut file),
            })),
            Err(TryLockError::Error(source)) => Err(fault(source)),
        }
    }

    /// Returns the path of the lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        // Best effort. Closing the file releases the lock too, but only after a child that is just
        // being started has closed its copy.
        drop(self.file.set_len(0));
        drop(self.file.unlock());
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    file.sync_data()
}

#[cfg(unix)]
mod owner {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    use nix::unistd::Pid;

    /// Returns `true` if process `pid` is alive; `false` for `None`.
    pub(super) fn may_be_alive(pid: Option<u32>) -> bool {
        let pid = pid
            .and_then(|pid| i32::try_from(pid).ok())
            .filter(|pid| *pid > 0);
        pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
    }
}

#[cfg(not(unix))]
mod owner {
    /// Always returns `true`: a locked file cannot be read here, so its owner is unknown.
    pub(super) fn may_be_alive(_: Option<u32>) -> bool {
        true
    }
}
