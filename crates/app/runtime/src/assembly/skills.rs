//! The skills of a configuration.

use std::path::PathBuf;

use nanobot_skills::{LockFile, SkillSettings, Skills};

use crate::assembly::settings::{AgentDefaults, SkillsConfig};
use crate::{Runtime, RuntimeError};

/// Returns the skills of a configuration: those of the workspace, the built-in ones and those of
/// the libraries. Reads nothing from disk.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the workspace or a section cannot be used.
pub fn skills(runtime: &Runtime) -> Result<Skills, RuntimeError> {
    let config = runtime.config();
    let section: SkillsConfig = config.section("skills")?;
    let defaults: AgentDefaults = config.section("agents.defaults")?;
    let libraries = section
        .library_dirs
        .iter()
        .map(|path| config.paths().expand(&path.to_string_lossy()));
    let added = runtime.extensions().skills.iter().cloned();
    Ok(Skills::new(SkillSettings {
        workspace: config.workspace()?.join("skills"),
        built_in: config.paths().data_dir.join("library").join("skills"),
        libraries: libraries.chain(added).collect(),
        disabled: section
            .disabled
            .into_iter()
            .chain(defaults.disabled_skills)
            .collect(),
        always: section.always,
    }))
}

/// Returns the skills that ask to be in every prompt and may not: one line each, which says how to
/// agree.
#[must_use]
pub fn unagreed_skills(runtime: &Runtime) -> Vec<String> {
    // The start of the program reports a section that cannot be read.
    let survey = skills(runtime)
        .map(|skills| skills.scan())
        .unwrap_or_default();
    survey
        .iter()
        .filter_map(|found| {
            Some(format!(
                "skill {}: {}",
                found.name,
                found.missing_consent_remark()?
            ))
        })
        .collect()
}

/// Writes the built-in skills to a folder that file tools can read. If that fails, only file tools
/// are affected.
pub(crate) fn write_built_in_skills(skills: &Skills) {
    if let Err(error) = skills.write_built_in() {
        let path = &skills.settings().built_in;
        tracing::warn!(path = %path.display(), %error, "could not write the built-in skills for file tools");
    }
}

/// Returns the folders of skills that tools may read but not write.
pub(crate) fn read_only(skills: &Skills) -> Vec<PathBuf> {
    let settings = skills.settings();
    settings
        .libraries
        .iter()
        .chain([&settings.built_in])
        .cloned()
        .collect()
}

/// Returns the record of the user's consent to skills, which no tool may change.
pub(crate) fn protected(skills: &Skills) -> PathBuf {
    LockFile::path(&skills.settings().workspace)
}
