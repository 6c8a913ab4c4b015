//! Folders that only their owner may read, and their way to the disk.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::path::Path;

use crate::BridgeError;

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

/// Makes a folder with all its files and folders durable. Links are not followed.
pub(crate) fn sync_tree(root: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened, nor a file be synced that is open for reading.
    if !cfg!(unix) {
        return Ok(());
    }
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                File::open(entry.path())?.sync_all()?;
            }
        }
        File::open(&folder)?.sync_all()?;
    }
    Ok(())
}

/// Removes a folder with its content, if there is one.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
