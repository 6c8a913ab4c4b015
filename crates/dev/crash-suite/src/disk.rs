//! Copies and removes homes.

use std::fs;
use std::io;
use std::path::Path;

/// Copies a folder recursively. Files that disappear meanwhile are skipped.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let copied = match entry.file_type()? {
            kind if kind.is_dir() => copy_folder(&entry.path(), &target),
            kind if kind.is_file() => fs::copy(entry.path(), &target).map(drop),
            _ => Ok(()),
        };
        ignore_missing(copied)?;
    }
    Ok(())
}

/// Copies a file if it exists.
pub(crate) fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    ignore_missing(fs::copy(from, to).map(drop))
}

/// Removes a folder if it exists.
pub(crate) fn remove_folder(folder: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_dir_all(folder))
}

fn ignore_missing(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
