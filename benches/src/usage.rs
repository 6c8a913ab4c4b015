//! Resource usage of a process, as `meter` writes it and the driver reads it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Resource usage of one process and of all children it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Exit code; -1 after a signal.
    pub exit_code: i32,
    /// CPU time in user and kernel mode, in microseconds.
    pub cpu_us: u64,
    /// Wall-clock time from before the start until after the exit, in microseconds.
    pub wall_us: u64,
    /// Peak memory use, in KiB.
    pub peak_rss_kib: u64,
    /// Bytes returned by reads from files and sockets.
    pub read_bytes: u64,
}

/// Error of reading a report.
#[derive(Debug)]
pub struct ReadUsageError {
    path: PathBuf,
    source: std::io::Error,
}

impl std::fmt::Display for ReadUsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "meter left no report in {}", self.path.display())
    }
}

impl std::error::Error for ReadUsageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl ProcessUsage {
    /// Writes a report.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }

    /// Reads a report.
    ///
    /// # Errors
    /// Returns [`ReadUsageError`] if the report is missing or invalid.
    pub fn read(path: &Path) -> Result<Self, ReadUsageError> {
        let failed = |source| ReadUsageError {
            path: path.to_owned(),
            source,
        };
        let bytes = std::fs::read(path).map_err(failed)?;
        serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))
    }
}
