//! Finds all skills: in the workspace, built in, and in libraries.
//!
//! Decision: a skill is identified by the name of its folder, and the first one of a name is used.
//! Skills that are hidden by another one, disabled or refused are still reported to people, never
//! to the model. The assistant may have written a workspace skill itself, so such a skill is
//! included in every prompt only with a person's consent, which an installed skill loses when its
//! digest changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nanobot_skill::{Skill, SkillOrigin, SkillSource};

use crate::built_in::{self, BUILT_IN};
use crate::load::{LoadError, Loaded, SKILL_FILE, build_skill, load};
use crate::lock::{LockFile, Pin};
use crate::package::Package;

/// Locations of skills, and the configuration about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSettings {
    /// Folder of the workspace's skills, as an absolute path.
    pub workspace: PathBuf,
    /// Folder to which [`Skills::write_built_in`] writes the built-in skills, as an absolute path.
    pub built_in: PathBuf,
    /// Further folders of skills, as absolute paths. They are only read.
    pub libraries: Vec<PathBuf>,
    /// Names of skills that are not used, in any location.
    pub disabled: Vec<String>,
    /// Names of workspace skills that may be included in every prompt if they ask for it.
    pub always: Vec<String>,
}

/// A folder with a SKILL.md, and its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillEntry {
    /// Name of the folder.
    pub name: String,
    /// Origin of the skill.
    pub origin: SkillOrigin,
    /// Path of its SKILL.md.
    pub location: PathBuf,
    /// Status of the skill.
    pub status: SkillStatus,
    /// Remarks for a person.
    pub notes: Vec<String>,
    /// State of the consent, if it is a workspace skill that asks to be included in every prompt.
    pub consent: Option<Consent>,
}

/// Status of a skill's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillStatus {
    /// It is listed to the model, available or not.
    InUse(Skill),
    /// Another skill of the same name takes precedence.
    Hidden {
        /// Origin of that skill.
        by: SkillOrigin,
    },
    /// It is disabled in the configuration.
    Disabled,
    /// It is not a usable skill, for this reason.
    Refused(String),
}

/// State of the consent to a workspace skill that asks to be included in every prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Given for the files as they are.
    Given,
    /// Given by name in `skills.always`. It covers any files, unless the skill is pinned and has
    /// changed since.
    Listed,
    /// Not given.
    Missing,
    /// Given for other files than the current ones.
    Outdated,
}

impl Consent {
    /// `true` if the skill may be included in every prompt.
    #[must_use]
    pub fn is_granted(self) -> bool {
        matches!(self, Self::Given | Self::Listed)
    }
}

/// The skills of an installation.
#[derive(Debug)]
pub struct Skills {
    settings: SkillSettings,
    /// Remarks already logged, so that each is logged once however often prompts are built.
    logged: Mutex<BTreeSet<String>>,
}

impl Skills {
    /// Creates a finder for these locations. Does no I/O.
    #[must_use]
    pub fn new(settings: SkillSettings) -> Self {
        Self {
            settings,
            logged: Mutex::default(),
        }
    }

    /// Returns the locations and the configuration.
    #[must_use]
    pub fn settings(&self) -> &SkillSettings {
        &self.settings
    }

    /// Writes the built-in skills to their folder, so that file tools can read them. Files that are
    /// already up to date are left alone.
    ///
    /// # Errors
    /// Returns the first error of creating a folder or writing a file.
    pub fn write_built_in(&self) -> io::Result<()> {
        built_in::write_built_in(&self.settings.built_in)
    }

    /// Returns every folder that is or looks like a skill, sorted by name; for equal names, in
    /// order of precedence.
    #[must_use]
    pub fn scan(&self) -> Vec<SkillEntry> {
        let lock = LockFile::read(&self.settings.workspace).unwrap_or_else(|error| {
            self.log_once(&self.settings.workspace, &error.to_string());
            LockFile::default()
        });
        let own = skills_in(&self.settings.workspace, SkillOrigin::Workspace)
            .into_iter()
            .map(|mut found| {
                self.ask_for_consent(&mut found, &lock);
                found
            });
        let libraries = self.settings.libraries.iter();
        let libraries = libraries.flat_map(|folder| skills_in(folder, SkillOrigin::Library));
        let mut taken = BTreeMap::new();
        let mut all: Vec<SkillEntry> = own
            .chain(built_in(&self.settings.built_in))
            .chain(libraries)
            .map(|mut found| {
                self.apply_precedence(&mut found, &mut taken);
                found
            })
            .collect();
        // The sort is stable, so skills of equal name stay in order of precedence.
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }

    /// Sets the status of a skill that is disabled, or hidden by an earlier one of the same name.
    fn apply_precedence(&self, found: &mut SkillEntry, taken: &mut BTreeMap<String, SkillOrigin>) {
        if !matches!(found.status, SkillStatus::InUse(_)) {
            return;
        }
        if self.settings.disabled.contains(&found.name) {
            found.status = SkillStatus::Disabled;
        } else if let Some(by) = taken.get(&found.name) {
            found.status = SkillStatus::Hidden { by: *by };
        } else {
            taken.insert(found.name.clone(), found.origin);
        }
    }

    /// Determines the consent to a workspace skill that asks to be included in every prompt, and
    /// drops the request without consent.
    fn ask_for_consent(&self, found: &mut SkillEntry, lock: &LockFile) {
        let SkillStatus::InUse(skill) = &mut found.status else {
            return;
        };
        if !skill.always {
            return;
        }
        let is_listed = self.settings.always.contains(&skill.name);
        let consent = match lock.get(&skill.name) {
            Some(pin) if !is_unchanged(&self.settings.workspace.join(&skill.name), pin) => {
                Consent::Outdated
            }
            Some(pin) if pin.always => Consent::Given,
            _ if is_listed => Consent::Listed,
            _ => Consent::Missing,
        };
        skill.always = consent.is_granted();
        found.consent = Some(consent);
    }

    /// `true` if a workspace skill differs from the version that was installed.
    #[must_use]
    pub fn has_changed(&self, found: &SkillEntry) -> bool {
        let lock = LockFile::read(&self.settings.workspace).unwrap_or_default();
        let pin = lock
            .get(&found.name)
            .filter(|_| found.origin == SkillOrigin::Workspace);
        pin.is_some_and(|pin| !is_unchanged(&self.settings.workspace.join(&found.name), pin))
    }

    /// Logs a remark about a path, once.
    fn log_once(&self, path: &Path, remark: &str) {
        let fresh = self
            .logged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(format!("{}\0{remark}", path.display()));
        if fresh {
            tracing::warn!(path = %path.display(), remark, "remark about a skill");
        }
    }

    /// Logs the status and the remarks of a skill.
    fn log_status(&self, found: &SkillEntry) {
        match &found.status {
            SkillStatus::Refused(why) => {
                self.log_once(&found.location, &format!("it is left out: {why}"));
            }
            SkillStatus::Hidden { by } => {
                self.log_once(
                    &found.location,
                    &format!("it is hidden by a skill of the same name ({by})"),
                );
            }
            SkillStatus::InUse(_) => found
                .remarks()
                .iter()
                .for_each(|note| self.log_once(&found.location, note)),
            SkillStatus::Disabled => {}
        }
    }
}

impl SkillSource for Skills {
    fn configuration(&self) -> String {
        format!("{:?}", self.settings)
    }

    fn skills(&self) -> Vec<Skill> {
        let found = self.scan().into_iter();
        found
            .inspect(|found| self.log_status(found))
            .filter_map(|found| match found.status {
                SkillStatus::InUse(mut skill) => {
                    // A skill that cannot be used is not included in every prompt.
                    skill.always &= skill.is_available();
                    Some(skill)
                }
                _ => None,
            })
            .collect()
    }
}

fn is_unchanged(folder: &Path, pin: &Pin) -> bool {
    Package::read_folder(folder).is_ok_and(|package| package.digest() == pin.digest)
}

fn skills_in(root: &Path, origin: SkillOrigin) -> Vec<SkillEntry> {
    let folders = match folders(root) {
        Ok(folders) => folders,
        Err(error) => {
            tracing::warn!(path = %root.display(), %error, "cannot read a folder of skills");
            return Vec::new();
        }
    };
    let files = folders
        .into_iter()
        .map(|name| (root.join(&name).join(SKILL_FILE), name));
    let there = files.filter(|(location, _)| location.symlink_metadata().is_ok());
    there
        .map(|(location, name)| entry_of(name.clone(), origin, location, load(root, &name, origin)))
        .collect()
}

fn built_in(root: &Path) -> impl Iterator<Item = SkillEntry> {
    BUILT_IN.iter().map(|(name, text)| {
        let location = root.join(name).join(SKILL_FILE);
        // Parse the compiled-in text, so that changes to the copy on disk have no effect.
        let loaded = build_skill(text, name, SkillOrigin::BuiltIn, location.clone());
        entry_of((*name).to_owned(), SkillOrigin::BuiltIn, location, loaded)
    })
}

fn entry_of(
    name: String,
    origin: SkillOrigin,
    location: PathBuf,
    loaded: Result<Loaded, LoadError>,
) -> SkillEntry {
    let (status, notes) = match loaded {
        Ok(loaded) => (SkillStatus::InUse(loaded.skill), loaded.notes),
        Err(refusal) => (SkillStatus::Refused(refusal.to_string()), Vec::new()),
    };
    SkillEntry {
        name,
        origin,
        location,
        status,
        notes,
        consent: None,
    }
}

/// Returns the names of the entries of a folder that are not hidden, sorted; empty if the folder
/// does not exist.
fn folders(root: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    Ok(names)
}
