//! Versions of the files of one folder: the content after each change, and its reason.
//!
//! Decision: a version is one numbered file in `.versions`. Its first line holds the metadata, in a
//! Markdown comment; the complete content follows, byte by byte. The file is written atomically and
//! durably, and there is no separate log that could disagree with it. A version is recorded before
//! the change is made, so a change that cannot be recorded is not made. As versions are as long as
//! the files, their total number and size are limited.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use chrono::Local;
use nanobot_disk::{
    Access, Disk, DiskFile, Durability, FileDraft, NewFolders, copy, read_to_end,
    replace_file_with, write_all,
};

use crate::file::{self, FileText};
use crate::scope::VERSIONS_FOLDER;
use crate::{MemoryError, Reason, Version};

const HEAD_OPEN: &str = "<!-- nanobot ";
const HEAD_CLOSE: &str = " -->";
/// Maximum length of the first line, in bytes.
const HEAD_LIMIT: u64 = 16 * 1024;
/// Maximum total size of the versions of a folder, in bytes.
const SPACE: u64 = 64 * 1024 * 1024;

/// Content of a file after a change.
pub(crate) enum VersionContent<'a> {
    Bytes(&'a [u8]),
    /// The current content of the file, of which this part was read.
    Current(&'a FileText),
    Removed,
}

/// The versions of the files in a folder.
pub(crate) struct Versions<'a> {
    disk: &'a dyn Disk,
    /// The folder of the files.
    files: &'a Path,
    keep: u32,
}

impl<'a> Versions<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, files: &'a Path, keep: u32) -> Self {
        Self {
            disk,
            files,
            keep: keep.max(1),
        }
    }

    /// Waits for exclusive write access to this folder, across processes. Creates the folder if
    /// needed.
    pub(crate) fn lock(&self, folders: &NewFolders) -> Result<Box<dyn DiskFile>, MemoryError> {
        let folder = self.folder();
        folders
            .ensure(self.disk, &folder)
            .map_err(file::failed("create", &folder))?;
        let path = folder.join(".lock");
        let locked = self
            .disk
            .open(&path, Access::Append)
            .and_then(|file| file.lock().map(|()| file));
        locked.map_err(file::failed("lock", &path))
    }

    /// Returns all versions, the newest first. A version that cannot be read is left out and
    /// logged.
    pub(crate) fn all(&self) -> Result<Vec<Version>, MemoryError> {
        let mut all: Vec<Version> = self
            .numbers()?
            .into_iter()
            .filter_map(|number| self.head(number))
            .collect();
        all.sort_unstable_by_key(|version| std::cmp::Reverse(version.number));
        Ok(all)
    }

    /// Returns the content of a version.
    pub(crate) fn bytes(&self, version: &Version) -> Result<Vec<u8>, MemoryError> {
        let path = self.path(version.number);
        let read = || {
            let file = self.disk.open(&path, Access::Read)?;
            let beginning = read_to_end(&*file, 0, HEAD_LIMIT)?;
            let head = beginning
                .iter()
                .position(|byte| *byte == b'\n')
                .ok_or(io::ErrorKind::InvalidData)?;
            read_to_end(&*file, head as u64 + 1, version.bytes)
        };
        read().map_err(file::failed("read", &path))
    }

    /// Returns the version with this number.
    pub(crate) fn find(&self, number: u64) -> Result<Version, MemoryError> {
        let found = self
            .numbers()?
            .contains(&number)
            .then(|| self.head(number))
            .flatten();
        found.ok_or(MemoryError::NoVersion { number })
    }

    /// Records a change of a file as a new version.
    pub(crate) fn commit(
        &self,
        name: &str,
        content: &VersionContent<'_>,
        reason: &Reason,
    ) -> Result<Version, MemoryError> {
        let all = self.all()?;
        // Do not reuse the numbers of versions that cannot be read.
        let last = self.numbers()?.into_iter().max().unwrap_or(0);
        let (bytes, digest) = match content {
            VersionContent::Bytes(bytes) => (
                bytes.len() as u64,
                file::fingerprint(bytes, bytes.len() as u64),
            ),
            VersionContent::Current(text) => (text.length, text.fingerprint),
            VersionContent::Removed => (0, 0),
        };
        let version = Version {
            number: last + 1,
            at: Local::now().fixed_offset(),
            file: name.to_owned(),
            reason: reason.clone(),
            bytes,
            digest: format!("{digest:016x}"),
            before: all
                .iter()
                .find(|version| version.file == name)
                .map(|version| version.number),
            removed: matches!(content, VersionContent::Removed),
        };
        let path = self.path(version.number);
        let written = self.write(&path, &version, content);
        written.map_err(file::failed("write", &path))?;
        self.prune(&version, &all);
        Ok(version)
    }

    fn write(
        &self,
        path: &Path,
        version: &Version,
        content: &VersionContent<'_>,
    ) -> io::Result<()> {
        let head = format!(
            "{HEAD_OPEN}{}{HEAD_CLOSE}\n",
            serde_json::to_string(version)?
        );
        let current = self.files.join(&version.file);
        let draft = FileDraft::Like(path);
        replace_file_with(self.disk, path, draft, Durability::Disk, |file| {
            write_all(file, head.as_bytes())?;
            match content {
                VersionContent::Bytes(bytes) => write_all(file, bytes),
                VersionContent::Current(_) => {
                    copy(&*self.disk.open(&current, Access::Read)?, 0, file)
                }
                VersionContent::Removed => Ok(()),
            }
        })
    }

    /// Removes a version whose change was not made.
    pub(crate) fn remove(&self, version: &Version) {
        let path = self.path(version.number);
        if let Err(error) = self.disk.remove(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove the version of a change that was not made");
        }
    }

    /// Records a new version of a file if its content differs from its newest version.
    pub(crate) fn record_change(
        &self,
        name: &str,
        reason: &Reason,
    ) -> Result<Option<Version>, MemoryError> {
        let current = file::read(self.disk, &self.files.join(name))?;
        if self.is_known(name, current.as_ref())? {
            return Ok(None);
        }
        let content = current
            .as_ref()
            .map_or(VersionContent::Removed, VersionContent::Current);
        self.commit(name, &content, reason).map(Some)
    }

    /// `true` if the newest version of a file matches its current content.
    pub(crate) fn is_known(
        &self,
        name: &str,
        current: Option<&FileText>,
    ) -> Result<bool, MemoryError> {
        let mut numbers = self.numbers()?;
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let newest = numbers
            .into_iter()
            .filter_map(|number| self.head(number))
            .find(|version| version.file == name);
        Ok(match (current, newest) {
            (None, newest) => newest.is_none_or(|version| version.removed),
            (Some(text), None) => text.length == 0,
            (Some(text), Some(version)) => {
                !version.removed
                    && version.bytes == text.length
                    && version.digest == format!("{:016x}", text.fingerprint)
            }
        })
    }

    /// Removes versions beyond the limits of number and size, but never the newest version of a
    /// file.
    fn prune(&self, newest: &Version, older: &[Version]) {
        let mut files = HashSet::new();
        let mut space: u64 = 0;
        for (index, version) in std::iter::once(newest).chain(older).enumerate() {
            space = space.saturating_add(version.bytes);
            let is_newest = files.insert(version.file.as_str());
            let keep = usize::try_from(self.keep).unwrap_or(usize::MAX);
            if is_newest || (index < keep && space <= SPACE) {
                continue;
            }
            let path = self.path(version.number);
            if let Err(error) = self.disk.remove(&path) {
                tracing::warn!(path = %path.display(), %error, "an old version of memory cannot be removed");
            }
        }
    }

    fn head(&self, number: u64) -> Option<Version> {
        let path = self.path(number);
        let read = || -> io::Result<Version> {
            let beginning = read_to_end(&*self.disk.open(&path, Access::Read)?, 0, HEAD_LIMIT)?;
            let line = beginning
                .split(|byte| *byte == b'\n')
                .next()
                .unwrap_or_default();
            let json = line
                .strip_prefix(HEAD_OPEN.as_bytes())
                .and_then(|line| line.strip_suffix(HEAD_CLOSE.as_bytes()));
            Ok(serde_json::from_slice(json.unwrap_or_default())?)
        };
        let version = read().map_err(|error| {
            tracing::warn!(path = %path.display(), %error, "a version of memory cannot be read");
        });
        version.ok().map(|version| Version { number, ..version })
    }

    fn numbers(&self) -> Result<Vec<u64>, MemoryError> {
        let folder = self.folder();
        let files = match self.disk.list(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.map_err(file::failed("list", &folder))?,
        };
        let number_of = |file: &PathBuf| {
            let number = file
                .file_name()?
                .to_str()?
                .strip_suffix(".md")?
                .parse()
                .ok()?;
            (*file == self.path(number)).then_some(number)
        };
        Ok(files.iter().filter_map(number_of).collect())
    }

    fn folder(&self) -> PathBuf {
        self.files.join(VERSIONS_FOLDER)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder().join(format!("{number:06}.md"))
    }
}
