//! Creates the files of a new workspace.
//!
//! The templates are compiled in, so that the binary is all there is to install. Existing files are
//! never changed; deleted ones are created again at the next start.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::ContextError;

/// Path below the workspace, and content.
const TEMPLATES: [(&str, &str); 7] = [
    (
        "AGENTS.md",
        include_str!("../../../../workspace-template/AGENTS.md"),
    ),
    (
        "SOUL.md",
        include_str!("../../../../workspace-template/SOUL.md"),
    ),
    (
        "USER.md",
        include_str!("../../../../workspace-template/USER.md"),
    ),
    (
        "TOOLS.md",
        include_str!("../../../../workspace-template/TOOLS.md"),
    ),
    (
        "HEARTBEAT.md",
        include_str!("../../../../workspace-template/HEARTBEAT.md"),
    ),
    (
        "memory/MEMORY.md",
        include_str!("../../../../workspace-template/memory/MEMORY.md"),
    ),
    ("memory/HISTORY.md", ""),
];

/// Folders that are created even if they stay empty.
const FOLDERS: [&str; 3] = ["memory", "scripts", "skills"];

/// Creates the missing files and folders of a workspace, and the workspace itself. Returns the
/// paths of new files, in a fixed order. Blocks on disk I/O.
///
/// # Errors
/// Returns [`ContextError::Create`] with the first path that could not be created; earlier ones
/// stay.
pub fn sync_templates(workspace: &Path) -> Result<Vec<PathBuf>, ContextError> {
    for folder in FOLDERS {
        let path = workspace.join(folder);
        std::fs::create_dir_all(&path).map_err(|source| ContextError::Create { path, source })?;
    }
    let mut created = Vec::new();
    for (name, content) in TEMPLATES {
        let path = workspace.join(name);
        match create(&path, content) {
            Ok(true) => created.push(path),
            Ok(false) => {}
            Err(source) => return Err(ContextError::Create { path, source }),
        }
    }
    Ok(created)
}

/// Name of the file about the user.
const PROFILE: &str = "USER.md";

/// `true` if the file about the user is missing or still its template. Blocks on disk I/O.
#[must_use]
pub fn is_profile_open(workspace: &Path) -> bool {
    match std::fs::read_to_string(workspace.join(PROFILE)) {
        Ok(content) => is_untouched(PROFILE, &content),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Writes the user's name and time zone into the file about the user, if that is still its
/// template. Returns `true` if it was written. Blocks on disk I/O.
///
/// # Errors
/// Returns [`ContextError::Create`] if the file cannot be written.
pub fn fill_profile(
    workspace: &Path,
    name: Option<&str>,
    zone: &str,
) -> Result<bool, ContextError> {
    let path = workspace.join(PROFILE);
    let content = std::fs::read_to_string(&path).unwrap_or_default();
    if !is_untouched(PROFILE, &content) {
        return Ok(false);
    }
    let filled: String = content
        .lines()
        .map(|line| match (line, name) {
            ("- Name:", Some(name)) => format!("{line} {name}\n"),
            ("- Time zone:", _) => format!("{line} {zone}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    std::fs::write(&path, filled).map_err(|source| ContextError::Create { path, source })?;
    Ok(true)
}

/// `true` if the content of a file is still that of its template.
pub(crate) fn is_untouched(name: &str, content: &str) -> bool {
    let template = TEMPLATES.iter().find(|(template, _)| *template == name);
    template.is_some_and(|(_, template)| content.lines().eq(template.lines()))
}

/// Creates a file unless the path exists; a dangling symlink counts as existing. Returns `true` if
/// the file was created.
fn create(path: &Path, content: &str) -> io::Result<bool> {
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error),
    };
    if let Err(error) = file
        .write_all(content.as_bytes())
        .and_then(|()| file.sync_all())
    {
        drop(file);
        // Remove the partial file, since an existing template is never completed. The disk is
        // probably full.
        if let Err(error) = std::fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a partially written template");
        }
        return Err(error);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_small() {
        let bytes: usize = TEMPLATES.iter().map(|(_, content)| content.len()).sum();
        assert!(bytes <= 2500, "{bytes} bytes");
    }

    #[test]
    fn untouched_check_ignores_line_ends() {
        let (name, content) = TEMPLATES[2];
        assert!(is_untouched(name, &content.replace('\n', "\r\n")));
        assert!(!is_untouched(name, &format!("{content}- Name: Ada\n")));
        assert!(!is_untouched("IDENTITY.md", ""));
    }
}
