//! One gateway per home.
//!
//! Decision: the operating system's lock on a file is what counts; the process id inside is for
//! people. A crash releases the lock, so a file that was left behind means nothing.
//!
//! There are two short moments in which the lock is held and the name in it is not its owner's: a
//! new owner has not written its own yet, or the owner was killed while it started a child, which
//! holds the lock until it has become another program. Both pass by themselves, so a lock whose
//! named owner does not live is waited for.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::StateError;
use crate::database::private;

/// The lock's name in a home.
const FILE: &str = "gateway.lock";
/// How long to wait for a lock that nobody alive is known to own.
const OWNERLESS: Duration = Duration::from_secs(10);
/// How often to look meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Ownership of a home, until it is dropped.
#[derive(Debug)]
pub struct HomeLock {
    file: File,
    path: PathBuf,
}

/// The process that has a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id, where it can be read.
    pub pid: Option<u32>,
}

impl HomeLock {
    /// Takes the home, or says at once who has it. Makes the folder when it is missing. Blocks,
    /// for 10 s at most, only while the lock is held in the name of a process that is gone.
    ///
    /// # Errors
    /// [`StateError::Owned`] with the owner's process id where it can be read (not on Windows,
    /// where a locked file cannot), [`StateError::Io`].
    pub fn acquire(home: &Path) -> Result<Self, StateError> {
        let path = home.join(FILE);
        let fault = |action| {
            let path = path.clone();
            move |source: io::Error| StateError::Io {
                action,
                path,
                source,
            }
        };
        private::create_folder(home).map_err(fault("make the folder of"))?;
        let mut file = private::options(OpenOptions::new().read(true).write(true).create(true))
            .open(&path)
            .map_err(fault("open the lock"))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let pid = read_pid(&mut file);
                    if begun.elapsed() > OWNERLESS || owner::may_live(pid) {
                        return Err(StateError::Owned { path, pid });
                    }
                    std::thread::park_timeout(LOOK_EVERY);
                }
                Err(TryLockError::Error(source)) => return Err(fault("lock")(source)),
            }
        }
        write_pid(&mut file).map_err(fault("write the process id into"))?;
        Ok(Self { file, path })
    }

    /// The holder of a home's lock; `None` while it is free. The lock is shared for an instant to find
    /// that out, and the home is not changed.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn holder(home: &Path) -> Result<Option<Holder>, StateError> {
        let path = home.join(FILE);
        let fault = |source| StateError::Io {
            action: "look at the lock",
            path: path.clone(),
            source,
        };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => {
                drop(file.unlock());
                Ok(None)
            }
            Err(TryLockError::WouldBlock) => Ok(Some(Holder {
                pid: read_pid(&mut file),
            })),
            Err(TryLockError::Error(source)) => Err(fault(source)),
        }
    }

    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // Best effort: closing the file releases the lock too, but not before a process that is just
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

    /// Whether a process of that id runs. Nobody's name is nobody's life.
    pub(super) fn may_live(pid: Option<u32>) -> bool {
        let pid = pid
            .and_then(|pid| i32::try_from(pid).ok())
            .filter(|pid| *pid > 0);
        pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
    }
}

#[cfg(not(unix))]
mod owner {
    /// It cannot be told: a locked file cannot be read, so it is not known who it is.
    pub(super) fn may_live(_: Option<u32>) -> bool {
        true
    }
}
