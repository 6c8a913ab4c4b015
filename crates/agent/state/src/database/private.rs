//! Files and folders that only their owner may read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder and what is missing above it; leaves one that is there as it is.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Lets the files that `options` creates be private.
pub(crate) fn options(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes sure that a file is there and private.
pub(crate) fn create_file(path: &Path) -> io::Result<()> {
    let file = options(OpenOptions::new().write(true).create(true)).open(path)?;
    restrict(&file)
}

/// Takes a file that was made by somebody else away from everyone but its owner.
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

/// Elsewhere the folder's own rights decide.
#[cfg(not(unix))]
fn restrict(_file: &File) -> io::Result<()> {
    Ok(())
}
