//! What a command may access.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{placeholder, system};

/// Access of a command to a path and everything beneath it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PathAccess {
    /// It can be read and written.
    ReadWrite,
    /// It can be read. It cannot be written, removed or renamed.
    ReadOnly,
    /// An empty folder is in its place, whose content ends with the command.
    Private,
    /// It can be neither read nor written.
    Hidden,
}

/// What a command sees before the entries of its view are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Base {
    /// The programs and settings of the system, read-only; and of the home folder the places of
    /// toolchains, read-only.
    System,
    /// Everything that the user of this process may access, except `/tmp` and `/run`, which are
    /// private.
    Everything,
}

/// What a command may access. Of two entries the deeper one decides, whatever their order; of two
/// entries for one path, the stricter one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct View {
    base: Base,
    network: bool,
    home: Option<PathBuf>,
    entries: BTreeMap<PathBuf, PathAccess>,
}

/// A path of the file system and the access to it, as the mechanism has to enforce it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) path: PathBuf,
    pub(crate) access: PathAccess,
}

impl View {
    /// Creates a view without network. `home` is the home folder of the user, private in a view of
    /// [`Base::System`].
    #[must_use]
    pub fn new(base: Base, home: Option<PathBuf>) -> Self {
        Self {
            base,
            network: false,
            home,
            entries: BTreeMap::new(),
        }
    }

    /// Grants the network of this computer, including its own services.
    #[must_use]
    pub fn with_network(self) -> Self {
        Self {
            network: true,
            ..self
        }
    }

    /// Sets the access to `path`, which has to be absolute and without links; other paths are
    /// ignored.
    pub fn set(&mut self, path: impl Into<PathBuf>, access: PathAccess) {
        let path = path.into();
        if path.is_absolute() {
            let entry = self.entries.entry(path).or_insert(access);
            *entry = access.max(*entry);
        }
    }

    /// Opens an existing path, with its links resolved. What is closed stays closed: an entry for the
    /// path or for one above it that hides it, or that is stricter for the same path.
    pub fn open(&mut self, path: &Path, access: PathAccess) {
        let Ok(path) = path.canonicalize() else {
            return;
        };
        let is_hidden = path
            .ancestors()
            .any(|path| self.entries.get(path) == Some(&PathAccess::Hidden));
        if !is_hidden {
            self.set(path, access);
        }
    }

    /// Returns `true` if commands have a network.
    #[must_use]
    pub fn has_network(&self) -> bool {
        self.network
    }

    /// Returns the base of the view.
    #[must_use]
    pub fn base(&self) -> Base {
        self.base
    }

    /// Returns the access to a path, which has to be absolute and without links.
    #[must_use]
    pub fn access(&self, path: &Path) -> PathAccess {
        let mounts = self.with_system();
        let deepest = path.ancestors().find_map(|path| mounts.get(path).copied());
        deepest.unwrap_or(match self.base {
            Base::Everything => PathAccess::ReadWrite,
            Base::System => PathAccess::Hidden,
        })
    }

    /// Returns the paths that the caller closed.
    pub fn hidden(&self) -> impl Iterator<Item = &Path> {
        self.entries
            .iter()
            .filter(|(_, access)| **access == PathAccess::Hidden)
            .map(|(path, _)| path.as_path())
    }

    /// Returns the protected and hidden paths that do not exist, in folders that are open for writing.
    pub(crate) fn missing(&self) -> Vec<PathBuf> {
        let is_open = |path: &Path| {
            let above = path.ancestors().skip(1);
            let deepest = above.filter_map(|path| self.entries.get(path)).next();
            deepest == Some(&PathAccess::ReadWrite)
        };
        self.entries
            .iter()
            .filter(|(path, access)| {
                matches!(access, PathAccess::ReadOnly | PathAccess::Hidden)
                    && is_open(path)
                    && (placeholder::is_in_use(path) || path.symlink_metadata().is_err())
            })
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Returns what has to be mounted, in this order: each path after its parents. Paths that do
    /// not exist are left out.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        let mut entries = self.with_system();
        entries.retain(|path, access| {
            *access == PathAccess::Private || path.exists() || placeholder::is_in_use(path)
        });
        let pins = self.pins(&entries);
        for pin in pins {
            entries.entry(pin).or_insert(PathAccess::ReadWrite);
        }
        let mut mounts: Vec<Mount> = entries
            .into_iter()
            .map(|(path, access)| Mount { path, access })
            .collect();
        mounts.sort_by_key(|mount| mount.path.components().count());
        mounts
    }

    /// Returns the entries, with those of the system where no entry of the view closes them.
    pub(crate) fn with_system(&self) -> BTreeMap<PathBuf, PathAccess> {
        let is_closed = |path: &Path| {
            path.ancestors()
                .any(|path| self.entries.get(path) == Some(&PathAccess::Hidden))
        };
        let mut entries = self.entries.clone();
        for (path, access) in system::entries(self.base, self.home.as_deref(), self.network) {
            if !is_closed(&path) {
                entries.entry(path).or_insert(access);
            }
        }
        entries
    }

    /// Returns the writable folders that lie above a closed or protected path. As a mount of its
    /// own, a folder cannot be renamed, and what is in it stays at its path.
    fn pins(&self, entries: &BTreeMap<PathBuf, PathAccess>) -> Vec<PathBuf> {
        let root_is_writable = self.base == Base::Everything;
        let mut pins = Vec::new();
        for (path, access) in entries {
            if *access == PathAccess::ReadWrite {
                continue;
            }
            let mut above = Vec::new();
            let mut is_writable = root_is_writable;
            for parent in path.ancestors().skip(1) {
                if let Some(access) = entries.get(parent) {
                    is_writable = *access == PathAccess::ReadWrite;
                    break;
                }
                above.push(parent);
            }
            if is_writable {
                let folders = above.into_iter().filter(|folder| folder.parent().is_some());
                pins.extend(folders.map(Path::to_owned));
            }
        }
        pins
    }
}
