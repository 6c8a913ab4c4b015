//! Snapshots of checked files, for later use.
//!
//! A path that is stored and later opened by name may lead elsewhere by then. So a file that is
//! sent later is opened once, when the policy accepts it, and copied to a folder that no tool can
//! write to. The copy is used from then on.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::beneath::ResolvedPath;

/// Distinguishes copies made by one process at the same instant.
static COPY: AtomicU64 = AtomicU64::new(0);

impl ResolvedPath {
    /// Copies the file, opened as by [`open`](Self::open), into a new folder below `folder`, under
    /// its own name. The copy is durable when this returns, and only its owner may read it. A
    /// failed copy is removed.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open), `FileTooLarge` above `limit` bytes, and the file
    /// system's error about the copy.
    pub fn snapshot(&self, folder: &Path, limit: u64) -> io::Result<PathBuf> {
        let file = self.open()?;
        if file.metadata()?.len() > limit {
            return Err(too_large(limit));
        }
        let name = self.path().file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let own = new_folder(folder)?;
        let copy = own.join(name);
        match fill(file, &copy, limit)
            .and_then(|()| sync(&own))
            .and_then(|()| sync(folder))
        {
            Ok(()) => Ok(copy),
            Err(error) => {
                fs::remove_dir_all(&own)?;
                Err(error)
            }
        }
    }
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("it is larger than {limit} bytes"),
    )
}

/// Creates a new, unique folder below `folder`.
fn new_folder(folder: &Path) -> io::Result<PathBuf> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)?;
    builder.recursive(false);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let own = folder.join(format!(
        "{now:x}-{:x}-{:x}",
        std::process::id(),
        COPY.fetch_add(1, Ordering::Relaxed)
    ));
    builder.create(&own)?;
    Ok(own)
}

fn fill(file: File, copy: &Path, limit: u64) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut target = options.open(copy)?;
    // The file may still be growing.
    if io::copy(&mut file.take(limit.saturating_add(1)), &mut target)? > limit {
        return Err(too_large(limit));
    }
    target.flush()?;
    target.sync_all()
}

/// Makes the entries of a folder durable, on platforms where folders can be opened.
fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()
    } else {
        Ok(())
    }
}
