//! Installs skills into the workspace and removes them.
//!
//! Decision: a plan holds the bytes that a person was shown, and exactly those are written and
//! pinned. A skill that was changed by hand is never replaced. Installing a skill from its own
//! folder in the workspace only pins it again, which is how a person agrees to a change.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, FixedOffset};
use nanobot_skill::SkillOrigin;

use crate::lock::{LockFile, Pin};
use crate::package::Package;
use crate::survey::Skills;
use crate::{Capabilities, SkillFinding, SkillsError};

/// The effects of installing a package, for a person to agree to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallPlan {
    package: Package,
    /// Name under which the skill will be installed.
    pub name: String,
    /// Digest of its files.
    pub digest: String,
    /// Its files and requirements.
    pub capabilities: Capabilities,
    /// Problems that do not prevent installing it.
    pub remarks: Vec<SkillFinding>,
    /// Effect on an existing skill of that name.
    pub change: InstallEffect,
    /// Origin of the skill of the same name that the new one will hide.
    pub hides: Option<SkillOrigin>,
}

/// Effect of installing on an existing skill of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallEffect {
    /// No skill of that name exists in the workspace.
    New,
    /// The same files are installed already.
    Same,
    /// The new files replace another installed version.
    Replaces,
    /// The package is the existing skill; only its pin is updated to its current files.
    PinsInPlace,
}

impl Skills {
    /// Plans the installation of a package. Changes nothing.
    ///
    /// # Errors
    /// Returns [`SkillsError::Invalid`] if the package has errors, [`SkillsError::Taken`] if a
    /// skill of that name exists that was not installed or has changed since, [`SkillsError::Lock`]
    /// if the list of installed skills cannot be parsed, and the errors of reading an existing
    /// skill.
    pub fn plan(&self, package: Package) -> Result<InstallPlan, SkillsError> {
        let name = package.name();
        let (errors, remarks): (Vec<_>, Vec<_>) = package
            .findings()
            .into_iter()
            .partition(|finding| finding.is_error);
        if !errors.is_empty() {
            let problems = errors.into_iter().map(|finding| finding.what).collect();
            return Err(SkillsError::Invalid { name, problems });
        }
        let target = self.settings().workspace.join(&name);
        let digest = package.digest();
        let change = self.change(&name, &target, &package, &digest)?;
        let hides = self
            .scan()
            .into_iter()
            .find(|found| found.name == name)
            .map(|found| found.origin);
        let hides = hides.filter(|origin| *origin != SkillOrigin::Workspace);
        Ok(InstallPlan {
            capabilities: package.capabilities(),
            package,
            name,
            digest,
            remarks,
            change,
            hides,
        })
    }

    /// Compares the package with what is at `target`.
    fn change(
        &self,
        name: &str,
        target: &Path,
        package: &Package,
        digest: &str,
    ) -> Result<InstallEffect, SkillsError> {
        if target.symlink_metadata().is_err() {
            return Ok(InstallEffect::New);
        }
        if target
            .canonicalize()
            .is_ok_and(|target| target == package.source())
        {
            return Ok(InstallEffect::PinsInPlace);
        }
        let there = Package::read_folder(target)?.digest();
        let lock = LockFile::read(&self.settings().workspace)?;
        match lock.get(name) {
            Some(pin) if pin.digest == there && digest == there => Ok(InstallEffect::Same),
            Some(pin) if pin.digest == there => Ok(InstallEffect::Replaces),
            _ => Err(SkillsError::Taken {
                name: name.to_owned(),
            }),
        }
    }

    /// Carries out a plan that a person agreed to, and returns the skill's folder. Its files are
    /// written completely or not at all.
    ///
    /// # Errors
    /// Returns [`SkillsError::Io`] if a file cannot be written, and [`SkillsError::Lock`] if the
    /// list of installed skills cannot be parsed.
    pub fn install(
        &self,
        plan: &InstallPlan,
        at: DateTime<FixedOffset>,
    ) -> Result<PathBuf, SkillsError> {
        let folder = &self.settings().workspace;
        std::fs::create_dir_all(folder).map_err(SkillsError::io("create", folder))?;
        let mut lock = LockFile::read(folder)?;
        let target = folder.join(&plan.name);
        match plan.change {
            InstallEffect::New | InstallEffect::Replaces => put(folder, &target, &plan.package)?,
            InstallEffect::Same | InstallEffect::PinsInPlace => {}
        }
        let pin = Pin {
            digest: plan.digest.clone(),
            source: plan.package.source().display().to_string(),
            installed_at: at,
            always: plan.capabilities.always,
        };
        lock.put(&plan.name, pin);
        lock.write(folder)?;
        Ok(target)
    }

    /// Removes a workspace skill with all its files, and returns its folder.
    ///
    /// # Errors
    /// Returns [`SkillsError::Unknown`] if there is no such skill, [`SkillsError::NotOfWorkspace`]
    /// if it is not in the workspace, [`SkillsError::Io`] if a file cannot be removed, and
    /// [`SkillsError::Lock`] if the list of installed skills cannot be parsed.
    pub fn remove(&self, name: &str) -> Result<PathBuf, SkillsError> {
        let target = self.removable(name)?;
        let folder = &self.settings().workspace;
        let mut lock = LockFile::read(folder)?;
        let is_link = target
            .symlink_metadata()
            .is_ok_and(|found| found.is_symlink());
        let removed = if is_link {
            std::fs::remove_file(&target)
        } else {
            std::fs::remove_dir_all(&target)
        };
        removed.map_err(SkillsError::io("remove", &target))?;
        if lock.remove(name) {
            lock.write(folder)?;
        }
        Ok(target)
    }

    /// Returns the folder of a skill that [`Skills::remove`] can remove.
    ///
    /// # Errors
    /// Returns [`SkillsError::Unknown`] if there is no such skill, and
    /// [`SkillsError::NotOfWorkspace`] if it is not in the workspace.
    pub fn removable(&self, name: &str) -> Result<PathBuf, SkillsError> {
        let found: Vec<_> = self
            .scan()
            .into_iter()
            .filter(|found| found.name == name)
            .collect();
        let own = found
            .iter()
            .find(|found| found.origin == SkillOrigin::Workspace);
        match (own.and_then(|found| found.location.parent()), found.first()) {
            (Some(folder), _) => Ok(folder.to_owned()),
            (None, Some(other)) => Err(SkillsError::NotOfWorkspace {
                name: name.to_owned(),
                origin: other.origin,
            }),
            (None, None) => Err(SkillsError::Unknown {
                name: name.to_owned(),
            }),
        }
    }
}

/// Writes a package to a temporary folder next to its target and renames it into place. The old
/// version is deleted last.
fn put(folder: &Path, target: &Path, package: &Package) -> Result<(), SkillsError> {
    let hidden = |prefix: &str| {
        tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(folder)
            .map_err(SkillsError::io("write to", folder))
    };
    let fresh = hidden(".installing-")?;
    let inner = fresh.path().join("skill");
    write_files(&inner, package).map_err(SkillsError::io("write", &inner))?;
    let old = hidden(".replaced-")?;
    let replaced = old.path().join("skill");
    let had_one = target.symlink_metadata().is_ok();
    if had_one {
        std::fs::rename(target, &replaced).map_err(SkillsError::io("move", target))?;
    }
    if let Err(error) = std::fs::rename(&inner, target) {
        if had_one && let Err(error) = std::fs::rename(&replaced, target) {
            tracing::error!(path = %target.display(), %error, "cannot restore the previous version of a skill");
        }
        return Err(SkillsError::io("create", target)(error));
    }
    Ok(())
}

fn write_files(folder: &Path, package: &Package) -> io::Result<()> {
    std::fs::create_dir(folder)?;
    for (path, file) in package.files() {
        let place = folder.join(path);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut created = std::fs::File::create_new(&place)?;
        created.write_all(&file.bytes)?;
        created.sync_all()?;
        if file.executable {
            make_executable(&created)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = file.metadata()?.permissions();
    permissions.set_mode(permissions.mode() | 0o100);
    file.set_permissions(permissions)
}

#[cfg(not(unix))]
fn make_executable(_: &std::fs::File) -> io::Result<()> {
    Ok(())
}
