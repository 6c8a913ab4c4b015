//! The log: human or JSON on standard error, and a bounded file for the gateway.
//!
//! Decision: a filter of `RUST_LOG` replaces ours, otherwise our own crates speak and others only warn.
//! The file is written directly, without a thread: a gateway logs little, and what it logged before it
//! died has to be there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// A log file of this size is put aside, and the one put aside before is dropped.
const FILE_LIMIT: u64 = 10 * 1024 * 1024;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What an operator wants to know.
    Usual,
    /// What a developer wants to know.
    Full,
}

fn filter(detail: Detail) -> EnvFilter {
    let ours = match detail {
        Detail::Usual => "warn,nanobot=info",
        Detail::Full => "warn,nanobot=debug",
    };
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(ours))
}

/// Logs to standard error for the rest of the process.
pub(crate) fn to_stderr(detail: Detail) {
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(is_coloured());
    tracing_subscriber::registry().with(layer.with_filter(filter(detail))).init();
}

/// Logs to standard error and to `<directory>/gateway.log` for the rest of the process.
///
/// # Errors
/// When the file cannot be opened; nothing is set up then.
pub(crate) fn of_gateway(directory: &Path, detail: Detail, json: bool) -> io::Result<()> {
    let file = BoundedFile::open(directory.join("gateway.log"), FILE_LIMIT)?;
    let to_file = tracing_subscriber::fmt::layer().with_writer(Mutex::new(file)).with_ansi(false);
    let shown = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let shown = if json { shown.json().boxed() } else { shown.with_ansi(is_coloured()).boxed() };
    tracing_subscriber::registry()
        .with(to_file.with_filter(filter(detail)))
        .with(shown.with_filter(filter(detail)))
        .init();
    Ok(())
}

fn is_coloured() -> bool {
    io::IsTerminal::is_terminal(&io::stderr()) && std::env::var_os("NO_COLOR").is_none()
}

/// A file that is appended to and put aside as `<name>.1` when it is full.
#[derive(Debug)]
struct BoundedFile {
    path: PathBuf,
    file: File,
    size: u64,
    limit: u64,
}

impl BoundedFile {
    fn open(path: PathBuf, limit: u64) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let file = append(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size, limit })
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let mut aside = self.path.clone().into_os_string();
        aside.push(".1");
        fs::rename(&self.path, aside)?;
        self.file = append(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size >= self.limit {
            self.put_aside()?;
        }
        let written = self.file.write(bytes)?;
        self.size = self.size.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Logs are for their owner only.
fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_put_aside_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("logs").join("gateway.log");
        let mut file = BoundedFile::open(path.clone(), 4).unwrap();
        for text in ["one\n", "two\n", "three\n"] {
            file.write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(fs::read_to_string(home.path().join("logs").join("gateway.log.1")).unwrap(), "two\n");
        let mut again = BoundedFile::open(path.clone(), 100).unwrap();
        again.write_all(b"four\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\nfour\n");
    }
}
