//! The file tools: `read_file`, `write_file`, `edit_file`, `list_dir`, and on demand `grep`,
//! `find_files` and `apply_patch`.
//!
//! Each asks the [`PathPolicy`](nanobot_guard::PathPolicy) and works on the path that it returns.
//! Text is UTF-8; an error reports the offset of the first invalid byte, and no other encoding is
//! guessed.

mod change;
mod edit;
mod find;
mod grep;
mod list;
mod locate;
mod patch;
mod pdf;
mod picture;
mod read;
mod review;
mod walk;
mod window;
mod write;

use std::{
    io::{self, Read as _},
    sync::Arc,
};

use nanobot_guard::{PathPolicy, ResolvedPath};
use nanobot_tool::ToolContext;

use crate::operation::blocking;

pub(crate) use self::{
    edit::EditFile, find::FindFiles, grep::Grep, list::ListDir, patch::ApplyPatch,
    picture::pixel_size, read::ReadFile, write::WriteFile,
};

/// Maximum size of a file that is edited, in bytes.
const MAX_EDITED: u64 = 16 << 20;

/// Runs blocking file work off the runtime, with the path policy of the call's session.
async fn with_policy<T: Send + 'static>(
    policy: &Arc<PathPolicy>,
    context: &ToolContext,
    work: impl FnOnce(&PathPolicy) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (policy, session) = (Arc::clone(policy), context.session.clone());
    blocking(move || {
        work(
            &policy
                .within(session.as_str())
                .map_err(|denied| denied.to_string())?,
        )
    })
    .await
}

/// Resolves a folder whose files are searched.
fn search_folder(policy: &PathPolicy, path: &str) -> Result<ResolvedPath, String> {
    let folder = policy.read(path).map_err(|denied| denied.to_string())?;
    match folder.path().symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(folder),
        Ok(_) => Err(format!("Not a directory: {path}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("Directory not found: {path}"))
        }
        Err(error) => Err(format!("cannot list {path}: {error}")),
    }
}

/// Reads the whole text of a file, if it is small enough to be edited.
fn whole_text(path: &str, file: &ResolvedPath) -> Result<String, String> {
    let file = file.open().map_err(|error| unreadable(path, &error))?;
    let size = file
        .metadata()
        .map_err(|error| unreadable(path, &error))?
        .len();
    if size > MAX_EDITED {
        return Err(format!(
            "{path} is too large to edit ({size} bytes, at most {MAX_EDITED})"
        ));
    }
    let mut bytes = Vec::new();
    file.take(MAX_EDITED)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    String::from_utf8(bytes)
        .map_err(|error| not_utf8(path, error.utf8_error().valid_up_to() as u64))
}

/// Like [`whole_text`]; `None` if there is no such file.
fn whole_text_or_none(path: &str, file: &ResolvedPath) -> Result<Option<String>, String> {
    match file.open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => whole_text(path, file).map(Some),
    }
}

fn not_utf8(path: &str, offset: u64) -> String {
    format!("{path} is not UTF-8 text (invalid byte at offset {offset})")
}

fn unreadable(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("File not found: {path}"),
        io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => format!("Not a file: {path}"),
        _ => format!("cannot read {path}: {error}"),
    }
}

fn unwritable(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => format!("Not a file: {path}"),
        _ => format!("cannot write {path}: {error}"),
    }
}

/// Counts the matches of `wanted` in `content`, and explains its absence.
pub(crate) fn locate_and_explain(content: &str, wanted: &str) -> (usize, String) {
    (
        locate::matches(content, wanted).len(),
        locate::explain_absence("file", content, wanted),
    )
}
