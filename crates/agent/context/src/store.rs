//! Stores what prompts need across restarts.
//!
//! Decision: a store of small notes per session that may lose any of them, because a lost note
//! costs one cache miss. So nothing is fsynced, failures are only logged, and no note is read
//! before its session has a turn.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_disk::{
    Access, DRAFT_SUFFIX, Disk, Durability, FileDraft, LocalDisk, NewFolders, read_to_end,
    replace_file,
};
use nanobot_types::SessionKey;

use crate::Digest;

/// Maximum size of a note that is read, in bytes.
const NOTE_LIMIT: u64 = 4 * 1024 * 1024;
/// Maximum length of a session key in a file name, in characters.
const SHOWN: usize = 60;

/// Kind of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PromptRecord {
    /// The system prompt of a session.
    Prompt,
    /// A record of the last request of a session.
    Prefix,
}

impl PromptRecord {
    const ALL: [Self; 2] = [Self::Prompt, Self::Prefix];

    fn suffix(self) -> &'static str {
        match self {
            Self::Prompt => ".prompt.json",
            Self::Prefix => ".prefix.json",
        }
    }
}

/// Store of notes per session.
#[async_trait]
pub trait PromptStore: Send + Sync + fmt::Debug {
    /// Loads the last saved note; `None` if there is none or it cannot be read.
    async fn load(&self, session: &SessionKey, note: PromptRecord) -> Option<Vec<u8>>;

    /// Replaces a note, on a best-effort basis.
    async fn save(&self, session: &SessionKey, note: PromptRecord, content: Vec<u8>);
}

/// A store that keeps nothing, for programs whose sessions end with the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPromptStore;

#[async_trait]
impl PromptStore for NoPromptStore {
    async fn load(&self, _: &SessionKey, _: PromptRecord) -> Option<Vec<u8>> {
        None
    }

    async fn save(&self, _: &SessionKey, _: PromptRecord, _: Vec<u8>) {}
}

/// Stores one small file per session and note in a folder, which is created on the first save.
#[derive(Clone, Debug)]
pub struct FilePromptStore {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
}

impl FilePromptStore {
    /// Creates a store in `folder`. Touches nothing yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(LocalDisk), folder)
    }

    /// Creates a store in `folder` on the given disk.
    pub fn on(disk: Arc<dyn Disk>, folder: impl Into<PathBuf>) -> Self {
        Self {
            disk,
            folder: folder.into(),
        }
    }

    /// `true` if the file name has the form that this store gives its files, or their drafts, which
    /// a crash may leave.
    #[must_use]
    pub fn is_store_file(path: &Path) -> bool {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default();
        let name = name.strip_suffix(DRAFT_SUFFIX).unwrap_or(&name);
        PromptRecord::ALL
            .into_iter()
            .any(|note| name.ends_with(note.suffix()))
    }

    /// Returns the path of a note: the key with unsafe characters replaced, and a digest to keep
    /// similar keys apart.
    fn path(&self, session: &SessionKey, note: PromptRecord) -> PathBuf {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
                c
            } else {
                '_'
            }
        };
        let shown: String = session.as_str().chars().take(SHOWN).map(plain).collect();
        self.folder.join(format!(
            "{shown}-{:016x}{}",
            Digest::of(session.as_str()).value(),
            note.suffix()
        ))
    }

    /// Runs blocking disk work on a thread of its own.
    async fn away<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Disk) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let disk = Arc::clone(&self.disk);
        tokio::task::spawn_blocking(move || work(&*disk))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

#[async_trait]
impl PromptStore for FilePromptStore {
    async fn load(&self, session: &SessionKey, note: PromptRecord) -> Option<Vec<u8>> {
        let path = self.path(session, note);
        let file = path.clone();
        match self
            .away(move |disk| read_to_end(&*disk.open(&file, Access::Read)?, 0, NOTE_LIMIT))
            .await
        {
            Ok(content) => Some(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot read the saved state of a prompt");
                None
            }
        }
    }

    async fn save(&self, session: &SessionKey, note: PromptRecord, content: Vec<u8>) {
        let (path, folder) = (self.path(session, note), self.folder.clone());
        let file = path.clone();
        if let Err(error) = self
            .away(move |disk| replace(disk, &folder, &file, &content))
            .await
        {
            tracing::warn!(path = %path.display(), %error, "cannot save the state of a prompt");
        }
    }
}

/// Replaces a file by rename, so that readers see the old or the new content and never a mixture.
/// After a power cut the content may be damaged; it is checked when it is read.
fn replace(disk: &dyn Disk, folder: &Path, target: &Path, content: &[u8]) -> io::Result<()> {
    if !disk.exists(folder)? {
        NewFolders::default().ensure(disk, folder)?;
    }
    replace_file(disk, target, content, FileDraft::Private, Durability::Os)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn records_are_stored_per_session_and_replaced() {
        let root = tempfile::tempdir().unwrap();
        let store = FilePromptStore::new(root.path().join("deep/prompts"));
        let long = SessionKey::from(format!("slack:{}", "x".repeat(500)));
        let keys = [
            SessionKey::from("telegram:1"),
            SessionKey::from("telegram_1"),
            long,
        ];
        for key in &keys {
            assert_eq!(store.load(key, PromptRecord::Prompt).await, None);
            store.save(key, PromptRecord::Prompt, b"old".to_vec()).await;
            store
                .save(
                    key,
                    PromptRecord::Prompt,
                    format!("prompt of {key}").into_bytes(),
                )
                .await;
            store
                .save(key, PromptRecord::Prefix, b"prefix".to_vec())
                .await;
        }
        let again = FilePromptStore::new(root.path().join("deep/prompts"));
        for key in &keys {
            assert_eq!(
                again.load(key, PromptRecord::Prompt).await,
                Some(format!("prompt of {key}").into_bytes())
            );
            assert_eq!(
                again.load(key, PromptRecord::Prefix).await.as_deref(),
                Some(b"prefix".as_slice())
            );
        }
        let files: Vec<PathBuf> = std::fs::read_dir(root.path().join("deep/prompts"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 6, "{files:?}");
        assert!(
            files
                .iter()
                .all(|file| FilePromptStore::is_store_file(file))
        );
        for file in &files {
            let mut draft = file.clone().into_os_string();
            draft.push(".draft");
            assert!(FilePromptStore::is_store_file(Path::new(&draft)));
        }
        assert!(!FilePromptStore::is_store_file(Path::new("a.txt.draft")));
        #[cfg(unix)]
        for file in &files {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(
                file.metadata().unwrap().permissions().mode() & 0o077,
                0,
                "for its owner alone"
            );
        }
    }

    #[tokio::test]
    async fn io_errors_are_ignored() {
        let root = tempfile::tempdir().unwrap();
        let occupied = root.path().join("prompts");
        std::fs::write(&occupied, "a file where a folder belongs").unwrap();
        let store = FilePromptStore::new(&occupied);
        store
            .save(&"s".into(), PromptRecord::Prompt, b"lost".to_vec())
            .await;
        assert_eq!(store.load(&"s".into(), PromptRecord::Prompt).await, None);
    }
}
