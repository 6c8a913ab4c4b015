//! One check of the path policy, for which the roots are resolved as they are at that moment.

use std::{
    cell::RefCell,
    io,
    path::{Path, PathBuf},
};

use crate::{
    denied::PathDenied,
    links::{self, FileId},
    path::{PathPolicy, PathRules},
    roots::{PathLookup, Resolved, beneath_denied},
};

/// The resolved roots of one kind.
pub(crate) struct Roots(Vec<PathBuf>);

impl Roots {
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.0.iter().any(|root| path.starts_with(root))
    }

    pub(crate) fn denies(&self, path: &Path) -> bool {
        self.0.iter().any(|root| beneath_denied(path, root))
    }

    pub(crate) fn are_beneath(&self, path: &Path) -> bool {
        self.0.iter().any(|root| beneath_denied(root, path))
    }
}

/// The closed folders and the open roots inside them, resolved.
pub(crate) struct ClosedRoots {
    closed: Vec<PathBuf>,
    open: Vec<PathBuf>,
}

impl ClosedRoots {
    /// Returns `true` if `path` lies in a closed folder and in no deeper open root.
    pub(crate) fn close(&self, path: &Path) -> bool {
        let depth = |root: &PathBuf| root.components().count();
        let closed = self
            .closed
            .iter()
            .filter(|root| beneath_denied(path, root))
            .map(depth)
            .max();
        let open = self
            .open
            .iter()
            .filter(|root| path.starts_with(root))
            .map(depth)
            .max();
        closed.is_some_and(|closed| open.is_none_or(|open| open <= closed))
    }
}

/// A check of one path. All that it resolves is resolved as of the same moment.
pub(crate) struct PathCheck<'a> {
    policy: &'a PathPolicy,
    rules: &'a PathRules,
    lookup: RefCell<PathLookup>,
}

impl<'a> PathCheck<'a> {
    pub(crate) fn new(policy: &'a PathPolicy) -> Self {
        Self {
            policy,
            rules: policy.rules(),
            lookup: RefCell::default(),
        }
    }

    /// Resolves all links of an absolute path.
    pub(crate) fn resolve(&self, path: &Path) -> io::Result<Resolved> {
        self.lookup.borrow_mut().resolve(path)
    }

    pub(crate) fn open_to_reading(&self, given: &Path, resolved: &Path) -> Result<(), PathDenied> {
        if self.roots(&self.rules.secret_paths).denies(resolved) || self.closures().close(resolved)
        {
            return Err(PathDenied::Secret {
                path: given.display().to_string(),
            });
        }
        let open = !self.rules.restrict
            || self.workspace_root().contains(resolved)
            || self.roots(&self.rules.allowed_paths).contains(resolved)
            || self.roots(&self.rules.read_only_roots).contains(resolved);
        if open {
            Ok(())
        } else {
            Err(self.outside(given))
        }
    }

    pub(crate) fn open_to_writing(&self, given: &Path, resolved: &Path) -> Result<(), PathDenied> {
        let path = || given.display().to_string();
        self.open_to_reading(given, resolved)?;
        if self.roots(&self.rules.protected_paths).denies(resolved) {
            return Err(PathDenied::Protected { path: path() });
        }
        if self.roots(&self.rules.read_only_roots).denies(resolved) {
            return Err(PathDenied::ReadOnly { path: path() });
        }
        Ok(())
    }

    /// Refuses `file`, which has several names, if one of them is secret.
    ///
    /// # Errors
    /// Returns [`PathDenied::Secret`], also if there are too many files to compare.
    pub(crate) fn reveals_no_secret(&self, given: &Path, file: FileId) -> Result<(), PathDenied> {
        let closures = self.closures();
        let secret = links::is_below(file, &self.roots(&self.rules.secret_paths).0, |_| true)
            || links::is_below(file, &closures.closed, |path| closures.close(path));
        if secret {
            Err(PathDenied::Secret {
                path: given.display().to_string(),
            })
        } else {
            Ok(())
        }
    }

    /// Refuses `file`, which has several names, if one of them is secret or protected.
    ///
    /// # Errors
    /// Returns [`PathDenied::Secret`] or [`PathDenied::Protected`], also if there are too many
    /// files to compare.
    pub(crate) fn changes_nothing_fenced(
        &self,
        given: &Path,
        file: FileId,
    ) -> Result<(), PathDenied> {
        self.reveals_no_secret(given, file)?;
        let protected = links::is_below(file, &self.roots(&self.rules.protected_paths).0, |_| true);
        if protected {
            Err(PathDenied::Protected {
                path: given.display().to_string(),
            })
        } else {
            Ok(())
        }
    }

    /// Returns the closed folders, and the open roots inside them.
    pub(crate) fn closures(&self) -> ClosedRoots {
        let closed = self.roots(&self.rules.closed_roots).0;
        if closed.is_empty() {
            return ClosedRoots {
                closed,
                open: Vec::new(),
            };
        }
        // Only the operator moves the workspace. Any other root must lie in the closed folder as it
        // is written, before links are resolved, so that no link elsewhere opens a part of it.
        let lies_inside = |root: &&PathBuf| {
            let written = self.policy.expanded(root);
            closed.iter().any(|folder| beneath_denied(&written, folder))
        };
        let others = self
            .rules
            .allowed_paths
            .iter()
            .chain(&self.rules.read_only_roots);
        let inside: Vec<PathBuf> = others.filter(lies_inside).cloned().collect();
        let open = self
            .workspace_root()
            .0
            .into_iter()
            .chain(self.roots(&inside).0)
            .collect();
        ClosedRoots { closed, open }
    }

    fn outside(&self, given: &Path) -> PathDenied {
        PathDenied::Outside {
            path: given.display().to_string(),
            allowed: self.rules.workspace.clone(),
        }
    }

    /// Resolves `given`, and refuses devices and kernel interfaces.
    pub(crate) fn locate(&self, given: &Path) -> Result<PathBuf, PathDenied> {
        let absolute = self.policy.absolute(given)?;
        let path = || given.display().to_string();
        let resolved = self
            .resolve(&absolute)
            .map_err(|source| PathDenied::Unresolvable {
                path: path(),
                source,
            })?;
        if resolved.through_kernel || is_special(&resolved.path) {
            return Err(PathDenied::Special { path: path() });
        }
        Ok(resolved.path)
    }

    /// Resolves the parent of `given`, without following the entry's own link.
    pub(crate) fn locate_entry(&self, given: &Path) -> Result<PathBuf, PathDenied> {
        let absolute = self.policy.absolute(given)?;
        match (absolute.parent(), absolute.file_name()) {
            (Some(parent), Some(name)) => Ok(self.locate(parent)?.join(name)),
            _ => self.locate(&absolute),
        }
    }

    pub(crate) fn workspace_root(&self) -> Roots {
        self.roots(std::slice::from_ref(&self.rules.workspace))
    }

    /// Returns each root both as written and as resolved, so that a protected link is protected at
    /// both ends.
    pub(crate) fn roots(&self, rules: &[PathBuf]) -> Roots {
        let mut roots = Vec::with_capacity(rules.len() * 2);
        for root in rules.iter().filter(|root| !root.as_os_str().is_empty()) {
            let written = self.policy.expanded(root);
            match self.resolve(&written) {
                Ok(resolved) => roots.extend([resolved.path, written]),
                Err(_) => roots.push(written),
            }
        }
        Roots(roots)
    }
}

/// Returns `true` if something other than a file or folder is at `path`, or if it lies below
/// `/dev`.
fn is_special(path: &Path) -> bool {
    let device = cfg!(unix) && path.starts_with("/dev") && !path.starts_with("/dev/shm");
    let odd = path
        .symlink_metadata()
        .is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir() && !metadata.is_symlink());
    device || odd
}
