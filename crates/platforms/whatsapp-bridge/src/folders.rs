//! Folders that only their owner may read, and their way to the disk.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::BridgeError;

/// Threads that sync the files of a folder.
const SYNCING_THREADS: usize = 16;

/// Runs file operations on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BridgeError> + Send + 'static,
) -> Result<T, BridgeError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(BridgeError::Install(format!("file access failed: {error}"))),
    }
}

/// Creates a folder and its missing parents. Removes the access of others if the folder exists.
pub(crate) fn create_private(path: &Path) -> Result<(), BridgeError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(path)
        .and_then(|()| restrict(path))
        .map_err(BridgeError::file("create", path))
}

#[cfg(unix)]
fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        permissions.set_mode(0o700);
        fs::set_permissions(path, permissions)?;
    }
    Ok(())
}

/// On other systems the permissions of the folder above apply.
#[cfg(not(unix))]
fn restrict(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a folder with all its files and folders durable. Links are not followed. Several threads
/// sync at the same time, because a disk writes what they wait for at once.
pub(crate) fn sync_tree(root: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened, nor a file be synced that is open for reading.
    if !cfg!(unix) {
        return Ok(());
    }
    let paths = tree(root)?;
    let sync = |paths: &[PathBuf]| {
        paths
            .iter()
            .try_for_each(|path| File::open(path)?.sync_all())
    };
    let share = paths.len().div_ceil(SYNCING_THREADS).max(1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (paths.chunks(share))
            .map(|paths| scope.spawn(move || sync(paths)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("a thread ended")))
        })
    })
}

/// Returns the files and folders in a folder, with the folder itself.
fn tree(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = vec![root.to_owned()];
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            }
            if kind.is_dir() || kind.is_file() {
                paths.push(entry.path());
            }
        }
    }
    Ok(paths)
}

/// Removes a folder with its content, if there is one.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn tree_has_files_and_folders_but_no_links() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        create_private(&path("a/b")).unwrap();
        fs::write(path("a/b/c"), "").unwrap();
        fs::write(path("d"), "").unwrap();
        symlink("/", path("a/root")).unwrap();
        symlink("missing", path("dangling")).unwrap();
        let mut found = tree(root.path()).unwrap();
        found.sort();
        let expected = [
            root.path().to_owned(),
            path("a"),
            path("a/b"),
            path("a/b/c"),
            path("d"),
        ];
        assert_eq!(found, expected);
        sync_tree(root.path()).unwrap();
        remove_tree(&path("a")).unwrap();
        remove_tree(&path("a")).unwrap();
        assert!(Path::new("/").is_dir() && !path("a").exists());
        assert!(sync_tree(&path("a")).is_err());
    }
}
