//! The list of installed skills: `.lock.json` in the skills folder of the workspace.
//!
//! It records what a person agreed to, so no tool may write it; the program's path policy enforces
//! that.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, FixedOffset};
use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};
use serde::{Deserialize, Serialize};

use crate::SkillsError;
use crate::load::read_bounded;

/// Name of the file.
const FILE: &str = ".lock.json";

/// Maximum size of the list, in bytes.
const LIMIT: u64 = 1 << 20;

/// An installed skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// Digest of its files when they were agreed to.
    pub digest: String,
    /// Path it was installed from.
    pub source: String,
    /// Time of the installation or of the latest consent.
    pub installed_at: DateTime<FixedOffset>,
    /// `true` if it may be included in every prompt.
    #[serde(default)]
    pub always: bool,
}

/// All installed skills, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockFile {
    #[serde(default)]
    skills: BTreeMap<String, Pin>,
}

impl LockFile {
    /// Returns the path of the list for a skills folder.
    #[must_use]
    pub fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Reads the list of a skills folder; empty if there is none.
    ///
    /// # Errors
    /// Returns [`SkillsError::Io`] if the file cannot be read, [`SkillsError::TooLarge`] if it
    /// exceeds 1 MiB, and [`SkillsError::Lock`] if it cannot be parsed.
    pub fn read(folder: &Path) -> Result<Self, SkillsError> {
        let path = Self::path(folder);
        let bytes = match read_bounded(&path, LIMIT) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(SkillsError::TooLarge(format!("{}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(SkillsError::io("read", &path)(error)),
        };
        // Something empty may stand there while a command runs, so that it cannot write consent.
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(&bytes).map_err(|source| SkillsError::Lock { path, source })
    }

    /// Returns the record of an installed skill.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Pin> {
        self.skills.get(name)
    }

    pub(crate) fn put(&mut self, name: &str, pin: Pin) {
        self.skills.insert(name.to_owned(), pin);
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.skills.remove(name).is_some()
    }

    /// Replaces the list of a skills folder atomically.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), SkillsError> {
        let path = Self::path(folder);
        let written = serde_json::to_vec_pretty(self)
            .map_err(io::Error::from)
            .and_then(|mut bytes| {
                bytes.push(b'\n');
                replace_file(
                    &LocalDisk,
                    &path,
                    &bytes,
                    FileDraft::Random,
                    Durability::Disk,
                )
            });
        written.map_err(SkillsError::io("write", &path))
    }
}
