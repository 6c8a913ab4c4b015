//! A person's consent to workspace skills that ask to be included in every prompt.
//!
//! Decision: the assistant can write to the workspace, so a request in a skill is not a permission.
//! A person reviews the skill and agrees to exactly those files; any change revokes the consent.
//! Tools may not write the file that records it.

use std::path::PathBuf;

use chrono::{DateTime, FixedOffset};
use nanobot_skill::SkillOrigin;

use crate::lock::{LockFile, Pin};
use crate::package::Package;
use crate::survey::{Consent, SkillEntry, SkillStatus, Skills};
use crate::{Capabilities, SkillsError};

impl SkillEntry {
    /// Returns a message that the skill asks for more than was agreed to, and how to agree. `None`
    /// for a skill that is not in use, does not ask to be in every prompt, or has consent.
    #[must_use]
    pub fn missing_consent_remark(&self) -> Option<String> {
        let consent = self
            .consent
            .filter(|_| matches!(self.status, SkillStatus::InUse(_)))?;
        let why = match consent {
            Consent::Given | Consent::Listed => return None,
            Consent::Missing => "which was not agreed to",
            Consent::Outdated => "which was agreed to for other files than these",
        };
        let name = &self.name;
        Some(format!(
            "it asks to be in every prompt, {why}: only its description does. \
             `nanobot skills agree \"{name}\"` shows what it brings along and asks for consent"
        ))
    }

    /// Returns all remarks for a person, including missing consent.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        self.notes
            .iter()
            .cloned()
            .chain(self.missing_consent_remark())
            .collect()
    }
}

/// A workspace skill that asks to be included in every prompt, as it is shown to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentPlan {
    /// Name of its folder.
    pub name: String,
    /// Path of its folder.
    pub folder: PathBuf,
    /// Digest of its files.
    pub digest: String,
    /// Its files, and the programs, variables and URLs it uses.
    pub capabilities: Capabilities,
    /// Its text, without the header.
    pub body: String,
}

impl Skills {
    /// Prepares the consent to a workspace skill for review. Changes nothing.
    ///
    /// # Errors
    /// Returns [`SkillsError::Unknown`] if there is no such skill, [`SkillsError::NotOfWorkspace`]
    /// if it is not in the workspace, [`SkillsError::AsksForNothing`] if it does not ask to be
    /// included in every prompt, and the errors of reading its files.
    pub fn plan_consent(&self, name: &str) -> Result<ConsentPlan, SkillsError> {
        let folder = self.removable(name)?;
        let package = Package::read_folder(&folder)?;
        let survey = self.scan();
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

    /// Records consent to the files that `plan` was made from. It does not cover changes made
    /// since.
    ///
    /// # Errors
    /// Returns [`SkillsError::Io`] or [`SkillsError::Lock`] if the list of installed skills cannot
    /// be read or written.
    pub fn record_consent(
        &self,
        plan: &ConsentPlan,
        at: DateTime<FixedOffset>,
    ) -> Result<(), SkillsError> {
        let folder = &self.settings().workspace;
        let mut lock = LockFile::read(folder)?;
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
