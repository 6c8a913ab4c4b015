//! The path policy: which files tools may read, change and remove.
//!
//! Links are resolved first and the *result* is judged, component by component. Five kinds of roots
//! exist: the workspace and `allowed_paths` are open; `read_only_roots` are open for reading;
//! `protected_paths` can be read and never changed, with tools confined or not; `secret_paths` can
//! be neither; `closed_roots` are secret except where an open root lies in them. Roots are resolved
//! at every question, because they may be created, or turned into links, while the program runs.
//!
//! The answer is a [`ResolvedPath`], which opens the file without following any link, so that a link
//! swapped in after the check is an error and not an escape. A file with more than one name (a hard
//! link) is compared by device and inode with all secret and protected files. A program that a tool
//! starts is not bound by this policy; see the sandbox.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    beneath::ResolvedPath,
    denied::PathDenied,
    links::{self, FileId},
    roots::{beneath_denied, resolve},
    work,
};

/// Where programs keep credentials, below the home folder: for [`PathRules::secret_paths`].
pub const CREDENTIAL_PATHS: [&str; 14] = [
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
    "~/.local/share/keyrings",
    "~/.local/share/oauth-cli-kit",
];

/// What a [`PathPolicy`] is made from. Relative paths in it are taken from the workspace, and `~` is
/// the home folder.
#[derive(Debug, Clone)]
pub struct PathRules {
    /// The folder that relative paths start from, unless a conversation has one of its own.
    pub workspace: PathBuf,
    /// The home folder that `~` stands for; without one, `~` is an ordinary name.
    pub home: Option<PathBuf>,
    /// The folder of the working folders of conversations; without one, all of them work in the
    /// workspace.
    pub work_folders: Option<PathBuf>,
    /// Whether tools are confined to the workspace and the other open roots.
    pub restrict: bool,
    /// Further roots to read and write when `restrict` holds.
    pub allowed_paths: Vec<PathBuf>,
    /// Further roots to read when `restrict` holds; never written, in either case.
    pub read_only_roots: Vec<PathBuf>,
    /// Folders whose files are read by their full names only: neither they nor folders in them are
    /// listed or searched.
    pub unlisted_roots: Vec<PathBuf>,
    /// Files and folders that can be read and never changed.
    pub protected_paths: Vec<PathBuf>,
    /// Files and folders that are neither read nor changed.
    pub secret_paths: Vec<PathBuf>,
    /// Folders that are neither read nor changed, except below an open root that lies in one: the
    /// workspace, `allowed_paths` or `read_only_roots`. An open root that is, or holds, a closed
    /// folder does not open it.
    pub closed_roots: Vec<PathBuf>,
}

impl PathRules {
    /// Confined to `workspace`, nothing protected, the home folder of this process.
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

/// Decides which paths tools may touch.
#[derive(Debug, Clone)]
pub struct PathPolicy {
    rules: Arc<PathRules>,
    /// Folder in which relative paths start, if not the workspace.
    base: Option<Arc<Path>>,
}

/// The roots of one kind that concern one question, resolved.
struct Roots(Vec<PathBuf>);

impl Roots {
    fn hold(&self, path: &Path) -> bool {
        self.0.iter().any(|root| path.starts_with(root))
    }

    fn deny(&self, path: &Path) -> bool {
        self.0.iter().any(|root| beneath_denied(path, root))
    }

    fn lie_beneath(&self, path: &Path) -> bool {
        self.0.iter().any(|root| beneath_denied(root, path))
    }
}

/// The closed folders and what is open in them, resolved.
struct Closures {
    closed: Vec<PathBuf>,
    open: Vec<PathBuf>,
}

impl Closures {
    /// `true` if `path` lies in a closed folder and in no open root deeper than that.
    fn close(&self, path: &Path) -> bool {
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

impl PathPolicy {
    /// A policy by `rules`. A relative workspace is taken from the current folder.
    #[must_use]
    pub fn new(rules: PathRules) -> Self {
        let workspace = expand(&rules.workspace, rules.home.as_deref());
        let workspace = std::path::absolute(&workspace).unwrap_or(workspace);
        Self {
            rules: Arc::new(PathRules { workspace, ..rules }),
            base: None,
        }
    }

    /// The same policy with tools confined to the open roots, whatever this one says.
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

    /// The same policy for a conversation: where conversations have working folders, its relative
    /// paths start in its own, which is made if it is missing. Touches the disk then.
    ///
    /// # Errors
    /// The rule that closes the folder to tools, or [`PathDenied::Unresolvable`] where it cannot be
    /// made. It has to lie in an open root even where tools are not confined.
    pub fn within(&self, conversation: &str) -> Result<Self, PathDenied> {
        let Some(folders) = &self.rules.work_folders else {
            return Ok(self.clone());
        };
        let given = folders.join(work::folder_name(conversation));
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

    /// The folder of everything, as configured: absolute, links not resolved.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.rules.workspace
    }

    /// The folder that relative paths start from: the workspace, or the working folder of a
    /// conversation.
    #[must_use]
    pub fn base(&self) -> &Path {
        self.base.as_deref().unwrap_or(&self.rules.workspace)
    }

    /// The home folder that `~` stands for.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.rules.home.as_deref()
    }

    /// Whether tools are confined to the open roots.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        self.rules.restrict
    }

    /// May a tool read or list `path`?
    ///
    /// # Errors
    /// The rule that says no. That nothing is there is not a reason: opening says so.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathDenied> {
        let given = path.as_ref();
        let resolved = self.locate(given)?;
        self.open_to_reading(given, &resolved)?;
        if self.roots(&self.rules.unlisted_roots).hold(&resolved) && resolved.is_dir() {
            return Err(PathDenied::Unlisted {
                path: given.display().to_string(),
            });
        }
        if let Some(file) = FileId::of_shared(&resolved) {
            self.reveals_no_secret(given, file)?;
        }
        Ok(ResolvedPath::new(resolved, self.clone()))
    }

    /// May a tool create or change `path`?
    ///
    /// # Errors
    /// The rule that says no.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathDenied> {
        let given = path.as_ref();
        let resolved = self.locate(given)?;
        self.open_to_writing(given, &resolved)?;
        if let Some(file) = FileId::of_shared(&resolved) {
            self.changes_nothing_fenced(given, file)?;
        }
        Ok(ResolvedPath::new(resolved, self.clone()))
    }

    /// May a tool remove or rename `path`, with everything in it? Unlike [`write`](Self::write) this
    /// is about the entry itself when it is a link, and it is refused where a protected or secret
    /// path, or the workspace, lies in it.
    ///
    /// # Errors
    /// The rule that says no.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathDenied> {
        let given = path.as_ref();
        let entry = self.locate_entry(given)?;
        self.open_to_writing(given, &entry)?;
        let path = || given.display().to_string();
        let secret = [&self.rules.secret_paths, &self.rules.closed_roots];
        if secret
            .into_iter()
            .any(|rules| self.roots(rules).lie_beneath(&entry))
        {
            return Err(PathDenied::Secret { path: path() });
        }
        let pinned = self.roots(&self.rules.protected_paths);
        if pinned.lie_beneath(&entry) || self.workspace_root().lie_beneath(&entry) {
            return Err(PathDenied::Protected { path: path() });
        }
        Ok(ResolvedPath::new(entry, self.clone()))
    }

    fn open_to_reading(&self, given: &Path, resolved: &Path) -> Result<(), PathDenied> {
        if self.roots(&self.rules.secret_paths).deny(resolved) || self.closures().close(resolved) {
            return Err(PathDenied::Secret {
                path: given.display().to_string(),
            });
        }
        let open = !self.rules.restrict
            || self.workspace_root().hold(resolved)
            || self.roots(&self.rules.allowed_paths).hold(resolved)
            || self.roots(&self.rules.read_only_roots).hold(resolved);
        if open {
            Ok(())
        } else {
            Err(self.outside(given))
        }
    }

    fn open_to_writing(&self, given: &Path, resolved: &Path) -> Result<(), PathDenied> {
        let path = || given.display().to_string();
        self.open_to_reading(given, resolved)?;
        if self.roots(&self.rules.protected_paths).deny(resolved) {
            return Err(PathDenied::Protected { path: path() });
        }
        if self.roots(&self.rules.read_only_roots).deny(resolved) {
            return Err(PathDenied::ReadOnly { path: path() });
        }
        Ok(())
    }

    /// Refuses `file`, a file with several names, if one of them is secret.
    ///
    /// # Errors
    /// [`PathDenied::Secret`], also where there are too many files to compare.
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

    /// Refuses `file`, a file with several names, if one of them is secret or protected.
    ///
    /// # Errors
    /// [`PathDenied::Secret`] or [`PathDenied::Protected`], also where there are too many files to
    /// compare.
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

    /// The closed folders, and the open roots that lie in them.
    fn closures(&self) -> Closures {
        let closed = self.roots(&self.rules.closed_roots).0;
        if closed.is_empty() {
            return Closures {
                closed,
                open: Vec::new(),
            };
        }
        // Only the operator moves the workspace. Any other root has to be written as one inside a
        // closed folder, so that no link elsewhere opens a part of it.
        let lies_inside = |root: &&PathBuf| {
            let written = self.written(root);
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
        Closures { closed, open }
    }

    fn outside(&self, given: &Path) -> PathDenied {
        PathDenied::Outside {
            path: given.display().to_string(),
            allowed: self.rules.workspace.clone(),
        }
    }

    /// Where `given` leads, if it is a place where files can be.
    fn locate(&self, given: &Path) -> Result<PathBuf, PathDenied> {
        let absolute = self.absolute(given)?;
        let path = || given.display().to_string();
        let resolved = resolve(&absolute).map_err(|source| PathDenied::Unresolvable {
            path: path(),
            source,
        })?;
        if resolved.through_kernel || is_special(&resolved.path) {
            return Err(PathDenied::Special { path: path() });
        }
        Ok(resolved.path)
    }

    /// Where the entry named `given` is, its own link not followed.
    fn locate_entry(&self, given: &Path) -> Result<PathBuf, PathDenied> {
        let absolute = self.absolute(given)?;
        match (absolute.parent(), absolute.file_name()) {
            (Some(parent), Some(name)) => Ok(self.locate(parent)?.join(name)),
            _ => self.locate(&absolute),
        }
    }

    fn absolute(&self, given: &Path) -> Result<PathBuf, PathDenied> {
        if given.as_os_str().is_empty() || given.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(PathDenied::Malformed);
        }
        if cfg!(windows) && has_windows_alias(given) {
            return Err(PathDenied::Malformed);
        }
        Ok(self.base().join(expand(given, self.rules.home.as_deref())))
    }

    fn workspace_root(&self) -> Roots {
        self.roots(std::slice::from_ref(&self.rules.workspace))
    }

    /// Each root as it is written and as it resolves: a link that is protected is so at both ends.
    fn roots(&self, rules: &[PathBuf]) -> Roots {
        let mut roots = Vec::with_capacity(rules.len() * 2);
        for root in rules.iter().filter(|root| !root.as_os_str().is_empty()) {
            let written = self.written(root);
            match resolve(&written) {
                Ok(resolved) => roots.extend([resolved.path, written]),
                Err(_) => roots.push(written),
            }
        }
        Roots(roots)
    }

    /// A root of the rules as an absolute path.
    fn written(&self, root: &Path) -> PathBuf {
        self.rules
            .workspace
            .join(expand(root, self.rules.home.as_deref()))
    }
}

/// `path` with a leading `~` replaced by the home folder.
fn expand(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Whether something other than a file or folder is at `path`, or the whole place is not for files.
fn is_special(path: &Path) -> bool {
    let device = cfg!(unix) && path.starts_with("/dev") && !path.starts_with("/dev/shm");
    let odd = path
        .symlink_metadata()
        .is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir() && !metadata.is_symlink());
    device || odd
}

/// Whether a component has a second spelling on Windows: a stream (`a:b`), a trailing dot or space.
fn has_windows_alias(path: &Path) -> bool {
    path.components().any(|component| match component {
        std::path::Component::Normal(name) => {
            let name = name.to_string_lossy();
            name.contains(':') || name.ends_with(['.', ' '])
        }
        _ => false,
    })
}
