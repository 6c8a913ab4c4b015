//! Reads a `.skill` file: a zip archive of a skill's folder, or of that folder's contents.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::SkillsError;
use crate::directory::{self, Oversized};
use crate::load::SKILL_FILE;
use crate::package::{FILE_LIMIT, LEFT_OUT, Package, TOTAL_LIMIT, check_path, too_large};

/// Maximum size of an archive, in bytes. Its content may not be larger than [`TOTAL_LIMIT`], and
/// zip adds little overhead.
const ARCHIVE_LIMIT: u64 = TOTAL_LIMIT + (2 << 20);

/// Maximum number of entries.
const ENTRIES: usize = 2000;

/// Reads a whole archive into memory, without extracting anything to disk.
pub(crate) fn read(path: &Path) -> Result<Package, SkillsError> {
    let source = path.canonicalize().map_err(SkillsError::io("read", path))?;
    let file = File::open(&source).map_err(SkillsError::io("read", path))?;
    read_from(source, file)
}

/// Reads the archive `file`, which was opened from `source`.
pub(crate) fn read_from(
    source: PathBuf,
    mut file: impl Read + Seek,
) -> Result<Package, SkillsError> {
    let failed = |error: ZipError| SkillsError::Archive {
        path: source.clone(),
        source: error,
    };
    let size = file
        .seek(SeekFrom::End(0))
        .map_err(|error| failed(ZipError::Io(error)))?;
    if size > ARCHIVE_LIMIT {
        return Err(SkillsError::TooLarge(format!(
            "an archive of more than {} MB",
            ARCHIVE_LIMIT >> 20
        )));
    }
    match directory::oversized(&mut file).map_err(|error| failed(ZipError::Io(error)))? {
        Some(Oversized::Entries) => {
            return Err(SkillsError::TooLarge(format!(
                "more than {ENTRIES} entries"
            )));
        }
        Some(Oversized::Names) => {
            return Err(SkillsError::TooLarge(
                "a directory of more than 4 MB".to_owned(),
            ));
        }
        None => {}
    }
    let mut archive = ZipArchive::new(file).map_err(failed)?;
    if archive.len() > ENTRIES {
        return Err(SkillsError::TooLarge(format!(
            "more than {ENTRIES} entries"
        )));
    }
    let stem = source
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut files = Vec::new();
    let mut total = 0;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(failed)?;
        let name = entry.name().map_err(failed)?.into_owned();
        if entry.is_dir() {
            check_path(name.trim_end_matches('/'))?;
            continue;
        }
        check_path(&name)?;
        if name.split('/').any(|part| LEFT_OUT.contains(&part)) {
            continue;
        }
        if entry.is_symlink() {
            return Err(SkillsError::Unsafe {
                entry: name,
                why: "it is a link or not a regular file",
            });
        }
        let executable = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        let mut bytes = Vec::new();
        // Bound the actual bytes: the sizes that the archive declares are not trusted.
        let read = entry.take(FILE_LIMIT + 1).read_to_end(&mut bytes);
        read.map_err(|error| failed(ZipError::Io(error)))?;
        if bytes.len() as u64 > FILE_LIMIT {
            return Err(too_large(&name));
        }
        total += bytes.len() as u64;
        if total > TOTAL_LIMIT {
            return Err(SkillsError::TooLarge(format!(
                "more than {} MB",
                TOTAL_LIMIT >> 20
            )));
        }
        files.push((name, bytes, executable));
    }
    package(source, stem, files)
}

/// Builds a package from an archive's files. A single folder that holds them all gives its name and
/// is stripped from the paths; otherwise the archive's file name is used.
fn package(
    source: PathBuf,
    stem: String,
    files: Vec<(String, Vec<u8>, bool)>,
) -> Result<Package, SkillsError> {
    let folder = files
        .iter()
        .find_map(|(name, ..)| name.strip_suffix(SKILL_FILE)?.strip_suffix('/'));
    let is_flat = files.iter().any(|(name, ..)| name == SKILL_FILE);
    let folder = folder
        .filter(|folder| !is_flat && !folder.contains('/'))
        .map(str::to_owned);
    let mut package = Package::new(source, folder.clone().unwrap_or(stem));
    for (name, bytes, executable) in files {
        let inner = match &folder {
            None => name,
            Some(folder) => {
                let inner = name
                    .strip_prefix(folder.as_str())
                    .and_then(|rest| rest.strip_prefix('/'));
                let why = "it is outside the skill's folder";
                inner
                    .map(str::to_owned)
                    .ok_or(SkillsError::Unsafe { entry: name, why })?
            }
        };
        package.add(inner, bytes, executable)?;
    }
    Ok(package)
}
