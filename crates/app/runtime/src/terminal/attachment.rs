//! Files that a person attaches to a message at the terminal.
//!
//! Decision: the command copies them into the media folder, as channels do, with its person's
//! rights. The assistant, in this process or in the gateway, then knows only the copy: the file may
//! change or disappear, and no message makes the gateway read another path.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nanobot_channel::{MediaError, MediaStore as _};
use nanobot_channels::{FileMediaStore, MediaSettings};
use nanobot_config::Config;
use nanobot_control::TERMINAL_CHANNEL;
use nanobot_types::{ChannelName, MediaRef};

use crate::RuntimeError;

/// Maximum number of files of one message.
const MAX_FILES: usize = 32;

/// Copies files into the media folder and returns references to the copies.
///
/// # Errors
/// Returns [`RuntimeError::Attachment`] with the first file that cannot be attached.
pub(super) async fn store(
    config: &Config,
    files: &[PathBuf],
) -> Result<Vec<MediaRef>, RuntimeError> {
    let settings = MediaSettings::below(config.paths().media.clone());
    let channel = ChannelName::from(TERMINAL_CHANNEL);
    let store = FileMediaStore::new(&settings.root, &channel, settings.limit);
    let mut media = Vec::with_capacity(files.len());
    for path in files {
        let failed = |source| RuntimeError::Attachment {
            path: path.clone(),
            source,
        };
        if media.len() == MAX_FILES {
            return Err(failed(io::Error::other(format!(
                "a message has at most {MAX_FILES} files"
            ))));
        }
        let (source, limit) = (path.clone(), settings.limit);
        let bytes = tokio::task::spawn_blocking(move || read(&source, limit)).await;
        let bytes = bytes.map_err(io::Error::other).flatten().map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let stored = store.store(&stem, &name, None, &bytes).await;
        media.push(stored.map_err(|error| {
            failed(match error {
                MediaError::Io(error) => error,
                error @ MediaError::TooLarge { .. } => io::Error::other(error),
            })
        })?);
    }
    Ok(media)
}

/// Reads a regular file of at most `limit` bytes.
fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(io::Error::other(format!(
            "it is larger than {} MiB",
            limit >> 20
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"abc");
        for (path, limit) in [
            (path.as_path(), 2),
            (folder.path(), 9),
            (&folder.path().join("missing"), 9),
            (Path::new("/dev/zero"), 9),
        ] {
            read(path, limit).unwrap_err();
        }
    }
}
