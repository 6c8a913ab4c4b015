//! What a process used, as `meter` writes it and the driver reads it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What one process and everything it waited for used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The exit code; -1 after a signal.
    pub exit_code: i32,
    /// Time on a processor, in the program and in the kernel for it, in microseconds.
    pub cpu_us: u64,
    /// From before it was started until it was gone, in microseconds.
    pub wall_us: u64,
    /// The most memory it held at one time, in KiB.
    pub peak_rss_kib: u64,
    /// Bytes that its reads returned, from files and from sockets.
    pub read_bytes: u64,
}

/// Why a report cannot be read.
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

impl Usage {
    /// Writes a report.
    ///
    /// # Errors
    /// As the system says.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }

    /// Reads a report.
    ///
    /// # Errors
    /// [`ReadUsageError`] when there is none.
    pub fn read(path: &Path) -> Result<Self, ReadUsageError> {
        let failed = |source| ReadUsageError {
            path: path.to_owned(),
            source,
        };
        let bytes = std::fs::read(path).map_err(failed)?;
        serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))
    }
}
