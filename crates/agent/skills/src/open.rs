//! Reads a package from a path, whatever form it has there.

use std::path::Path;

use crate::load::SKILL_FILE;
use crate::package::{LEFT_OUT, Package};
use crate::{SkillsError, archive};

impl Package {
    /// Reads a skill from a folder, or from an archive that ends in `.skill` or `.zip`.
    ///
    /// # Errors
    /// Returns [`SkillsError::NotASkill`] if the path has no SKILL.md, [`SkillsError::Unsafe`] for
    /// a link or a bad path in it, [`SkillsError::TooLarge`] if it exceeds a limit,
    /// [`SkillsError::Archive`] if an archive cannot be read, and [`SkillsError::Io`] if a file
    /// cannot be read.
    pub fn open(path: &Path) -> Result<Self, SkillsError> {
        let is_archive = path
            .extension()
            .and_then(|ending| ending.to_str())
            .is_some_and(|ending| {
                ["skill", "zip"]
                    .iter()
                    .any(|known| ending.eq_ignore_ascii_case(known))
            });
        let package = match std::fs::metadata(path).map_err(SkillsError::io("read", path))? {
            found if found.is_dir() => Self::read(path, &LEFT_OUT)?,
            found if found.is_file() && is_archive => archive::read(path)?,
            _ => {
                return Err(SkillsError::NotASkill {
                    path: path.to_owned(),
                });
            }
        };
        if package.files().contains_key(SKILL_FILE) {
            return Ok(package);
        }
        Err(SkillsError::NotASkill {
            path: path.to_owned(),
        })
    }
}
