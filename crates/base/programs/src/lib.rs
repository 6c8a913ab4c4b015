//! Finds programs beside this one and in the search path.
//!
//! Only absolute folders are searched: a relative one would name a program in whatever folder is
//! the current one.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// The endings of program files.
const ENDINGS: &[&str] = if cfg!(windows) {
    &["exe", "cmd"]
} else {
    &[""]
};

/// Returns the program `name` that was installed with this one: in the folder of this program, or
/// else in a folder of `PATH`.
#[must_use]
pub fn find_installed(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok();
    let own_folder = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let in_path = || find_in_path(&env::var_os("PATH").unwrap_or_default(), name);
    find(own_folder, name).or_else(in_path)
}

/// Returns the program `name` in the first folder of `path` that has it. `path` has the form of the
/// environment variable `PATH`.
#[must_use]
pub fn find_in_path(path: &OsStr, name: &str) -> Option<PathBuf> {
    find(env::split_paths(path), name)
}

fn find(folders: impl IntoIterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    folders
        .into_iter()
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| {
            let with = move |ending: &&str| folder.join(name).with_added_extension(ending);
            ENDINGS.iter().map(with)
        })
        .find(|path| is_program(path))
}

/// Returns `true` if the file can be executed.
#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn first_executable_file_of_an_absolute_folder_is_found() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        program(first.path(), "data", 0o644);
        fs::create_dir(first.path().join("folder")).unwrap();
        let data = program(second.path(), "data", 0o755);
        let dotted = program(first.path(), "tool-1.2", 0o755);
        let relative = Path::new("relative");
        let path = env::join_paths([relative, first.path(), second.path()]).unwrap();
        assert_eq!(find_in_path(&path, "data"), Some(data));
        assert_eq!(find_in_path(&path, "tool-1.2"), Some(dotted));
        assert_eq!(find_in_path(&path, "folder"), None);
        assert_eq!(find_in_path(&path, "none"), None);
        assert_eq!(find_in_path(OsStr::new(""), "data"), None);
    }

    #[test]
    fn relative_folders_are_not_searched() {
        let file = env::current_exe().unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let folder = file.parent().unwrap();
        let here = env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(folder.strip_prefix("/").unwrap());
        assert!(is_program(&relative.join(name)));
        assert_eq!(find_in_path(relative.as_os_str(), name), None);
        assert_eq!(find_in_path(folder.as_os_str(), name), Some(file));
    }

    #[test]
    fn programs_beside_this_one_are_installed_with_it() {
        let own = env::current_exe().unwrap();
        let name = own.file_name().unwrap().to_str().unwrap();
        assert_eq!(find_installed(name), Some(own.clone()));
        assert_eq!(find_installed("nanobot-no-such-program"), None);
    }
}
