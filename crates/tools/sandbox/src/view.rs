//! What a command may access.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::system;

/// Access of a command to a path and everything beneath it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
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
    entries: BTreeMap<PathBuf, Access>,
}

/// A path of the file system and the access to it, as the mechanism has to enforce it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
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
    pub fn set(&mut self, path: impl Into<PathBuf>, access: Access) {
        let path = path.into();
        if path.is_absolute() {
            let entry = self.entries.entry(path).or_insert(access);
            *entry = access.max(*entry);
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
    pub fn access(&self, path: &Path) -> Access {
        let mounts = self.with_system();
        let deepest = path.ancestors().find_map(|path| mounts.get(path).copied());
        deepest.unwrap_or(match self.base {
            Base::Everything => Access::ReadWrite,
            Base::System => Access::Hidden,
        })
    }

    /// Returns the paths that the caller closed.
    pub fn hidden(&self) -> impl Iterator<Item = &Path> {
        self.entries
            .iter()
            .filter(|(_, access)| **access == Access::Hidden)
            .map(|(path, _)| path.as_path())
    }

    /// Returns what has to be mounted, in this order: each path after its parents. Paths that do
    /// not exist are left out.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        let mut entries = self.with_system();
        entries.retain(|path, access| *access == Access::Private || path.exists());
        let pins = self.pins(&entries);
        for pin in pins {
            entries.entry(pin).or_insert(Access::ReadWrite);
        }
        let mut mounts: Vec<Mount> = entries
            .into_iter()
            .map(|(path, access)| Mount { path, access })
            .collect();
        mounts.sort_by_key(|mount| mount.path.components().count());
        mounts
    }

    /// Returns the entries, with those of the system where no entry of the view closes them.
    pub(crate) fn with_system(&self) -> BTreeMap<PathBuf, Access> {
        let is_closed = |path: &Path| {
            path.ancestors()
                .any(|path| self.entries.get(path) == Some(&Access::Hidden))
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
    fn pins(&self, entries: &BTreeMap<PathBuf, Access>) -> Vec<PathBuf> {
        let root_is_writable = self.base == Base::Everything;
        let mut pins = Vec::new();
        for (path, access) in entries {
            if *access == Access::ReadWrite {
                continue;
            }
            let mut above = Vec::new();
            let mut is_writable = root_is_writable;
            for parent in path.ancestors().skip(1) {
                if let Some(access) = entries.get(parent) {
                    is_writable = *access == Access::ReadWrite;
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
