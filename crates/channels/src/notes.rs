//! Notes of channels: a folder per channel, a file per note.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nanobot_channel::{ChannelName, LONGEST_NOTE, NoteError, Notes, async_trait};
use sha1::{Digest as _, Sha1};

use crate::media::cleaned;

/// How files are called until they are whole.
const UNFINISHED: &str = ".part-";

/// The notes of one channel, in a folder of its own.
#[derive(Clone, Debug)]
pub struct FileNotes {
    folder: PathBuf,
}

impl FileNotes {
    /// Keeps the notes of `channel` below `root`. Touches no disk.
    #[must_use]
    pub fn new(root: &Path, channel: &ChannelName) -> Self {
        let name = channel.as_str();
        let mut folder = cleaned(name, 64);
        if folder != name {
            // What was cleaned away may be all in which two names differ.
            let digest = Sha1::digest(name).iter().take(4).map(|byte| format!("{byte:02x}")).collect::<String>();
            folder = format!("{folder}-{digest}");
        }
        Self { folder: root.join(folder) }
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(&Path, &Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, NoteError> {
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || work(&folder, &folder.join(cleaned(name, 64)))).await;
        Ok(done.map_err(io::Error::other)??)
    }
}

#[async_trait]
impl Notes for FileNotes {
    async fn read(&self, name: &'static str) -> Result<Option<String>, NoteError> {
        let found = self.on_disk(name, |_, path| std::fs::read_to_string(path)).await;
        match found {
            Err(NoteError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    async fn write(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        if text.len() > LONGEST_NOTE {
            return Err(NoteError::TooLong);
        }
        let text = text.to_owned();
        let replace = move |folder: &Path, path: &Path| {
            std::fs::create_dir_all(folder)?;
            let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)?;
            sync(folder)
        };
        self.on_disk(name, replace).await
    }

    async fn remove(&self, name: &'static str) -> Result<(), NoteError> {
        let take_away = |folder: &Path, path: &Path| match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.and_then(|()| sync(folder)),
        };
        self.on_disk(name, take_away).await
    }
}

/// Makes the names in a folder durable.
#[cfg(unix)]
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

/// Folders cannot be opened here; their file system keeps the order of names by itself.
#[cfg(not(unix))]
pub(crate) fn sync(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_note_is_whole_private_and_of_one_channel() {
        let root = tempfile::tempdir().unwrap();
        let notes = FileNotes::new(root.path(), &ChannelName::from("chat"));
        assert_eq!(notes.read("seen").await.unwrap(), None);
        notes.remove("seen").await.unwrap();
        notes.write("seen", "1").await.unwrap();
        notes.write("seen", "2").await.unwrap();
        assert_eq!(notes.read("seen").await.unwrap().as_deref(), Some("2"));
        for other in ["other", "../chat", "ch.at"] {
            let other = FileNotes::new(root.path(), &ChannelName::from(other));
            assert_eq!(other.read("seen").await.unwrap(), None);
            assert_eq!(other.folder.parent(), Some(root.path()));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(root.path().join("chat/seen")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        notes.remove("seen").await.unwrap();
        assert_eq!(notes.read("seen").await.unwrap(), None);
        assert_eq!(std::fs::read_dir(root.path().join("chat")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_is_too_long_replaces_nothing() {
        let root = tempfile::tempdir().unwrap();
        let notes = FileNotes::new(root.path(), &ChannelName::from("chat"));
        notes.write("seen", "1").await.unwrap();
        let refused = notes.write("seen", &"x".repeat(LONGEST_NOTE + 1)).await;
        assert!(matches!(refused, Err(NoteError::TooLong)));
        assert_eq!(notes.read("seen").await.unwrap().as_deref(), Some("1"));
    }
}
