//! One gateway per home.
//!
//! Decision: the operating system's lock on a file is what counts; the process id inside is for
//! people. A crash releases the lock, so a file that was left behind means nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::StateError;
use crate::database::private;

/// The lock's name in a home.
const FILE: &str = "gateway.lock";

/// Ownership of a home, until it is dropped.
#[derive(Debug)]
pub struct HomeLock {
    file: File,
    path: PathBuf,
}

impl HomeLock {
    /// Takes the home, or says at once who has it. Makes the folder when it is missing.
    ///
    /// # Errors
    /// [`StateError::Owned`] with the owner's process id where it can be read (not on Windows,
    /// where a locked file cannot), [`StateError::Io`].
    pub fn acquire(home: &Path) -> Result<Self, StateError> {
        let path = home.join(FILE);
        let fault = |action| {
            let path = path.clone();
            move |source: io::Error| StateError::Io { action, path, source }
        };
        private::create_folder(home).map_err(fault("make the folder of"))?;
        let mut file = private::options(OpenOptions::new().read(true).write(true).create(true))
            .open(&path)
            .map_err(fault("open the lock"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = read_pid(&mut file);
                return Err(StateError::Owned { path, pid });
            }
            Err(TryLockError::Error(source)) => return Err(fault("lock")(source)),
        }
        write_pid(&mut file).map_err(fault("write the process id into"))?;
        Ok(Self { file, path })
    }

    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // Best effort: closing the file is what releases the lock.
        drop(self.file.set_len(0));
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    file.sync_data()
}
