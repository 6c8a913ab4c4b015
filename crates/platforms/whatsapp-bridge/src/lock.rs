//! Locks between processes.
//!
//! Decision: only the operating system's lock counts, so a crash releases it. The lock of an
//! account also names its bridge, which outlives a crash of its supervisor for a moment: the next
//! supervisor waits until it has ended, so that two bridges never use the same keys.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::BridgeError;

/// Interval between attempts while waiting.
const POLL: Duration = Duration::from_millis(50);
/// Time for the bridge of a crashed supervisor to end.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// A held lock, until it is dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
    path: PathBuf,
}

impl FileLock {
    /// Takes the exclusive lock of a file; `None` if another process holds it. Creates the file,
    /// but not its folder. Blocks for disk I/O only.
    pub(crate) fn try_exclusive(path: &Path) -> Result<Option<Self>, BridgeError> {
        Self::take(path, File::try_lock)
    }

    /// Takes a shared lock of a file; `None` if another process holds the exclusive lock.
    pub(crate) fn try_shared(path: &Path) -> Result<Option<Self>, BridgeError> {
        Self::take(path, File::try_lock_shared)
    }

    fn take(
        path: &Path,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Option<Self>, BridgeError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(path)
            .map_err(BridgeError::file("open the lock", path))?;
        match lock(&file) {
            Ok(()) => Ok(Some(Self {
                file,
                path: path.to_owned(),
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(BridgeError::file("lock", path)(error)),
        }
    }

    /// Waits for the exclusive lock. `on_wait` is called once if another process holds it.
    pub(crate) async fn exclusive(path: &Path, on_wait: impl Fn()) -> Result<Self, BridgeError> {
        let mut has_waited = false;
        loop {
            if let Some(lock) = Self::try_exclusive(path)? {
                return Ok(lock);
            }
            if !std::mem::replace(&mut has_waited, true) {
                on_wait();
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the process that the previous owner named has ended, for at most five seconds.
    pub(crate) async fn wait_for_predecessor(&mut self) {
        let Some(pid) = self.read_pid() else {
            return;
        };
        let ended = async {
            while process::is_alive(pid) {
                tokio::time::sleep(POLL).await;
            }
        };
        if tokio::time::timeout(PREDECESSOR, ended).await.is_err() {
            // Usually the id belongs to another process by now.
            tracing::warn!(pid, "process of an earlier WhatsApp bridge has not ended");
        }
    }

    /// Names the process that uses what the lock protects.
    pub(crate) fn name_process(&mut self, pid: u32) -> Result<(), BridgeError> {
        let written = (self.file.set_len(0))
            .and_then(|()| self.file.rewind())
            .and_then(|()| writeln!(self.file, "{pid}"));
        written.map_err(BridgeError::file("write", &self.path))
    }

    fn read_pid(&mut self) -> Option<u32> {
        let mut text = String::new();
        self.file.rewind().ok()?;
        (&self.file).take(32).read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Best effort. Closing the file releases the lock, too, but only after a child that is just
        // being started has closed its copy.
        drop(self.file.set_len(0));
        drop(self.file.unlock());
    }
}

#[cfg(unix)]
mod process {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    use nix::unistd::Pid;

    /// `true` if process `pid` is alive.
    pub(super) fn is_alive(pid: u32) -> bool {
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
        pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
    }
}

#[cfg(not(unix))]
mod process {
    /// Always returns `false`: the lock is all that is known here.
    pub(super) fn is_alive(_pid: u32) -> bool {
        false
    }
}
