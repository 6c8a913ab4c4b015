//! Logs that are appended to and put aside when they are full.
//!
//! Decision: written directly, without a thread: little is logged, and what was logged before a
//! process died has to be there. Several processes of a home may write to one file; each looks
//! before it writes whether the file is still the one of that name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// `logs`: how much of each log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogSettings {
    /// A log of this many bytes is put aside; 0 never does that.
    pub max_bytes: u64,
    /// How many that were put aside are kept of each log: `<name>.1` is the newest.
    pub keep_files: u32,
}

impl Default for LogSettings {
    /// 10 MiB, 3 files.
    fn default() -> Self {
        Self {
            max_bytes: 10 << 20,
            keep_files: 3,
        }
    }
}

/// A file for its owner's eyes only. Opened with the first line, so that a program that logs
/// nothing leaves nothing.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    settings: LogSettings,
    file: Option<File>,
}

impl RotatingFile {
    /// The log of this name. Nothing is opened yet.
    pub fn new(path: impl Into<PathBuf>, settings: LogSettings) -> Self {
        Self {
            path: path.into(),
            settings,
            file: None,
        }
    }

    /// Opens the log, to learn early that it cannot be.
    ///
    /// # Errors
    /// Why not.
    pub fn open(&mut self) -> io::Result<()> {
        self.current().map(|_| ())
    }

    /// Appends a line, its end included, in one write; puts the file aside before if it is full.
    ///
    /// # Errors
    /// Of the disk. The next line is tried anew.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let limit = self.settings.max_bytes;
        let size = self.current()?.metadata()?.len();
        if limit > 0
            && size > 0
            && size.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX)) > limit
        {
            self.put_aside()?;
        }
        self.current()?.write_all(line)
    }

    /// The file of the name, opened again when another process put it aside.
    fn current(&mut self) -> io::Result<&mut File> {
        let kept = match self.file.take() {
            Some(file) if is_at(&file, &self.path) => file,
            _ => open(&self.path)?,
        };
        Ok(self.file.insert(kept))
    }

    fn put_aside(&mut self) -> io::Result<()> {
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

/// Whether the open file is still the one of that name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    identity(open) == identity(named)
}

/// Elsewhere an open file cannot be put aside.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|_| "-".to_owned())
    }

    #[test]
    fn full_files_are_put_aside_and_so_many_of_them_kept() {
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
    fn a_line_is_never_parted_and_a_log_without_a_limit_grows() {
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
    fn two_writers_share_a_file_that_either_puts_aside() {
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
