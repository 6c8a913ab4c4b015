//! Errors of checking, installing and removing skills.

use std::io;
use std::path::{Path, PathBuf};

use nanobot_skill::SkillOrigin;

/// Error of an operation on a skill. Nothing has changed, except that [`SkillsError::Io`] can come
/// after the files of a skill were replaced or partly removed.
#[derive(Debug, thiserror::Error)]
pub enum SkillsError {
    /// A file or folder could not be accessed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// Operation, as a verb.
        action: &'static str,
        /// Path it was tried on.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The path holds no skill.
    #[error("{} is neither a folder with a SKILL.md nor a .skill file", path.display())]
    NotASkill {
        /// The path.
        path: PathBuf,
    },
    /// A file is not a readable archive.
    #[error("cannot read {} as a .skill archive", path.display())]
    Archive {
        /// Path of the file.
        path: PathBuf,
        /// The underlying error.
        source: zip::result::ZipError,
    },
    /// A file in the skill could escape its folder, or conflicts with another one.
    #[error("`{entry}` is refused: {why}")]
    Unsafe {
        /// Path inside the skill.
        entry: String,
        /// Reason for the refusal.
        why: &'static str,
    },
    /// The skill exceeds a size limit.
    #[error("it is too large: {0}")]
    TooLarge(String),
    /// The skill has errors that prevent installing it.
    #[error("`{name}` cannot be installed: {}", problems.join("; "))]
    Invalid {
        /// Name of the skill.
        name: String,
        /// Problems to fix.
        problems: Vec<String>,
    },
    /// The workspace has a skill of that name that was not installed, or that has changed since.
    #[error(
        "the workspace already has a skill `{name}`, which was not installed or has changed since"
    )]
    Taken {
        /// Name of the skill.
        name: String,
    },
    /// There is no skill of that name.
    #[error("there is no skill `{name}`")]
    Unknown {
        /// Name that was given.
        name: String,
    },
    /// The skill is not in the workspace.
    #[error("`{name}` is not a skill of the workspace ({origin})")]
    NotOfWorkspace {
        /// Name of the skill.
        name: String,
        /// Origin of the skill.
        origin: SkillOrigin,
    },
    /// The skill does not ask to be included in every prompt, or cannot be used at all.
    #[error("`{name}` does not ask to be in every prompt, so there is nothing to agree to")]
    AsksForNothing {
        /// Name of the skill.
        name: String,
    },
    /// The list of installed skills cannot be parsed.
    #[error("cannot parse {}", path.display())]
    Lock {
        /// Path of the list.
        path: PathBuf,
        /// Position and reason.
        source: serde_json::Error,
    },
}

impl SkillsError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
