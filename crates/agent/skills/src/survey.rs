//! Finds all skills: of the workspace, built in, and in libraries.
//!
//! Decision: a skill is known by the name of its folder, and the first of a name is taken. What
//! stands behind it, is switched off or refused is still told to people, never to the model. A
//! skill of the workspace may have been written by the assistant itself and stands in every prompt
//! only with a person's consent, which an installed skill loses with its digest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nanobot_skill::{Skill, SkillOrigin, SkillSource};

use crate::built_in::{self, BUILT_IN};
use crate::consent::Consent;
use crate::load::{Loaded, Refusal, SKILL_FILE, load, understand};
use crate::lock::{Lock, Pin};
use crate::package::Package;

/// Where skills are and what the configuration says about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSettings {
    /// The folder of the workspace's skills, as an absolute path.
    pub workspace: PathBuf,
    /// The folder in which [`Skills::lay_out`] puts the built-in ones, as an absolute path.
    pub built_in: PathBuf,
    /// Further folders of skills, which nobody writes to, as absolute paths.
    pub libraries: Vec<PathBuf>,
    /// Names of skills that are not to be used, wherever they are.
    pub disabled: Vec<String>,
    /// Skills of the workspace that may stand in every prompt when they ask for it.
    pub always: Vec<String>,
}

/// A folder with a SKILL.md and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name of the folder.
    pub name: String,
    /// Whose it is.
    pub origin: SkillOrigin,
    /// The file.
    pub location: PathBuf,
    /// What becomes of it.
    pub standing: Standing,
    /// Remarks for a person.
    pub notes: Vec<String>,
    /// Consent to it, if it is a skill of the workspace that asks to stand in every prompt.
    pub consent: Option<Consent>,
}

/// What becomes of a folder of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The model is told of it, available or not.
    InUse(Skill),
    /// Another of the same name stands before it.
    Hidden {
        /// Whose that is.
        by: SkillOrigin,
    },
    /// The configuration switched it off.
    Disabled,
    /// It is no skill, for this reason.
    Refused(String),
}

/// The skills of an installation.
#[derive(Debug)]
pub struct Skills {
    settings: SkillSettings,
    /// Remarks that were logged: each once, however often prompts are built.
    told: Mutex<BTreeSet<String>>,
}

impl Skills {
    /// The skills at these places. Touches no disk.
    #[must_use]
    pub fn new(settings: SkillSettings) -> Self {
        Self {
            settings,
            told: Mutex::default(),
        }
    }

    /// Where they are and what is said about them.
    #[must_use]
    pub fn settings(&self) -> &SkillSettings {
        &self.settings
    }

    /// Writes the built-in skills into their folder, so that file tools can read them. What is
    /// there already and the same is left alone.
    ///
    /// # Errors
    /// The first file or folder that could not be written.
    pub fn lay_out(&self) -> io::Result<()> {
        built_in::lay_out(&self.settings.built_in)
    }

    /// Everything that is or looks like a skill, sorted by name; of one name, in the order in
    /// which they are taken.
    #[must_use]
    pub fn survey(&self) -> Vec<Found> {
        let lock = Lock::read(&self.settings.workspace).unwrap_or_else(|error| {
            self.tell(&self.settings.workspace, &error.to_string());
            Lock::default()
        });
        let own = in_folder(&self.settings.workspace, SkillOrigin::Workspace)
            .into_iter()
            .map(|mut found| {
                self.ask_for_consent(&mut found, &lock);
                found
            });
        let libraries = self.settings.libraries.iter();
        let libraries = libraries.flat_map(|folder| in_folder(folder, SkillOrigin::Library));
        let mut taken = BTreeMap::new();
        let mut all: Vec<Found> = own
            .chain(built_in(&self.settings.built_in))
            .chain(libraries)
            .map(|mut found| {
                self.place(&mut found, &mut taken);
                found
            })
            .collect();
        // Stable, so that those of one name stay in their order.
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }

    /// Switches off what is not wanted and hides what comes second.
    fn place(&self, found: &mut Found, taken: &mut BTreeMap<String, SkillOrigin>) {
        if !matches!(found.standing, Standing::InUse(_)) {
            return;
        }
        if self.settings.disabled.contains(&found.name) {
            found.standing = Standing::Disabled;
        } else if let Some(by) = taken.get(&found.name) {
            found.standing = Standing::Hidden { by: *by };
        } else {
            taken.insert(found.name.clone(), found.origin);
        }
    }

    /// Lets a skill of the workspace into every prompt only where a person said so.
    fn ask_for_consent(&self, found: &mut Found, lock: &Lock) {
        let Standing::InUse(skill) = &mut found.standing else {
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
        skill.always = consent.is_given();
        found.consent = Some(consent);
    }

    /// Whether a skill of the workspace is another than the one that was installed.
    #[must_use]
    pub fn has_changed(&self, found: &Found) -> bool {
        let lock = Lock::read(&self.settings.workspace).unwrap_or_default();
        let pin = lock
            .get(&found.name)
            .filter(|_| found.origin == SkillOrigin::Workspace);
        pin.is_some_and(|pin| !is_unchanged(&self.settings.workspace.join(&found.name), pin))
    }

    fn tell(&self, path: &Path, remark: &str) {
        let fresh = self
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(format!("{}\0{remark}", path.display()));
        if fresh {
            tracing::warn!(path = %path.display(), remark, "about a skill");
        }
    }

    fn tell_all(&self, found: &Found) {
        match &found.standing {
            Standing::Refused(why) => self.tell(&found.location, &format!("it is left out: {why}")),
            Standing::Hidden { by } => {
                self.tell(
                    &found.location,
                    &format!("it is hidden by a skill of the same name ({by})"),
                );
            }
            Standing::InUse(_) => found
                .remarks()
                .iter()
                .for_each(|note| self.tell(&found.location, note)),
            Standing::Disabled => {}
        }
    }
}

impl SkillSource for Skills {
    fn configuration(&self) -> String {
        format!("{:?}", self.settings)
    }

    fn skills(&self) -> Vec<Skill> {
        let found = self.survey().into_iter();
        found
            .inspect(|found| self.tell_all(found))
            .filter_map(|found| match found.standing {
                Standing::InUse(mut skill) => {
                    // What cannot be used asks for nothing.
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

fn in_folder(root: &Path, origin: SkillOrigin) -> Vec<Found> {
    let folders = match folders(root) {
        Ok(folders) => folders,
        Err(error) => {
            tracing::warn!(path = %root.display(), %error, "a folder of skills cannot be read");
            return Vec::new();
        }
    };
    let files = folders
        .into_iter()
        .map(|name| (root.join(&name).join(SKILL_FILE), name));
    let there = files.filter(|(location, _)| location.symlink_metadata().is_ok());
    there
        .map(|(location, name)| found(name.clone(), origin, location, load(root, &name, origin)))
        .collect()
}

fn built_in(root: &Path) -> impl Iterator<Item = Found> {
    BUILT_IN.iter().map(|(name, text)| {
        let location = root.join(name).join(SKILL_FILE);
        // What is compiled in counts, whatever somebody did to the copy.
        let loaded = understand(text, name, SkillOrigin::BuiltIn, location.clone());
        found((*name).to_owned(), SkillOrigin::BuiltIn, location, loaded)
    })
}

fn found(
    name: String,
    origin: SkillOrigin,
    location: PathBuf,
    loaded: Result<Loaded, Refusal>,
) -> Found {
    let (standing, notes) = match loaded {
        Ok(loaded) => (Standing::InUse(loaded.skill), loaded.notes),
        Err(refusal) => (Standing::Refused(refusal.to_string()), Vec::new()),
    };
    Found {
        name,
        origin,
        location,
        standing,
        notes,
        consent: None,
    }
}

/// The names in a folder, sorted, but for hidden ones; none when there is no such folder.
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
