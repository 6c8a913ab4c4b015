//! Resolves a path as the kernel would, including paths that do not exist yet.
//!
//! `std::fs::canonicalize` refuses missing files, but a check before creating a file needs to know
//! where the *new* file would be. So links are followed here, component by component. Missing
//! components are kept as written, and a `..` after one removes it. Paths are compared by
//! component, never as text: `/ws2` is not beneath `/ws`.

use std::{
    collections::{HashMap, VecDeque},
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
};

/// Maximum number of links followed, as on Linux.
const MAX_LINKS: usize = 40;

/// A path with its links resolved.
#[derive(Clone, Default)]
pub(crate) struct Resolved {
    /// The path without links, `.` and `..`.
    pub(crate) path: PathBuf,
    /// `true` if the path led through `/proc` or `/sys`, whose links do not behave as ordinary
    /// links.
    pub(crate) through_kernel: bool,
    /// Number of links that were followed.
    links: usize,
}

/// One component that is still to be resolved.
enum PendingComponent {
    Anchor(OsString),
    Parent,
    Name(OsString),
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = PendingComponent> {
    path.components().filter_map(|component| match component {
        Component::Prefix(_) | Component::RootDir => {
            Some(PendingComponent::Anchor(component.as_os_str().to_owned()))
        }
        Component::CurDir => None,
        Component::ParentDir => Some(PendingComponent::Parent),
        Component::Normal(name) => Some(PendingComponent::Name(name.to_owned())),
    })
}

/// Resolves paths as they are during one check: each component is looked up once, however many
/// paths share it, and each folder is resolved once.
#[derive(Default)]
pub(crate) struct PathLookup {
    /// Folders as they are written, with what they resolve to.
    folders: HashMap<PathBuf, Resolved>,
    /// Targets of the links found, and `None` for everything else.
    targets: HashMap<PathBuf, Option<PathBuf>>,
}

impl PathLookup {
    /// Resolves all links of the absolute path `path`.
    pub(crate) fn resolve(&mut self, path: &Path) -> io::Result<Resolved> {
        let mut components = path.components();
        let Some(last) = components.next_back() else {
            return Ok(Resolved::default());
        };
        let folder = components.as_path();
        let resolved = match self.folders.get(folder) {
            Some(resolved) => resolved.clone(),
            None => {
                let resolved = self.resolve_from(Resolved::default(), folder)?;
                self.folders.insert(folder.to_owned(), resolved.clone());
                resolved
            }
        };
        self.resolve_from(resolved, last.as_ref())
    }

    /// Resolves `path` in the folder `resolved`.
    fn resolve_from(&mut self, mut resolved: Resolved, path: &Path) -> io::Result<Resolved> {
        let mut pending: VecDeque<PendingComponent> = steps(path).collect();
        while let Some(step) = pending.pop_front() {
            match step {
                PendingComponent::Anchor(anchor) => resolved.path.push(anchor),
                PendingComponent::Parent => {
                    resolved.path.pop();
                }
                PendingComponent::Name(name) => {
                    let candidate = resolved.path.join(name);
                    resolved.through_kernel |= is_kernel(&candidate);
                    match self.target(&candidate)? {
                        None => resolved.path = candidate,
                        Some(target) => {
                            resolved.links += 1;
                            if resolved.links > MAX_LINKS {
                                return Err(io::Error::other("too many symbolic links"));
                            }
                            for step in steps(target).rev() {
                                pending.push_front(step);
                            }
                        }
                    }
                }
            }
        }
        Ok(resolved)
    }

    fn target(&mut self, path: &Path) -> io::Result<Option<&Path>> {
        if !self.targets.contains_key(path) {
            self.targets.insert(path.to_owned(), link_target(path)?);
        }
        Ok(self.targets.get(path).and_then(Option::as_deref))
    }
}

/// Returns the target of `path` if it is a link; `None` if it is anything else or missing.
fn link_target(path: &Path) -> io::Result<Option<PathBuf>> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => path.read_link().map(Some),
        Ok(_) => Ok(None),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_kernel(path: &Path) -> bool {
    cfg!(unix) && ["/proc", "/sys"].iter().any(|root| path.starts_with(root))
}

/// Returns `true` if `path` is `root` or lies beneath it, for rules that *deny*: case is ignored on
/// platforms whose file systems usually ignore it.
pub(crate) fn beneath_denied(path: &Path, root: &Path) -> bool {
    if !cfg!(any(windows, target_os = "macos")) {
        return path.starts_with(root);
    }
    let mut components = path.components();
    root.components().all(|expected| {
        components.next().is_some_and(|found| {
            let (found, expected) = (found.as_os_str(), expected.as_os_str());
            found.to_string_lossy().to_lowercase() == expected.to_string_lossy().to_lowercase()
        })
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// If the kernel can resolve a path, our result is the same.
    #[test]
    fn resolution_agrees_with_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::write(base.join("a/file"), "").unwrap();
        symlink("a/b", base.join("down")).unwrap();
        symlink("..", base.join("a/up")).unwrap();
        symlink(base.join("a"), base.join("a/b/absolute")).unwrap();
        symlink("down/../file", base.join("through")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        symlink("missing", base.join("dangling")).unwrap();
        let names = [
            "a", "b", "down", "up", "absolute", "through", "loop", "dangling", "file", "..", ".",
        ];
        let mut lookup = PathLookup::default();
        let mut compared = 0;
        for code in 0..names.len().pow(4) {
            let steps = (0..4).map(|place| names[code / names.len().pow(place) % names.len()]);
            let path = steps.fold(base.clone(), |path, step| path.join(step));
            if let Ok(expected) = path.canonicalize() {
                assert_eq!(
                    lookup.resolve(&path).unwrap().path,
                    expected,
                    "{}",
                    path.display()
                );
                compared += 1;
            }
        }
        assert!(compared > 100, "{compared}");
        assert!(lookup.resolve(&base.join("loop")).is_err());
        assert_eq!(
            lookup.resolve(&base.join("dangling/x/../y")).unwrap().path,
            base.join("missing/y")
        );
    }
}
