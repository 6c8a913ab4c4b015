//! Log files that are rotated when they are full.
//!
//! Decision: lines are written directly, without a background thread: little is logged, and what
//! was logged before a process died has to be on disk. Several processes of a home may write to one
//! file. Before each write, each checks that its open file is still the one of that name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `logs`: size and number of the log files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LogSettings {
    /// Size at which a log is rotated, in bytes; 0 disables rotation.
    pub max_bytes: u64,
    /// Number of rotated files that are kept of each log; `<name>.1` is the newest.
    pub keep_files: u32,
}

impl Default for LogSettings {
    /// Returns 10 MiB and 3 files.
    fn default() -> Self {
        Self {
            max_bytes: 10 << 20,
            keep_files: 3,
        }
    }
}

/// A rotating file that only its owner can read. It is created with the first line, so a program
/// that logs nothing leaves no file.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    settings: LogSettings,
    file: Option<File>,
}

impl RotatingFile {
    /// Returns a log of this path. Nothing is opened yet.
    pub fn new(path: impl Into<PathBuf>, settings: LogSettings) -> Self {
        Self {
            path: path.into(),
            settings,
            file: None,
        }
    }

    /// Opens the log, to find out early if it cannot be.
    ///
    /// # Errors
    /// Returns the error of opening the file.
    pub fn open(&mut self) -> io::Result<()> {
        self.current().map(|_| ())
    }

    /// Appends a line, including its newline, in one write. Rotates a full file first.
    ///
    /// # Errors
    /// Returns the error of rotating or writing. The next line is tried again.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let limit = self.settings.max_bytes;
        let size = self.current()?.metadata()?.len();
        if limit > 0
            && size > 0
            && size.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX)) > limit
        {
            self.rotate()?;
        }
        self.current()?.write_all(line)
    }

    /// Appends a line, including its newline, in one write. Does not rotate.
    pub(super) fn append_here(&mut self, line: &[u8]) -> io::Result<()> {
        self.current()?.write_all(line)
    }

    /// Returns the open file; opens it again if another process rotated it.
    fn current(&mut self) -> io::Result<&mut File> {
        let current = match self.file.take() {
            Some(file) if is_same_file(&file, &self.path) => file,
            _ => open(&self.path)?,
        };
        Ok(self.file.insert(current))
    }

    /// Moves the file to `<name>.1`, the older ones to the next numbers, and drops the oldest.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let name = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        let keep = self.settings.keep_files;
        if keep == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..keep).rev() {
            match fs::rename(name(number), name(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, name(1))
    }
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            options.open(path)
        }
        outcome => outcome,
    }
}

/// `true` if the open file is still the one of that name.
#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    identity(open) == identity(named)
}

/// On other systems an open file cannot be renamed.
#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|_| "-".to_owned())
    }

    #[test]
    fn full_files_are_rotated_up_to_the_limit() {
        for (keep_files, expected) in [
            (0, ["4\n", "-", "-", "-"]),
            (1, ["4\n", "3\n", "-", "-"]),
            (2, ["4\n", "3\n", "2\n", "-"]),
        ] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("logs").join("a.log");
            let mut log = RotatingFile::new(
                &path,
                LogSettings {
                    max_bytes: 3,
                    keep_files,
                },
            );
            for number in 1..=4 {
                log.append(format!("{number}\n").as_bytes()).unwrap();
            }
            let names = ["a.log", "a.log.1", "a.log.2", "a.log.3"];
            assert_eq!(
                names.map(|name| read(&path.with_file_name(name))),
                expected,
                "{keep_files}"
            );
        }
    }

    #[test]
    fn lines_are_not_split_and_zero_limit_disables_rotation() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.log");
        let mut log = RotatingFile::new(
            &path,
            LogSettings {
                max_bytes: 3,
                keep_files: 1,
            },
        );
        log.append(b"longer than the limit\n").unwrap();
        log.append(b"b\n").unwrap();
        assert_eq!(
            [read(&path), read(&path.with_file_name("a.log.1"))],
            ["b\n", "longer than the limit\n"]
        );
        let mut endless = RotatingFile::new(
            home.path().join("b.log"),
            LogSettings {
                max_bytes: 0,
                keep_files: 1,
            },
        );
        endless.append(b"one\n").unwrap();
        endless.append(b"two\n").unwrap();
        assert_eq!(read(&home.path().join("b.log")), "one\ntwo\n");
    }

    #[cfg(unix)]
    #[test]
    fn two_writers_share_a_rotated_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.log");
        let settings = LogSettings {
            max_bytes: 5,
            keep_files: 1,
        };
        let [mut one, mut other] = [
            RotatingFile::new(&path, settings),
            RotatingFile::new(&path, settings),
        ];
        one.append(b"1\n").unwrap();
        other.append(b"2\n").unwrap();
        one.append(b"3\n").unwrap();
        other.append(b"4\n").unwrap();
        assert_eq!(
            [read(&path), read(&path.with_file_name("a.log.1"))],
            ["3\n4\n", "1\n2\n"]
        );
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
