//! Lock that allows one gateway per home.

use std::path::Path;

use crate::{LockHolder, ProcessLock, StateError};

/// File name of the lock in a home.
const FILE: &str = "gateway.lock";

/// Ownership of a home, until it is dropped.
#[derive(Debug)]
pub struct HomeLock(ProcessLock);

impl HomeLock {
    /// Acquires the lock of a home, as [`ProcessLock::acquire`] does. Creates the folder if it is
    /// missing.
    ///
    /// # Errors
    /// Returns the errors of [`ProcessLock::acquire`].
    pub fn acquire(home: &Path) -> Result<Self, StateError> {
        ProcessLock::acquire(home.join(FILE)).map(Self)
    }

    /// Returns the holder of a home's lock; `None` while it is free. Takes a shared lock for an
    /// instant to find that out, and does not change the home.
    ///
    /// # Errors
    /// Returns [`StateError::Io`] if the lock file cannot be opened or locked.
    pub fn holder(home: &Path) -> Result<Option<LockHolder>, StateError> {
        ProcessLock::holder(&home.join(FILE))
    }

    /// Returns the path of the lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
