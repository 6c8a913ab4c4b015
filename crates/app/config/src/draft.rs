//! Edits the file without losing anything in it.
//!
//! A draft is the file's own content. Everything that is not edited is written back in its order
//! and, for unknown keys and all values, in its spelling; known keys become camelCase. The write is
//! atomic and durable (temporary file, sync, rename, sync of the directory), leaves the file
//! readable by its owner only, and is preceded by a backup copy in the same folder. There is no
//! lock: if the file has been changed by another program, it is left alone and the conflict is
//! reported.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime, Utc};
use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};
use serde_json::Value;

use crate::ConfigError;
use crate::document::{Node, TextPosition};
use crate::key::KeyPath;
use crate::schema::KeyShape;

/// The content of a configuration file, being edited.
pub struct ConfigDraft {
    file: PathBuf,
    original: Option<Vec<u8>>,
    pub(crate) root: Node,
    shape: KeyShape,
}

/// Result of a save.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedConfig {
    /// The file already had this content, byte for byte; nothing was written.
    Unchanged,
    /// The file was written.
    Written {
        /// The backup of the old file, if there was one.
        backup: Option<PathBuf>,
    },
}

/// Format of the time in the name of a backup.
const STAMP: &str = "%Y%m%dT%H%M%SZ";

const NEW: TextPosition = TextPosition { line: 0, column: 0 };

impl ConfigDraft {
    pub(crate) fn new(
        file: PathBuf,
        original: Option<Vec<u8>>,
        root: Node,
        shape: KeyShape,
    ) -> Self {
        Self {
            file,
            original,
            root,
            shape,
        }
    }

    /// Sets a key, in place if it exists. The key may be in any spelling.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadKey`] if `key` is not a valid key, or if one of its parents is not
    /// an object.
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), ConfigError> {
        let path = self.path(key)?;
        self.set_at(&path, value)
    }

    pub(crate) fn set_at(&mut self, path: &KeyPath, value: &Value) -> Result<(), ConfigError> {
        if self.root.put(path.parts(), NEW, Node::from_value(value)) {
            return Ok(());
        }
        let reason = "something above it is not an object";
        Err(ConfigError::BadKey {
            key: path.to_string(),
            reason,
        })
    }

    /// Adds the keys that are missing, at any depth. Existing keys are kept, blank or not.
    ///
    /// # Errors
    /// Returns the errors of [`ConfigDraft::set`].
    pub fn fill(&mut self, key: &str, value: &Value) -> Result<(), ConfigError> {
        let path = self.path(key)?;
        self.fill_at(&path, value)
    }

    fn fill_at(&mut self, path: &KeyPath, value: &Value) -> Result<(), ConfigError> {
        match (self.root.at(path.parts()), value) {
            (Some(Node::Object(_)), Value::Object(map)) => map
                .iter()
                .try_for_each(|(name, value)| self.fill_at(&path.child(name), value)),
            (Some(_), _) => Ok(()),
            (None, _) => self.set_at(path, value),
        }
    }

    /// Removes a key; returns `false` if it is not in the file.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadKey`] if `key` is not a valid key.
    pub fn remove(&mut self, key: &str) -> Result<bool, ConfigError> {
        let path = self.path(key)?;
        Ok(self.root.take(path.parts()).is_some())
    }

    pub(crate) fn remove_at(&mut self, path: &KeyPath) {
        self.root.take(path.parts());
    }

    /// Returns the text that a save writes, secrets included.
    #[must_use]
    pub fn text(&self) -> String {
        self.root.render()
    }

    /// Writes the file, after copying the old one to `<name>.bak-<time>` in the same folder. A link
    /// is followed, so that its target is replaced.
    ///
    /// # Errors
    /// Returns [`ConfigError::ChangedOnDisk`] if the file is no longer what was read, and
    /// [`ConfigError::Read`] or [`ConfigError::Write`] if the system fails. The old file is intact
    /// in every case.
    pub fn save(&self, now: DateTime<Utc>) -> Result<SavedConfig, ConfigError> {
        let file = fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        if crate::file::read(&file)? != self.original {
            return Err(ConfigError::ChangedOnDisk { path: file });
        }
        let text = self.text();
        if self.original.as_deref() == Some(text.as_bytes()) {
            return Ok(SavedConfig::Unchanged);
        }
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ConfigError::Write { path, source }
        };
        let directory = file.parent().unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let backup = back_up(&file, self.original.as_deref(), now)?;
        replace_file(
            &LocalDisk,
            &file,
            text.as_bytes(),
            FileDraft::Random,
            Durability::Disk,
        )
        .map_err(failed(&file))?;
        Ok(SavedConfig::Written { backup })
    }

    fn path(&self, key: &str) -> Result<KeyPath, ConfigError> {
        Ok(self.shape.canonical(&KeyPath::parse(key)?))
    }
}

impl std::fmt::Debug for ConfigDraft {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Draft")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Copies the old content of a file to a backup in the same folder, unless the newest backup has
/// that content already. Returns the backup, or `None` if there was no file.
pub(crate) fn back_up(
    file: &Path,
    content: Option<&[u8]>,
    now: DateTime<Utc>,
) -> Result<Option<PathBuf>, ConfigError> {
    let Some(bytes) = content else {
        return Ok(None);
    };
    if let Some(newest) = newest_backup(file)
        && fs::read(&newest).is_ok_and(|copy| copy == bytes)
    {
        return Ok(Some(newest));
    }
    let copied = write_backup(file, bytes, now);
    copied.map(Some).map_err(|source| ConfigError::Write {
        path: file.to_path_buf(),
        source,
    })
}

/// Returns the newest backup of a file, by the time and the number in its name.
fn newest_backup(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_string_lossy();
    let prefix = format!("{name}.bak-");
    let age = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let suffix = name.strip_prefix(&prefix)?;
        let (stamp, number) = suffix.split_once('-').unwrap_or((suffix, "1"));
        NaiveDateTime::parse_from_str(stamp, STAMP).ok()?;
        Some((stamp.to_owned(), number.parse::<u32>().ok()?))
    };
    let entries = fs::read_dir(file.parent()?).ok()?;
    let files = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files
        .filter_map(|entry| Some((age(&entry.path())?, entry.path())))
        .max()
        .map(|(_, path)| path)
}

/// Writes the old content under an unused name. It is durable when this returns; after an error,
/// there is no file.
fn write_backup(file: &Path, bytes: &[u8], now: DateTime<Utc>) -> io::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let stamp = now.format(STAMP);
    let mut attempt: u32 = 1;
    loop {
        let suffix = if attempt == 1 {
            String::new()
        } else {
            format!("-{attempt}")
        };
        let backup = file.with_file_name(format!("{name}.bak-{stamp}{suffix}"));
        match private_file().write(true).create_new(true).open(&backup) {
            Ok(mut copy) => {
                let written = copy.write_all(bytes).and_then(|()| copy.sync_all());
                if written.is_err() {
                    // The first error is the one to report.
                    drop(fs::remove_file(&backup));
                }
                return written.map(|()| backup);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {
                attempt = attempt.saturating_add(1);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(unix)]
fn private_file() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(not(unix))]
fn private_file() -> OpenOptions {
    OpenOptions::new()
}
