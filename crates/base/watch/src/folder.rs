//! Folders in which an event can change a watched file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder to watch, and the entries in it that are relevant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedFolder {
    pub(crate) folder: PathBuf,
    /// Name of the entry whose content is relevant.
    pub(crate) name: OsString,
    /// `true` if any creation, removal or renaming in the folder is relevant, because a link may
    /// lead through it.
    pub(crate) is_link_parent: bool,
}

impl WatchedFolder {
    /// Returns `true` if an event on `path` is relevant. `is_content` is set for events that change
    /// content but no names.
    pub(crate) fn concerns(&self, path: &Path, is_content: bool) -> bool {
        let name = path.file_name();
        name == Some(&self.name)
            || (!is_content && (self.is_link_parent || is_folder(&self.folder, path)))
    }
}

/// Returns `true` if an event on `path` concerns the folder itself. Only names are compared,
/// because the system may know the folder by another path.
pub(crate) fn is_folder(folder: &Path, path: &Path) -> bool {
    folder
        .file_name()
        .is_some_and(|name| path.file_name() == Some(name))
}

/// Returns the folders to watch for a file: its parent, or the nearest existing ancestor while that
/// is missing, and the parent of the link's target if the file is a link.
pub(crate) fn folders_to_watch(file: &Path) -> Vec<WatchedFolder> {
    let is_link = fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_symlink());
    let mut watched = Vec::from_iter(nearest(file, is_link));
    if is_link && let Ok(target) = fs::canonicalize(file) {
        watched.extend(nearest(&target, false));
    }
    watched
}

fn nearest(file: &Path, is_link_parent: bool) -> Option<WatchedFolder> {
    let mut name: &OsStr = file.file_name()?;
    for folder in file.ancestors().skip(1) {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        if folder.is_dir() {
            return Some(WatchedFolder {
                folder: folder.to_owned(),
                name: name.to_owned(),
                is_link_parent,
            });
        }
        name = folder.file_name()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(folder: &Path, name: &str, is_link_parent: bool) -> WatchedFolder {
        WatchedFolder {
            folder: folder.to_owned(),
            name: name.into(),
            is_link_parent,
        }
    }

    #[test]
    fn watches_the_nearest_existing_folder() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("data/cron/jobs.json");
        assert_eq!(
            folders_to_watch(&file),
            [watched(home.path(), "data", false)]
        );
        fs::create_dir_all(home.path().join("data/cron")).unwrap();
        assert_eq!(
            folders_to_watch(&file),
            [watched(&home.path().join("data/cron"), "jobs.json", false)]
        );
    }

    #[cfg(unix)]
    #[test]
    fn watches_the_link_and_its_target() {
        let home = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(home.path()).unwrap();
        fs::create_dir(home.join("elsewhere")).unwrap();
        fs::write(home.join("elsewhere/real.json"), "{}").unwrap();
        std::os::unix::fs::symlink("elsewhere/real.json", home.join("config.json")).unwrap();
        let expected = [
            watched(&home, "config.json", true),
            watched(&home.join("elsewhere"), "real.json", false),
        ];
        assert_eq!(folders_to_watch(&home.join("config.json")), expected);
    }

    #[test]
    fn only_links_react_to_changes_of_sibling_entries() {
        let folder = Path::new("/home/ann/.nanobot");
        let (file, link) = (
            watched(folder, "config.json", false),
            watched(folder, "config.json", true),
        );
        for (path, is_content, meant) in [
            ("/home/ann/.nanobot/config.json", true, (true, true)),
            ("/home/ann/.nanobot/config.json", false, (true, true)),
            ("/home/ann/.nanobot/state.db-wal", true, (false, false)),
            ("/home/ann/.nanobot/..data", false, (false, true)),
            ("/private/home/ann/.nanobot", false, (true, true)),
        ] {
            let path = Path::new(path);
            assert_eq!(
                (
                    file.concerns(path, is_content),
                    link.concerns(path, is_content)
                ),
                meant,
                "{path:?}"
            );
        }
    }
}
