//! A skill with all its files in memory, bounded in size.
//!
//! Decision: the bytes that a person is shown, the bytes that are hashed and the bytes that are
//! written are the same, so a package is read completely, once. Links, paths that lead outside, and
//! names that differ only in case are refused here, for folders and archives alike.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::SkillsError;
use crate::header::{Header, SkillDocument};
use crate::load::{SKILL_FILE, read_bounded};

/// Maximum size of one file, in bytes.
pub(crate) const FILE_LIMIT: u64 = 5 << 20;

/// Maximum size of a skill, in bytes.
pub(crate) const TOTAL_LIMIT: u64 = 20 << 20;

/// Maximum number of files.
const FILES: usize = 500;

/// Maximum length of a path inside a skill, in bytes.
const PATH_LIMIT: usize = 200;

/// Maximum number of components in a path.
const DEPTH: usize = 8;

/// Files and folders that are skipped when a skill is imported: leftovers of other programs.
pub(crate) const LEFT_OUT: [&str; 4] = [".git", ".DS_Store", "__pycache__", "__MACOSX"];

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedFile {
    pub(crate) bytes: Vec<u8>,
    /// `true` if the file is executable, on systems with such a bit.
    pub(crate) executable: bool,
}

/// A skill's files and the name of its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// Path it was read from.
    source: PathBuf,
    /// Name of the folder it came in.
    folder: String,
    files: BTreeMap<String, PackedFile>,
    bytes: u64,
    /// Paths in lower case, to detect two that would collide on a case-insensitive file system.
    folded: BTreeSet<String>,
}

impl Package {
    /// Reads every file of a folder, skipping nothing.
    pub(crate) fn read_folder(folder: &Path) -> Result<Self, SkillsError> {
        Self::read(folder, &[])
    }

    /// Reads the files of a folder, without those of these names.
    pub(crate) fn read(folder: &Path, left_out: &[&str]) -> Result<Self, SkillsError> {
        let real = folder
            .canonicalize()
            .map_err(SkillsError::io("read", folder))?;
        let name = real
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut package = Self::new(real, name);
        let mut pending = vec![(package.source.clone(), String::new())];
        while let Some((directory, prefix)) = pending.pop() {
            let failed = |error| SkillsError::io("read", &directory)(error);
            for entry in std::fs::read_dir(&directory).map_err(failed)? {
                let entry = entry.map_err(SkillsError::io("read", &directory))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if left_out.contains(&name.as_str()) {
                    continue;
                }
                let inner = format!("{prefix}{name}");
                let kind = entry
                    .file_type()
                    .map_err(SkillsError::io("read", &entry.path()))?;
                if kind.is_dir() {
                    check_path(&inner)?;
                    pending.push((entry.path(), format!("{inner}/")));
                } else if kind.is_file() {
                    let file = entry.path();
                    let bytes =
                        read_bounded(&file, FILE_LIMIT).map_err(SkillsError::io("read", &file))?;
                    let bytes = bytes.ok_or_else(|| too_large(&inner))?;
                    package.add(inner, bytes, is_executable(&file))?;
                } else {
                    return Err(SkillsError::Unsafe {
                        entry: inner,
                        why: "it is a link or not a regular file",
                    });
                }
            }
        }
        Ok(package)
    }

    pub(crate) fn new(source: PathBuf, folder: String) -> Self {
        Self {
            source,
            folder,
            ..Self::default()
        }
    }

    /// Adds a file. `path` is relative, with `/` between its components.
    pub(crate) fn add(
        &mut self,
        path: String,
        bytes: Vec<u8>,
        executable: bool,
    ) -> Result<(), SkillsError> {
        check_path(&path)?;
        if !self.folded.insert(path.to_lowercase()) {
            return Err(SkillsError::Unsafe {
                entry: path,
                why: "another file has that name, ignoring case",
            });
        }
        self.bytes += bytes.len() as u64;
        if self.bytes > TOTAL_LIMIT || self.files.len() >= FILES {
            return Err(SkillsError::TooLarge(format!(
                "more than {TOTAL_LIMIT} bytes or {FILES} files"
            )));
        }
        self.files.insert(path, PackedFile { bytes, executable });
        Ok(())
    }

    /// Returns the path it was read from.
    #[must_use]
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// Returns the name of the folder it came in.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// Returns the name in its header, else the name of its folder.
    #[must_use]
    pub fn name(&self) -> String {
        match self.document().header {
            Header::Read(fields) => fields.text("name"),
            _ => None,
        }
        .unwrap_or_else(|| self.folder.clone())
    }

    /// Returns its files by path.
    pub(crate) fn files(&self) -> &BTreeMap<String, PackedFile> {
        &self.files
    }

    /// Returns its total size, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Parses its SKILL.md.
    pub(crate) fn document(&self) -> SkillDocument {
        let text = self
            .files
            .get(SKILL_FILE)
            .map(|file| String::from_utf8_lossy(&file.bytes))
            .unwrap_or_default();
        SkillDocument::parse(text.trim_start_matches('\u{feff}'))
    }

    /// Returns the SHA-256 of all paths and contents, as `sha256:` and hexadecimal digits. It does
    /// not cover the executable bit, which not every system has.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (path, file) in &self.files {
            for piece in [path.as_bytes(), &file.bytes] {
                hash.update((piece.len() as u64).to_le_bytes());
                hash.update(piece);
            }
        }
        format!("sha256:{:x}", hash.finalize())
    }
}

/// Returns the error for a file that is too large.
pub(crate) fn too_large(path: &str) -> SkillsError {
    SkillsError::TooLarge(format!("`{path}` has more than {FILE_LIMIT} bytes"))
}

/// Checks that a path stays inside a skill and is portable: relative, without `..`, and made of
/// characters that every system allows.
pub(crate) fn check_path(path: &str) -> Result<(), SkillsError> {
    let refused = |why| {
        Err(SkillsError::Unsafe {
            entry: path.to_owned(),
            why,
        })
    };
    if path.len() > PATH_LIMIT || path.split('/').count() > DEPTH {
        return refused("its path is too long");
    }
    if path.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        return refused("its path leads out of the skill");
    }
    if path
        .chars()
        .any(|character| character.is_control() || "\\:*?\"<>|".contains(character))
    {
        return refused("its path has characters that are not allowed on every system");
    }
    Ok(())
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_paths_out_of_the_package() {
        for path in [
            "SKILL.md",
            "scripts/run.py",
            "a/b/c/d/e/f/g/h",
            "references/天气.md",
        ] {
            check_path(path).unwrap();
        }
        for path in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a//b",
            "./a",
            "a\\..\\b",
            "C:x",
            "a\nb",
            "a/b/c/d/e/f/g/h/i",
        ] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        assert!(check_path(&"x".repeat(201)).is_err());
    }

    #[test]
    fn digest_separates_names_and_contents() {
        let package = |files: &[(&str, &str)]| {
            let mut package = Package::default();
            for (path, text) in files {
                package
                    .add((*path).to_owned(), text.as_bytes().to_vec(), false)
                    .unwrap();
            }
            package.digest()
        };
        let all = [
            package(&[]),
            package(&[("a", "bc")]),
            package(&[("ab", "c")]),
            package(&[("a", "b"), ("c", "")]),
            package(&[("a", ""), ("b", "c")]),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(
            package(&[("b", "2"), ("a", "1")]),
            package(&[("a", "1"), ("b", "2")])
        );
    }

    #[test]
    fn rejects_names_that_differ_only_in_case() {
        let mut package = Package::default();
        package
            .add("README.md".to_owned(), Vec::new(), false)
            .unwrap();
        assert!(
            package
                .add("readme.md".to_owned(), Vec::new(), false)
                .is_err()
        );
    }
}
