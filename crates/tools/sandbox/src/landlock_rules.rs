//! Confinement by Landlock, where bubblewrap cannot be used.
//!
//! Landlock only adds rights: what is granted for a folder holds for everything beneath it. So a
//! folder with a closed or protected path inside gets no right as a whole; its other entries, as
//! they are at the start of the command, get them one by one. In such a folder itself nothing can
//! be created.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};

use crate::view::{Base, PathAccess, View};

/// The version that confines everything a view speaks of: files (1), renaming (2), truncation (3),
/// TCP (4), devices (5), signals and abstract sockets (6). Linux 6.12.
const VERSION: ABI = ABI::V6;

/// Devices without content of their own.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Facts about the computer that programs read at their start.
const FACTS: [&str; 7] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
];

/// Maximum number of paths that get rights of their own.
const MAX_RULES: usize = 20_000;

/// Rights to one path and everything beneath it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    Read,
    Write,
}

impl Rights {
    fn bits(self) -> BitFlags<AccessFs> {
        let read = AccessFs::from_read(VERSION);
        let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
        match self {
            Self::Read => read,
            Self::Write => (read | AccessFs::from_write(VERSION)) & !devices,
        }
    }
}

/// Confines this process and all that it starts to `view`, with `scratch` as its folder for
/// temporary files.
pub(crate) fn confine(view: &View, scratch: &Path) -> Result<(), String> {
    let mut rules = Rules::of(view)?;
    rules.add(scratch, Rights::Write)?;
    for device in DEVICES {
        rules.add(Path::new(device), Rights::Write)?;
    }
    for fact in FACTS {
        rules.add(Path::new(fact), Rights::Read)?;
    }
    rules.enforce(view.has_network())
}

/// Returns `true` if this kernel can enforce all rules.
pub(crate) fn is_available() -> bool {
    ruleset(false).and_then(Ruleset::create).is_ok()
}

/// Takes all rights to files, sockets and other processes from this thread and those that it
/// starts.
pub(crate) fn confine_to_nothing() -> Result<(), String> {
    Rules::default().enforce(false)
}

fn ruleset(network: bool) -> Result<Ruleset, landlock::RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?;
    if network {
        return Ok(ruleset);
    }
    ruleset.handle_access(AccessNet::from_all(VERSION))
}

#[derive(Default)]
struct Rules {
    paths: Vec<(PathBuf, Rights)>,
}

impl Rules {
    fn of(view: &View) -> Result<Self, String> {
        let mut entries = view.with_system();
        // Only what is listed above is open in them.
        for folder in ["/proc", "/dev"] {
            entries.insert(folder.into(), PathAccess::Hidden);
        }
        let mut rules = Self::default();
        if view.base() == Base::Everything {
            rules.grant(Path::new("/"), Rights::Write, &entries)?;
        }
        for (path, access) in &entries {
            match access {
                PathAccess::ReadOnly => rules.grant(path, Rights::Read, &entries)?,
                PathAccess::ReadWrite => rules.grant(path, Rights::Write, &entries)?,
                // There is no private folder, only `TMPDIR`.
                PathAccess::Private | PathAccess::Hidden => {}
            }
        }
        Ok(rules)
    }

    /// Grants rights to `path` except what other entries decide about.
    fn grant(
        &mut self,
        path: &Path,
        rights: Rights,
        entries: &BTreeMap<PathBuf, PathAccess>,
    ) -> Result<(), String> {
        let inside = entries
            .iter()
            .filter(|(entry, _)| entry.starts_with(path) && *entry != path);
        let stricter = inside
            .map(|(_, access)| *access)
            .filter(|access| rights == Rights::Write || *access >= PathAccess::Private)
            .filter(|access| *access != PathAccess::ReadWrite)
            .max();
        let Some(strictest) = stricter else {
            return self.add(path, rights);
        };
        if strictest == PathAccess::ReadOnly {
            self.add(path, Rights::Read)?;
        }
        let Ok(children) = path.read_dir() else {
            return Ok(());
        };
        for child in children.filter_map(Result::ok) {
            let child = child.path();
            if !entries.contains_key(&child) && !child.is_symlink() {
                self.grant(&child, rights, entries)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, rights: Rights) -> Result<(), String> {
        if self.paths.len() >= MAX_RULES {
            return Err(format!(
                "more than {MAX_RULES} files lie beside protected ones"
            ));
        }
        self.paths.push((path.to_owned(), rights));
        Ok(())
    }

    fn enforce(self, network: bool) -> Result<(), String> {
        let status = self
            .restrict(network)
            .map_err(|error| format!("Landlock (Linux 6.12 or later) cannot be used: {error}"))?;
        match status {
            RulesetStatus::FullyEnforced => Ok(()),
            RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
                Err("Landlock (Linux 6.12 or later) is not enforced".to_owned())
            }
        }
    }

    fn restrict(&self, network: bool) -> Result<RulesetStatus, landlock::RulesetError> {
        let mut created = ruleset(network)?.create()?;
        for (path, rights) in &self.paths {
            // A path that is gone by now needs no rights.
            created = created.add_rules(path_beneath_rules([path], rights.bits()))?;
        }
        Ok(created.restrict_self()?.ruleset)
    }
}
