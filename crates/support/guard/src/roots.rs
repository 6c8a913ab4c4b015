//! Resolving a path the way the kernel would, for paths that need not exist yet.
//!
//! `std::fs::canonicalize` refuses what does not exist, and a tool has to be told where a *new* file
//! would end up. So links are followed here, component by component; what is missing is taken as
//! written, and a `..` after it goes back up. The comparison is by component, never by text: `/ws2`
//! is not beneath `/ws`.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
};

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;

/// Where an absolute path leads.
pub(crate) struct Resolved {
    /// The path without links, `.` and `..`.
    pub(crate) path: PathBuf,
    /// Whether the way there led through `/proc` or `/sys`, whose links are not what they seem.
    pub(crate) through_kernel: bool,
}

/// One step still to take.
enum Step {
    Anchor(OsString),
    Parent,
    Name(OsString),
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::Prefix(_) | Component::RootDir => {
            Some(Step::Anchor(component.as_os_str().to_owned()))
        }
        Component::CurDir => None,
        Component::ParentDir => Some(Step::Parent),
        Component::Normal(name) => Some(Step::Name(name.to_owned())),
    })
}

/// Follows every link of the absolute path `path`.
pub(crate) fn resolve(path: &Path) -> io::Result<Resolved> {
    let mut pending: VecDeque<Step> = steps(path).collect();
    let mut resolved = Resolved {
        path: PathBuf::new(),
        through_kernel: false,
    };
    let mut links = 0;
    while let Some(step) = pending.pop_front() {
        match step {
            Step::Anchor(anchor) => resolved.path.push(anchor),
            Step::Parent => {
                resolved.path.pop();
            }
            Step::Name(name) => {
                let candidate = resolved.path.join(name);
                resolved.through_kernel |= is_kernel(&candidate);
                match link_target(&candidate)? {
                    None => resolved.path = candidate,
                    Some(target) => {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(io::Error::other("too many symbolic links"));
                        }
                        for step in steps(&target).rev() {
                            pending.push_front(step);
                        }
                    }
                }
            }
        }
    }
    Ok(resolved)
}

/// The target of `path` if it is a link; nothing if it is anything else or missing.
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

/// Whether `path` is `root` or lies beneath it, for rules that *deny*: where the file system
/// usually ignores case, so does this.
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

    /// Wherever the kernel has an answer, it is ours.
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
        let mut compared = 0;
        for code in 0..names.len().pow(4) {
            let steps = (0..4).map(|place| names[code / names.len().pow(place) % names.len()]);
            let path = steps.fold(base.clone(), |path, step| path.join(step));
            if let Ok(expected) = path.canonicalize() {
                assert_eq!(resolve(&path).unwrap().path, expected, "{}", path.display());
                compared += 1;
            }
        }
        assert!(compared > 100, "{compared}");
        assert!(resolve(&base.join("loop")).is_err());
        assert_eq!(
            resolve(&base.join("dangling/x/../y")).unwrap().path,
            base.join("missing/y")
        );
    }
}
