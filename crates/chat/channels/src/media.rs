//! Stores files that came with messages, under names of its own making.
//!
//! Decision: the name is the platform's id, sanitized, and a digest of the content. So a file that
//! is delivered twice is stored once, and two files never overwrite each other. Nothing chosen by a
//! sender reaches the path except a short extension of letters and digits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_channel::{ChannelName, MediaError, MediaRef, MediaStore, async_trait};
use nanobot_disk::{
    DRAFT_PREFIX, Disk, Durability, FileDraft, LocalDisk, NewFolders, replace_file,
};
use sha1::{Digest as _, Sha1};

/// Extensions for the types whose files mostly come without a name.
const EXTENSIONS: [(&str, &str); 9] = [
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("audio/ogg", "ogg"),
    ("audio/mpeg", "mp3"),
    ("audio/mp4", "m4a"),
    ("video/mp4", "mp4"),
    ("application/pdf", "pdf"),
];

/// Number of bytes of the content's digest in a file name.
const DIGEST: usize = 8;

/// Media store with one folder per channel.
#[derive(Clone, Debug)]
pub struct FileMediaStore {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    folders: Arc<NewFolders>,
    limit: u64,
}

impl FileMediaStore {
    /// Creates a store for the files of `channel` below `root`, each of at most `limit` bytes.
    #[must_use]
    pub fn new(root: &Path, channel: &ChannelName, limit: u64) -> Self {
        Self::on(Arc::new(LocalDisk), root, channel, limit)
    }

    /// Creates a store like [`FileMediaStore::new`] on the given disk.
    #[must_use]
    pub fn on(disk: Arc<dyn Disk>, root: &Path, channel: &ChannelName, limit: u64) -> Self {
        Self {
            disk,
            folders: Arc::default(),
            folder: root.join(sanitized(channel.as_str(), 64)),
            limit,
        }
    }

    /// `true` if a file's name has the form that such a store gives, so that it may be removed when
    /// it is old. Files of other programs do not match.
    #[must_use]
    pub fn is_media_file(path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return false;
        };
        let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
        let digest = stem.rsplit_once('-').map_or("", |(_, digest)| digest);
        let is_digest = digest.len() == 2 * DIGEST
            && digest
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_digest || name.starts_with(DRAFT_PREFIX)
    }

    /// Writes a file. The file and its name are durable when this returns, and the names of its
    /// folders, too, because a message that names the file is published next.
    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        self.folders.ensure(&*self.disk, &self.folder)?;
        replace_file(
            &*self.disk,
            path,
            bytes,
            FileDraft::Random,
            Durability::Disk,
        )
    }
}

#[async_trait]
impl MediaStore for FileMediaStore {
    fn limit(&self) -> u64 {
        self.limit
    }

    async fn store(
        &self,
        id: &str,
        name: &str,
        mime: Option<&str>,
        bytes: &[u8],
    ) -> Result<MediaRef, MediaError> {
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > self.limit {
            return Err(MediaError::TooLarge { limit: self.limit });
        }
        let digest = Sha1::digest(bytes)
            .iter()
            .take(DIGEST)
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        let path = self.folder.join(format!(
            "{}-{digest}{}",
            sanitized(id, 64),
            extension(name, mime)
        ));
        let (store, target, content) = (self.clone(), path.clone(), bytes.to_vec());
        let written = tokio::task::spawn_blocking(move || store.write(&target, &content)).await;
        written.map_err(std::io::Error::other)??;
        Ok(MediaRef {
            location: path.to_string_lossy().into_owned(),
            mime: mime.map(str::to_owned),
        })
    }
}

/// Sanitizes `text`: keeps at most `most` safe characters. Never returns an empty name.
pub(crate) fn sanitized(text: &str, most: usize) -> String {
    let safe: String = text
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .take(most)
        .collect();
    if safe.is_empty() {
        "file".to_owned()
    } else {
        safe
    }
}

/// Returns the extension for the type, or else the sender's own one if it is safe.
fn extension(name: &str, mime: Option<&str>) -> String {
    let by_type = mime
        .and_then(|mime| EXTENSIONS.iter().find(|(known, _)| *known == mime))
        .map(|(_, extension)| *extension);
    let own = name.rsplit_once('.').map(|(_, extension)| extension);
    let own = own.filter(|extension| {
        (1..=8).contains(&extension.len()) && extension.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    by_type
        .or(own)
        .map(|extension| format!(".{}", extension.to_ascii_lowercase()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_file_names_do_not_reach_the_path() {
        let table = [
            ("a.PNG", None, ".png"),
            ("a.exe/../../x", None, ""),
            ("../../etc/passwd", None, ""),
            ("a.tar.gz", None, ".gz"),
            ("a.b c", None, ""),
            ("a.verylongending", None, ""),
            ("x", Some("image/jpeg"), ".jpg"),
            ("x.bin", Some("application/unknown"), ".bin"),
        ];
        for (name, mime, expected) in table {
            assert_eq!(extension(name, mime), expected, "{name}");
        }
        assert_eq!(sanitized("../AgAD_x-1|é", 64), "AgAD_x-1");
        assert_eq!(sanitized("..", 64), "file");
    }

    #[tokio::test]
    async fn equal_files_are_stored_once_within_the_limit() {
        let root = tempfile::tempdir().unwrap();
        let store = FileMediaStore::new(root.path(), &ChannelName::from("../chat"), 4);
        let safe = store
            .store("../id", "../../x.TXT", None, b"abcd")
            .await
            .unwrap();
        let again = store.store("../id", "y.txt", None, b"abcd").await.unwrap();
        let other = store.store("../id", "x.txt", None, b"abce").await.unwrap();
        assert_eq!(safe, again);
        assert_ne!(safe, other);
        assert_eq!(std::fs::read(&safe.location).unwrap(), b"abcd");
        assert!(FileMediaStore::is_media_file(Path::new(&safe.location)));
        for (name, ours) in [
            (".part-x7", true),
            ("AgACAgIAAxkBAAI.jpg", false),
            ("notes-2024.txt", false),
        ] {
            assert_eq!(
                FileMediaStore::is_media_file(Path::new(name)),
                ours,
                "{name}"
            );
        }
        let mut names: Vec<_> = std::fs::read_dir(root.path().join("chat"))
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        names.sort();
        let mut expected = [safe, other].map(|file| PathBuf::from(file.location));
        expected.sort();
        assert_eq!(names, expected);
        let refused = store.store("id", "x", None, b"abcde").await;
        assert!(matches!(refused, Err(MediaError::TooLarge { limit: 4 })));
    }
}
