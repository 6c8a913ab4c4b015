//! What can go wrong with skills.

use std::io;
use std::path::{Path, PathBuf};

use nanobot_skill::SkillOrigin;

/// Why a skill was not checked, installed or removed. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum SkillsError {
    /// A file or folder could not be used.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no skill at that place.
    #[error("{} is neither a folder with a SKILL.md nor a .skill file", path.display())]
    NotASkill {
        /// The place.
        path: PathBuf,
    },
    /// A file is no archive that can be read.
    #[error("{} cannot be read as a .skill archive", path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: zip::result::ZipError,
    },
    /// Something in it could reach beyond its folder, or cannot be kept apart from something else.
    #[error("`{entry}` is refused: {why}")]
    Unsafe {
        /// The path inside the skill.
        entry: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It is too large.
    #[error("it is too large: {0}")]
    TooLarge(String),
    /// It is no skill that can be installed.
    #[error("`{name}` cannot be installed: {}", problems.join("; "))]
    Invalid {
        /// What it calls itself.
        name: String,
        /// What has to be mended.
        problems: Vec<String>,
    },
    /// The workspace has a skill of that name that was not installed, or that changed since.
    #[error("there is a skill `{name}` in the workspace already, with changes of its own")]
    Taken {
        /// The name.
        name: String,
    },
    /// There is no skill of that name.
    #[error("there is no skill `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The skill is not one of the workspace.
    #[error("`{name}` is not a skill of the workspace ({origin})")]
    NotOfWorkspace {
        /// The name.
        name: String,
        /// Whose it is.
        origin: SkillOrigin,
    },
    /// The skill does not ask to stand in every prompt, or cannot be used at all.
    #[error("`{name}` does not ask to stand in every prompt, so there is nothing to agree to")]
    AsksForNothing {
        /// The name.
        name: String,
    },
    /// The list of installed skills cannot be understood.
    #[error("{} cannot be understood", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Where and why.
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
