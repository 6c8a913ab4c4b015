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
    pub(crate) is_passage: bool,
}

impl WatchedFolder {
    /// Returns `true` if an event on `path` is relevant. `is_content` is set for events that change
    /// content but no names.
    pub(crate) fn is_meant(&self, path: &Path, is_content: bool) -> bool {
        let name = path.file_name();
        name == Some(&self.name)
            || (!is_content && (self.is_passage || is_folder(&self.folder, path)))
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
pub(crate) fn places_of(file: &Path) -> Vec<WatchedFolder> {
    let is_link = fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_symlink());
    let mut places = Vec::from_iter(nearest(file, is_link));
    if is_link && let Ok(target) = fs::canonicalize(file) {
        places.extend(nearest(&target, false));
    }
    places
}

fn nearest(file: &Path, is_passage: bool) -> Option<WatchedFolder> {
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
                is_passage,
            });
        }
        name = folder.file_name()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &Path, name: &str, is_passage: bool) -> WatchedFolder {
        WatchedFolder {
            folder: folder.to_owned(),
            name: name.into(),
            is_passage,
        }
    }

    #[test]
    fn watches_the_nearest_existing_folder() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("data/cron/jobs.json");
        assert_eq!(places_of(&file), [place(home.path(), "data", false)]);
        fs::create_dir_all(home.path().join("data/cron")).unwrap();
        assert_eq!(
            places_of(&file),
            [place(&home.path().join("data/cron"), "jobs.json", false)]
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
            place(&home, "config.json", true),
            place(&home.join("elsewhere"), "real.json", false),
        ];
        assert_eq!(places_of(&home.join("config.json")), expected);
    }

    #[test]
    fn only_links_react_to_changes_of_sibling_entries() {
        let folder = Path::new("/home/ann/.nanobot");
        let (file, link) = (
            place(folder, "config.json", false),
            place(folder, "config.json", true),
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
                    file.is_meant(path, is_content),
                    link.is_meant(path, is_content)
                ),
                meant,
                "{path:?}"
            );
        }
    }
}
