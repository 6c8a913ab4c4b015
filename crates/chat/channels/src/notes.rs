//! Notes of channels: one folder per channel, one file per note.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_channel::{
    ChannelName, MAX_NOTE_BYTES, MAX_QUARANTINED_BYTES, MAX_QUARANTINED_FILES, NoteError, Notes,
    Quarantined, async_trait,
};
use nanobot_disk::{
    DRAFT_PREFIX, Disk as _, Durability, FileDraft, LocalDisk, NewFolders, replace_file,
};
use sha1::{Digest as _, Sha1};

use crate::media::sanitized;

/// Folder of the data set aside.
const QUARANTINE_FOLDER: &str = "set-aside";

/// The notes of one channel, in its own folder.
#[derive(Clone, Debug)]
pub struct FileNotes {
    folder: PathBuf,
    folders: Arc<NewFolders>,
}

impl FileNotes {
    /// Creates the notes of `channel` below `root`. Does no I/O.
    #[must_use]
    pub fn new(root: &Path, channel: &ChannelName) -> Self {
        let name = channel.as_str();
        let mut folder = sanitized(name, 64);
        if folder != name {
            // Two names may differ only in the characters that were removed.
            folder = format!("{folder}-{}", digest(name));
        }
        Self {
            folder: root.join(folder),
            folders: Arc::default(),
        }
    }

    /// Begins a note with a file, unless the note exists. A missing file, one that is no file, and
    /// one that is too long for a note change nothing.
    ///
    /// # Errors
    /// The failure to read the file or to write the note.
    pub fn begin_with(&self, name: &'static str, file: &Path) -> io::Result<()> {
        let note = self.folder.join(sanitized(name, 64));
        let found = match std::fs::symlink_metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let fits = usize::try_from(found.len()).is_ok_and(|length| length <= MAX_NOTE_BYTES);
        if !found.is_file() || !fits || note.try_exists()? {
            return Ok(());
        }
        let text = std::fs::read_to_string(file)?;
        self.folders.ensure(&LocalDisk, &self.folder)?;
        let bytes = text.as_bytes();
        replace_file(
            &LocalDisk,
            &note,
            bytes,
            FileDraft::Random,
            Durability::Disk,
        )
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(&Path, &Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, NoteError> {
        let folder = self.folder.clone();
        let done =
            tokio::task::spawn_blocking(move || work(&folder, &folder.join(sanitized(name, 64))))
                .await;
        Ok(done.map_err(io::Error::other)??)
    }

    /// Replaces a note atomically, or the file of this name in the folder of the note.
    async fn replace(
        &self,
        note: &'static str,
        file: Option<String>,
        bytes: Vec<u8>,
        durability: Durability,
    ) -> Result<(), NoteError> {
        let folders = Arc::clone(&self.folders);
        self.on_disk(note, move |folder, path| {
            let (folder, path) = match file {
                Some(file) => (path, path.join(file)),
                None => (folder, path.to_owned()),
            };
            folders.ensure(&LocalDisk, folder)?;
            replace_file(&LocalDisk, &path, &bytes, FileDraft::Random, durability)
        })
        .await
    }
}

#[async_trait]
impl Notes for FileNotes {
    async fn read(&self, name: &'static str) -> Result<Option<String>, NoteError> {
        let found = self
            .on_disk(name, |_, path| std::fs::read_to_string(path))
            .await;
        match found {
            Err(NoteError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    async fn write(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        if text.len() > MAX_NOTE_BYTES {
            return Err(NoteError::TooLong);
        }
        self.replace(name, None, text.as_bytes().to_vec(), Durability::Disk)
            .await
    }

    async fn remove(&self, name: &'static str) -> Result<(), NoteError> {
        let remove_file = |folder: &Path, path: &Path| match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.and_then(|()| LocalDisk.sync_folder(folder)),
        };
        self.on_disk(name, remove_file).await
    }

    async fn write_unsynced(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        if text.len() > MAX_NOTE_BYTES {
            return Err(NoteError::TooLong);
        }
        self.replace(name, None, text.as_bytes().to_vec(), Durability::Os)
            .await
    }

    async fn overwrite(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        if text.len() > MAX_NOTE_BYTES {
            return Err(NoteError::TooLong);
        }
        let (folders, text) = (Arc::clone(&self.folders), text.to_owned());
        self.on_disk(name, move |folder, path| {
            folders.ensure(&LocalDisk, folder)?;
            overwrite_file(path, text.as_bytes())
        })
        .await
    }

    async fn quarantine(&self, key: &str, bytes: &[u8]) -> Result<(), NoteError> {
        let name = format!("{}-{}", sanitized(key, 64), digest(key));
        let bytes = bytes.get(..MAX_QUARANTINED_BYTES).unwrap_or(bytes).to_vec();
        self.replace(QUARANTINE_FOLDER, Some(name), bytes, Durability::Disk)
            .await?;
        self.on_disk(QUARANTINE_FOLDER, |_, folder| remove_surplus(folder))
            .await
    }

    async fn quarantined(&self) -> Result<Quarantined, NoteError> {
        self.on_disk(QUARANTINE_FOLDER, |_, folder| {
            let count = files_by_age(folder)?.len();
            Ok(Quarantined {
                count,
                folder: folder.display().to_string(),
            })
        })
        .await
    }
}

/// Writes a private file over its old content, without following a link.
fn overwrite_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use nix::fcntl::OFlag;
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    }
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

/// Returns the first digits of a digest, in hex.
fn digest(text: &str) -> String {
    Sha1::digest(text)
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Lists the complete files of a folder, oldest first. The folder need not exist.
fn files_by_age(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let is_complete = !entry
            .file_name()
            .to_string_lossy()
            .starts_with(DRAFT_PREFIX);
        if is_complete && entry.file_type()?.is_file() {
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn remove_surplus(folder: &Path) -> io::Result<()> {
    let files = files_by_age(folder)?;
    let surplus = files.len().saturating_sub(MAX_QUARANTINED_FILES);
    files
        .iter()
        .take(surplus)
        .try_for_each(std::fs::remove_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notes_are_atomic_private_and_per_channel() {
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
            let mode = std::fs::metadata(root.path().join("chat/seen"))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        notes.remove("seen").await.unwrap();
        assert_eq!(notes.read("seen").await.unwrap(), None);
        assert_eq!(
            std::fs::read_dir(root.path().join("chat")).unwrap().count(),
            0
        );
    }

    #[tokio::test]
    async fn note_begins_with_a_file_once() {
        let root = tempfile::tempdir().unwrap();
        let notes = FileNotes::new(root.path(), &ChannelName::from("chat"));
        let file = root.path().join("cursors.json");
        notes.begin_with("seen", &file).unwrap();
        notes.begin_with("seen", root.path()).unwrap();
        std::fs::write(&file, "x".repeat(MAX_NOTE_BYTES + 1)).unwrap();
        notes.begin_with("seen", &file).unwrap();
        assert_eq!(notes.read("seen").await.unwrap(), None);
        std::fs::write(&file, "1").unwrap();
        notes.begin_with("seen", &file).unwrap();
        assert_eq!(notes.read("seen").await.unwrap().as_deref(), Some("1"));
        notes.write("seen", "2").await.unwrap();
        notes.begin_with("seen", &file).unwrap();
        assert_eq!(notes.read("seen").await.unwrap().as_deref(), Some("2"));
    }

    #[tokio::test]
    async fn too_long_note_replaces_nothing() {
        let root = tempfile::tempdir().unwrap();
        let notes = FileNotes::new(root.path(), &ChannelName::from("chat"));
        notes.write("seen", "1").await.unwrap();
        let refused = notes.write("seen", &"x".repeat(MAX_NOTE_BYTES + 1)).await;
        assert!(matches!(refused, Err(NoteError::TooLong)));
        assert!(matches!(
            notes
                .write_unsynced("seen", &"x".repeat(MAX_NOTE_BYTES + 1))
                .await,
            Err(NoteError::TooLong)
        ));
        assert_eq!(notes.read("seen").await.unwrap().as_deref(), Some("1"));
        notes.write_unsynced("seen", "2").await.unwrap();
        assert_eq!(notes.read("seen").await.unwrap().as_deref(), Some("2"));
    }

    #[tokio::test]
    async fn note_is_overwritten_in_place() {
        let root = tempfile::tempdir().unwrap();
        let notes = FileNotes::new(root.path(), &ChannelName::from("chat"));
        for text in ["1 a\n1 b\n", "1 c\n", "", "2 d\n"] {
            notes.overwrite("tries", text).await.unwrap();
            assert_eq!(notes.read("tries").await.unwrap().as_deref(), Some(text));
        }
        let refused = notes
            .overwrite("tries", &"x".repeat(MAX_NOTE_BYTES + 1))
            .await;
        assert!(matches!(refused, Err(NoteError::TooLong)));
        #[cfg(unix)]
        {
            use std::os::unix::fs::{PermissionsExt as _, symlink};
            let note = root.path().join("chat/tries");
            let mode = std::fs::metadata(&note).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let other = root.path().join("other");
            std::fs::write(&other, "kept").unwrap();
            std::fs::remove_file(&note).unwrap();
            symlink(&other, &note).unwrap();
            notes.overwrite("tries", "1 e\n").await.unwrap_err();
            assert_eq!(std::fs::read_to_string(&other).unwrap(), "kept");
        }
    }

    #[tokio::test]
    async fn quarantine_is_bounded_private_and_one_file_per_key() {
        let root = tempfile::tempdir().unwrap();
        let notes = FileNotes::new(root.path(), &ChannelName::from("chat"));
        let folder = root.path().join("chat/set-aside");
        let place = folder.display().to_string();
        assert_eq!(
            notes.quarantined().await.unwrap(),
            Quarantined {
                count: 0,
                folder: place.clone()
            }
        );
        for key in ["../../C1/1.5", "C1/1.5", "C1/1.5"] {
            notes
                .quarantine(key, &[b'x'; MAX_QUARANTINED_BYTES + 1])
                .await
                .unwrap();
        }
        assert_eq!(
            notes.quarantined().await.unwrap(),
            Quarantined {
                count: 2,
                folder: place
            }
        );
        for file in files_by_age(&folder).unwrap() {
            assert_eq!(
                std::fs::metadata(&file).unwrap().len(),
                MAX_QUARANTINED_BYTES as u64
            );
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                assert_eq!(
                    std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
                    0o600
                );
            }
        }
        for number in 0..MAX_QUARANTINED_FILES {
            notes.quarantine(&number.to_string(), b"{}").await.unwrap();
        }
        let kept = files_by_age(&folder).unwrap();
        let is_old = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("C1"))
        };
        assert_eq!(
            (kept.len(), kept.iter().any(is_old)),
            (MAX_QUARANTINED_FILES, false)
        );
    }
}
