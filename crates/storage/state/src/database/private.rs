//! Files and folders that only their owner may read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a folder and its missing parents. An existing folder is left as it is.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes `options` create private files.
pub(crate) fn options(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes sure that the file exists and is private.
pub(crate) fn create_file(path: &Path) -> io::Result<()> {
    let file = options(OpenOptions::new().write(true).create(true)).open(path)?;
    restrict(&file)
}

/// Removes the access of others from a file that may have been created by another program.
#[cfg(unix)]
fn restrict(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = file.metadata()?.permissions();
    if permissions.mode() & 0o077 != 0 {
        permissions.set_mode(0o600);
        file.set_permissions(permissions)?;
    }
    Ok(())
}

/// On other systems the permissions of the folder apply.
#[cfg(not(unix))]
fn restrict(_file: &File) -> io::Result<()> {
    Ok(())
}
