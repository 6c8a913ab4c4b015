//! The file of lines typed at the prompt, in the format of prompt_toolkit's `FileHistory`.
//!
//! An entry is a blank line, `# <local time>`, and each of its lines after a `+`. The file is
//! shared with the Python program, so it is only appended to; entries of several programs
//! interleave as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Maximum number of entries that are offered again.
const OFFERED: usize = 1000;

/// Number of bytes at the end of the file that are read.
const READ: u64 = 1 << 20;

/// The file of typed lines.
#[derive(Debug)]
pub(in crate::terminal) struct HistoryFile {
    path: PathBuf,
}

impl HistoryFile {
    /// Returns the file at `path`, which need not exist.
    pub(in crate::terminal) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the latest entries, oldest first; none if the file cannot be read.
    pub(in crate::terminal) fn entries(&self) -> Vec<String> {
        let bytes = self.tail().unwrap_or_default();
        let mut entries = parse(&String::from_utf8_lossy(&bytes));
        entries.drain(..entries.len().saturating_sub(OFFERED));
        entries
    }

    fn tail(&self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(READ)))?;
        let mut bytes = Vec::new();
        file.take(READ).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Appends an entry in one write.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(in crate::terminal) fn append(&self, entry: &str) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let now = chrono::Local::now().format("%Y-%m-%d %H:%M:%S%.6f");
        let lines: String = entry.split('\n').map(|line| format!("+{line}\n")).collect();
        open(&self.path)?.write_all(format!("\n# {now}\n{lines}").as_bytes())
    }
}

fn parse(text: &str) -> Vec<String> {
    let mut entries = Vec::new();
    let mut entry: Option<String> = None;
    for line in text.lines() {
        match (line.strip_prefix('+'), &mut entry) {
            (Some(line), Some(entry)) => {
                entry.push('\n');
                entry.push_str(line);
            }
            (Some(line), None) => entry = Some(line.to_owned()),
            (None, _) => entries.extend(entry.take()),
        }
    }
    entries.extend(entry);
    entries
}

/// Opens the file. Only the owner may read what was typed.
fn open(path: &Path) -> io::Result<File> {
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
    fn entries_of_the_python_program_are_read() {
        let file = "\n# 2026-03-16 10:00:00.123456\n+hello\n\n# 2026-03-16 10:01:00.000001\n+two\n+lines\n+\n+你好\n";
        assert_eq!(parse(file), ["hello", "two\nlines\n\n你好"]);
        assert_eq!(parse("junk\n"), Vec::<String>::new());
    }

    #[test]
    fn appended_entries_are_read_back() {
        let home = tempfile::tempdir().unwrap();
        let history = HistoryFile::new(home.path().join("history").join("cli_history"));
        assert_eq!(history.entries(), Vec::<String>::new());
        history.append("one").unwrap();
        history.append("two\nlines\n").unwrap();
        assert_eq!(history.entries(), ["one", "two\nlines\n"]);
        for number in 0..OFFERED {
            history.append(&number.to_string()).unwrap();
        }
        let entries = history.entries();
        assert_eq!(
            (entries.len(), entries.first().map(String::as_str)),
            (OFFERED, Some("0"))
        );
        history.append(&"x".repeat(READ as usize)).unwrap();
        history.append("last").unwrap();
        assert_eq!(history.entries().last().map(String::as_str), Some("last"));
    }
}
