//! Consent of a person to skills of the workspace that ask to stand in every prompt.
//!
//! Decision: the assistant can write into the workspace, so what a skill asks for is no permission.
//! A person sees what the skill brings along and agrees to exactly those files; any change takes the
//! consent away. The file that holds it may not be written by tools.

use std::path::PathBuf;

use chrono::{DateTime, FixedOffset};
use nanobot_skill::SkillOrigin;

use crate::lock::{Lock, Pin};
use crate::package::Package;
use crate::survey::{Found, Skills, Standing};
use crate::{Capabilities, SkillsError};

/// Consent to a skill of the workspace that asks to stand in every prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// To the files as they are.
    Given,
    /// By name in `skills.always`, whatever the files say.
    Listed,
    /// None.
    Missing,
    /// To other files than these.
    Outdated,
}

impl Consent {
    /// `true` if the skill may stand in every prompt.
    #[must_use]
    pub fn is_given(self) -> bool {
        matches!(self, Self::Given | Self::Listed)
    }
}

impl Found {
    /// Says that it asks for what was not agreed to, and how to agree. `None` for a skill that is
    /// not in use, asks for nothing, or has consent.
    #[must_use]
    pub fn unagreed(&self) -> Option<String> {
        let consent = self
            .consent
            .filter(|_| matches!(self.standing, Standing::InUse(_)))?;
        let why = match consent {
            Consent::Given | Consent::Listed => return None,
            Consent::Missing => "which was not agreed to",
            Consent::Outdated => "which was agreed to for other files than these",
        };
        let name = &self.name;
        Some(format!(
            "it asks to stand in every prompt, {why}: only its description does. \
             `nanobot skills agree \"{name}\"` shows what it brings along and asks for consent"
        ))
    }

    /// All remarks for a person, missing consent included.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        self.notes.iter().cloned().chain(self.unagreed()).collect()
    }
}

/// A skill of the workspace that asks to stand in every prompt, as a person is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentPlan {
    /// The name of its folder.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The digest of its files.
    pub digest: String,
    /// Files, programs, variables and addresses that it brings along and asks for.
    pub capabilities: Capabilities,
    /// Its text without the header.
    pub body: String,
}

impl Skills {
    /// What consent to a skill of the workspace would be about. Nothing is changed.
    ///
    /// # Errors
    /// [`SkillsError::Unknown`], [`SkillsError::NotOfWorkspace`], [`SkillsError::AsksForNothing`];
    /// those of reading its files.
    pub fn plan_consent(&self, name: &str) -> Result<ConsentPlan, SkillsError> {
        let folder = self.removable(name)?;
        let package = Package::read_folder(&folder)?;
        let survey = self.survey();
        let own = survey
            .iter()
            .find(|found| found.name == name && found.origin == SkillOrigin::Workspace);
        if own.is_none_or(|found| found.consent.is_none()) {
            return Err(SkillsError::AsksForNothing {
                name: name.to_owned(),
            });
        }
        Ok(ConsentPlan {
            name: name.to_owned(),
            folder,
            digest: package.digest(),
            capabilities: package.capabilities(),
            body: package.document().body,
        })
    }

    /// Records consent to the files that a plan was made of. A skill that changed since has none.
    ///
    /// # Errors
    /// [`SkillsError::Io`], [`SkillsError::Lock`].
    pub fn agree(&self, plan: &ConsentPlan, at: DateTime<FixedOffset>) -> Result<(), SkillsError> {
        let folder = &self.settings().workspace;
        let mut lock = Lock::read(folder)?;
        let source = lock.get(&plan.name).map_or_else(
            || plan.folder.display().to_string(),
            |pin| pin.source.clone(),
        );
        lock.put(
            &plan.name,
            Pin {
                digest: plan.digest.clone(),
                source,
                installed_at: at,
                always: true,
            },
        );
        lock.write(folder)
    }
}
