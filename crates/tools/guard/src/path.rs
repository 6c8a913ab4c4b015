//! The path policy: which files tools may read, change and remove.
//!
//! Links are resolved first and the *result* is checked, component by component. There are five
//! kinds of roots: the workspace and `allowed_paths` are open; `read_only_roots` are open for
//! reading; `protected_paths` can be read but never changed, even if tools are not confined;
//! `secret_paths` can be neither read nor changed; `closed_roots` are secret except where an open
//! root lies in them. Roots are resolved at every check, because they may be created, or turned
//! into links, while the program runs.
//!
//! The result is a [`ResolvedPath`], which opens the file without following any link, so that a
//! link swapped in after the check is an error and not an escape. A file with more than one name (a
//! hard link) is compared by device and inode with all secret and protected files. A program
//! started by a tool is not bound by this policy; see the sandbox.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    beneath::ResolvedPath, check::PathCheck, denied::PathDenied, links::FileId, work_folder,
};

/// Common locations of credentials below the home folder, for [`PathRules::secret_paths`].
pub const CREDENTIAL_PATHS: [&str; 15] = [
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.azure",
    "~/.kube",
    "~/.docker/config.json",
    "~/.netrc",
    "~/.git-credentials",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.config/litellm",
    "~/.codex/auth.json",
    "~/.grok/auth.json",
    "~/.local/share/keyrings",
    "~/.local/share/oauth-cli-kit",
];

/// Rules of a [`PathPolicy`]. Relative paths are resolved against the workspace, and `~` is the
/// home folder.
#[derive(Debug, Clone)]
pub struct PathRules {
    /// The folder that relative paths are resolved against, unless a conversation has its own.
    pub workspace: PathBuf,
    /// The home folder, which replaces `~`. If `None`, `~` is an ordinary name.
    pub home: Option<PathBuf>,
    /// Parent of the conversations' working folders. If `None`, all conversations work in the
    /// workspace.
    pub work_folders: Option<PathBuf>,
    /// `true` if tools are confined to the workspace and the other open roots.
    pub restrict: bool,
    /// Further roots to read and write if `restrict` is set.
    pub allowed_paths: Vec<PathBuf>,
    /// Further roots to read if `restrict` is set; never written, in either case.
    pub read_only_roots: Vec<PathBuf>,
    /// Folders whose files can only be read by their full names: neither they nor folders in them
    /// can be listed or searched.
    pub unlisted_roots: Vec<PathBuf>,
    /// Files and folders that can be read but never changed.
    pub protected_paths: Vec<PathBuf>,
    /// Files and folders that can be neither read nor changed.
    pub secret_paths: Vec<PathBuf>,
    /// Folders that can be neither read nor changed, except below an open root inside one: the
    /// workspace, `allowed_paths` or `read_only_roots`. An open root that is, or contains, a closed
    /// folder does not open it.
    pub closed_roots: Vec<PathBuf>,
}

impl PathRules {
    /// Creates rules that confine tools to `workspace`, protect nothing, and use the home folder of
    /// this process.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            home: std::env::home_dir(),
            work_folders: None,
            restrict: true,
            allowed_paths: Vec::new(),
            read_only_roots: Vec::new(),
            unlisted_roots: Vec::new(),
            protected_paths: Vec::new(),
            secret_paths: Vec::new(),
            closed_roots: Vec::new(),
        }
    }
}

/// Decides which paths tools may access.
#[derive(Debug, Clone)]
pub struct PathPolicy {
    rules: Arc<PathRules>,
    /// Folder that relative paths are resolved against, if not the workspace.
    base: Option<Arc<Path>>,
}

/// Access of processes to a root and everything beneath it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RootAccess {
    /// It can be read and written.
    Write,
    /// It can be read.
    Read,
    /// It can be read, and must stay at its path.
    Protected,
    /// It can be neither read nor written.
    Closed,
}

/// What processes that tools start may access: the rules of a policy for a sandbox.
#[derive(Debug, Clone)]
pub struct Confinement {
    /// `true` if nothing but the roots is open. Otherwise everything is, except closed roots, and
    /// read-only ones for writing.
    pub is_restricted: bool,
    /// The home folder.
    pub home: Option<PathBuf>,
    /// The roots, absolute and without links.
    pub roots: BTreeMap<PathBuf, RootAccess>,
}

impl PathPolicy {
    /// Creates a policy from `rules`. A relative workspace is resolved against the current folder.
    #[must_use]
    pub fn new(rules: PathRules) -> Self {
        let workspace = expand(&rules.workspace, rules.home.as_deref());
        let workspace = std::path::absolute(&workspace).unwrap_or(workspace);
        Self {
            rules: Arc::new(PathRules { workspace, ..rules }),
            base: None,
        }
    }

    /// Returns the same policy with tools confined to the open roots.
    #[must_use]
    pub fn confined(&self) -> Self {
        Self {
            rules: Arc::new(PathRules {
                restrict: true,
                ..(*self.rules).clone()
            }),
            base: self.base.clone(),
        }
    }

    /// Returns the same policy for a conversation. If conversations have working folders, relative
    /// paths are resolved against the conversation's own, which is created if it is missing. This
    /// accesses the disk.
    ///
    /// # Errors
    /// Returns the rule that closes the folder to tools, or [`PathDenied::Unresolvable`] if it
    /// cannot be created. The folder has to lie in an open root even if tools are not confined.
    pub fn within(&self, conversation: &str) -> Result<Self, PathDenied> {
        let Some(folders) = &self.rules.work_folders else {
            return Ok(self.clone());
        };
        let given = folders.join(work_folder::folder_name(conversation));
        let folder = self.confined().write(&given)?;
        let unusable = |source| PathDenied::Unresolvable {
            path: given.display().to_string(),
            source,
        };
        folder.create_folder().map_err(unusable)?;
        Ok(Self {
            rules: Arc::clone(&self.rules),
            base: Some(folder.path().into()),
        })
    }

    /// Returns the workspace as configured: absolute, with links not resolved.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.rules.workspace
    }

    /// Returns the folder that relative paths are resolved against: the workspace, or the working
    /// folder of a conversation.
    #[must_use]
    pub fn base(&self) -> &Path {
        self.base.as_deref().unwrap_or(&self.rules.workspace)
    }

    /// Returns the home folder, which replaces `~`.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.rules.home.as_deref()
    }

    /// Returns a path of a configuration as an absolute one: `~` is the home folder, and a relative
    /// path is in the workspace.
    #[must_use]
    pub fn expanded(&self, path: &Path) -> PathBuf {
        self.rules
            .workspace
            .join(expand(path, self.rules.home.as_deref()))
    }

    /// Returns `true` if tools are confined to the open roots.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        self.rules.restrict
    }

    /// Checks that a tool may read or list `path`.
    ///
    /// # Errors
    /// Returns the rule that denies it. A missing file is no error here, but when it is opened.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathDenied> {
        let (given, check) = (path.as_ref(), PathCheck::new(self));
        let resolved = check.locate(given)?;
        check.open_to_reading(given, &resolved)?;
        if check.roots(&self.rules.unlisted_roots).contains(&resolved) && resolved.is_dir() {
            return Err(PathDenied::Unlisted {
                path: given.display().to_string(),
            });
        }
        if let Some(file) = FileId::of_shared(&resolved) {
            check.reveals_no_secret(given, file)?;
        }
        Ok(ResolvedPath::new(resolved, self.clone()))
    }

    /// Checks that a tool may create or change `path`.
    ///
    /// # Errors
    /// Returns the rule that denies it.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathDenied> {
        let (given, check) = (path.as_ref(), PathCheck::new(self));
        let resolved = check.locate(given)?;
        check.open_to_writing(given, &resolved)?;
        if let Some(file) = FileId::of_shared(&resolved) {
            check.changes_nothing_fenced(given, file)?;
        }
        Ok(ResolvedPath::new(resolved, self.clone()))
    }

    /// Checks that a tool may remove or rename `path`, with everything in it. Unlike
    /// [`write`](Self::write) this applies to the link itself if the entry is one. It is denied if
    /// the entry contains a protected or secret path, or the workspace.
    ///
    /// # Errors
    /// Returns the rule that denies it.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathDenied> {
        let (given, check) = (path.as_ref(), PathCheck::new(self));
        let entry = check.locate_entry(given)?;
        check.open_to_writing(given, &entry)?;
        let path = || given.display().to_string();
        let secret = [&self.rules.secret_paths, &self.rules.closed_roots];
        if secret
            .into_iter()
            .any(|rules| check.roots(rules).are_beneath(&entry))
        {
            return Err(PathDenied::Secret { path: path() });
        }
        let pinned = check.roots(&self.rules.protected_paths);
        if pinned.are_beneath(&entry) || check.workspace_root().are_beneath(&entry) {
            return Err(PathDenied::Protected { path: path() });
        }
        Ok(ResolvedPath::new(entry, self.clone()))
    }

    /// Returns the roots for a sandbox of processes, resolved as they are now. Of two roots the
    /// deeper one decides; of two for one path, the stricter one.
    ///
    /// Roots that can only be read by full names are left out: a process could list them.
    #[must_use]
    pub fn confinement(&self) -> Confinement {
        let check = PathCheck::new(self);
        let closures = check.closures();
        let secret = check.roots(&self.rules.secret_paths);
        let mut roots = BTreeMap::new();
        let mut add = |rules: &[PathBuf], access: RootAccess| {
            for root in rules.iter().filter(|root| !root.as_os_str().is_empty()) {
                let Ok(resolved) = check.resolve(&self.expanded(root)) else {
                    continue;
                };
                let path = resolved.path;
                let is_open = access != RootAccess::Closed;
                if is_open && (secret.denies(&path) || closures.close(&path)) {
                    continue;
                }
                // To protect a path does not open it.
                let opens = access != RootAccess::Protected || !self.rules.restrict;
                if !opens && !path.ancestors().any(|above| roots.contains_key(above)) {
                    continue;
                }
                let entry = roots.entry(path).or_insert(access);
                *entry = access.max(*entry);
            }
        };
        add(
            std::slice::from_ref(&self.rules.workspace),
            RootAccess::Write,
        );
        add(&self.rules.allowed_paths, RootAccess::Write);
        let listed: Vec<PathBuf> = self
            .rules
            .read_only_roots
            .iter()
            .filter(|root| !self.rules.unlisted_roots.contains(root))
            .cloned()
            .collect();
        add(&listed, RootAccess::Read);
        add(&self.rules.unlisted_roots, RootAccess::Closed);
        add(&self.rules.protected_paths, RootAccess::Protected);
        add(&self.rules.secret_paths, RootAccess::Closed);
        add(&self.rules.closed_roots, RootAccess::Closed);
        Confinement {
            is_restricted: self.rules.restrict,
            home: self.rules.home.clone(),
            roots,
        }
    }

    pub(crate) fn rules(&self) -> &PathRules {
        &self.rules
    }

    /// Returns a path of a tool as an absolute one.
    pub(crate) fn absolute(&self, given: &Path) -> Result<PathBuf, PathDenied> {
        if given.as_os_str().is_empty() || given.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(PathDenied::Malformed);
        }
        if cfg!(windows) && has_windows_alias(given) {
            return Err(PathDenied::Malformed);
        }
        Ok(self.base().join(expand(given, self.rules.home.as_deref())))
    }
}

/// Replaces a leading `~` by the home folder.
fn expand(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Returns `true` if a component has a second spelling on Windows: a stream (`a:b`), or a trailing
/// dot or space.
fn has_windows_alias(path: &Path) -> bool {
    path.components().any(|component| match component {
        std::path::Component::Normal(name) => {
            let name = name.to_string_lossy();
            name.contains(':') || name.ends_with(['.', ' '])
        }
        _ => false,
    })
}
