//! Stickers: `[sticker:name]` in a message is replaced by the picture of that name.
//!
//! Decision: a message is resolved right before it is sent, in the same way for every channel. The
//! stored message keeps the tag, so that the assistant remembers what it said. `index.json` in the
//! folder maps names to URLs or files. A file has to be inside the folder: an index entry written
//! by the assistant must not reach anything else. An unknown name stays as text.
//!
//! Each file is opened once, through the path policy, and copied; channels send the copy. Under its
//! own name, it could be a different file by the time it is uploaded. Copies are deduplicated by
//! content, so retries of a message create no more of them.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_channel::{MediaRef, OutboundMessage};
use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};
use nanobot_guard::{PathPolicy, PathRules, ResolvedPath};
use sha1::{Digest as _, Sha1};

/// Start of a tag; it ends with `]` on the same line.
const OPENING: &str = "[sticker:";

/// Maximum size of the index, in bytes.
const INDEX_LIMIT: u64 = 1 << 20;

/// Maximum length of a name, in bytes.
const NAME_LIMIT: usize = 200;

/// Maximum size of a picture, in bytes.
const PICTURE_LIMIT: u64 = 16 << 20;

/// A folder of stickers, which need not exist.
#[derive(Clone, Debug)]
pub struct Stickers {
    folder: PathBuf,
    policy: Arc<PathPolicy>,
    copies: PathBuf,
}

/// Locations of pictures by sticker name.
type Index = BTreeMap<String, String>;

impl Stickers {
    /// Uses the stickers of a folder with an `index.json`, and copies them below `copies` when they
    /// are sent. Does no I/O.
    #[must_use]
    pub fn in_folder(folder: impl Into<PathBuf>, copies: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let policy = Arc::new(PathPolicy::new(PathRules::new(&folder)));
        Self {
            folder,
            policy,
            copies: copies.into(),
        }
    }

    /// Restricts the stickers to files that `policy` lets tools read.
    #[must_use]
    pub fn within(self, policy: Arc<PathPolicy>) -> Self {
        Self { policy, ..self }
    }

    /// Replaces the stickers of a message by their pictures. A message without any is returned
    /// unchanged, without disk I/O.
    pub(crate) async fn resolve(&self, message: &OutboundMessage) -> OutboundMessage {
        let has_tag = message.content.contains(OPENING)
            || message.media.iter().any(|media| is_tag(&media.location));
        let message = message.clone();
        if !has_tag {
            return message;
        }
        let (stickers, unresolved) = (self.clone(), message.clone());
        tokio::task::spawn_blocking(move || stickers.resolve_blocking(message))
            .await
            .unwrap_or_else(|error| {
                tracing::error!(%error, "the stickers of a message could not be resolved");
                unresolved
            })
    }

    fn resolve_blocking(&self, message: OutboundMessage) -> OutboundMessage {
        let index = self.index();
        // A picture that occurs twice in a message is sent once.
        let mut copies = BTreeMap::new();
        let mut picture = |name: &str| {
            let found = index
                .get(name)
                .and_then(|location| match is_address(location) {
                    true => Some(MediaRef::new(location)),
                    false => self
                        .locate(location)
                        .and_then(|file| self.copy_once(&file, &mut copies)),
                });
            if found.is_none() {
                tracing::warn!(name, folder = %self.folder.display(), "unknown sticker; sending its name as text");
            }
            found
        };
        let mut media: Vec<MediaRef> = Vec::new();
        let mut unknown = Vec::new();
        for reference in &message.media {
            match tag_name(&reference.location).map(|name| (name, picture(name))) {
                None => media.push(reference.clone()),
                Some((_, Some(found))) => add(&mut media, found),
                Some((_, None)) => unknown.push(reference.location.as_str()),
            }
        }
        let mut lines: Vec<String> = Vec::new();
        for line in message.content.split('\n') {
            let (rest, found) = without_tags(line, &mut picture);
            // A line with only stickers is removed, not left empty.
            if found.is_empty() || !rest.is_empty() {
                lines.push(rest);
            }
            found.into_iter().for_each(|found| add(&mut media, found));
        }
        lines.extend(unknown.into_iter().map(str::to_owned));
        let content = lines.join("\n");
        let content = if content.trim().is_empty() {
            String::new()
        } else {
            content
        };
        OutboundMessage {
            content,
            media,
            ..message
        }
    }

    fn index(&self) -> Index {
        let path = self.folder.join("index.json");
        let read = || -> io::Result<Index> {
            let mut bytes = Vec::new();
            self.open(&path)?
                .take(INDEX_LIMIT + 1)
                .read_to_end(&mut bytes)?;
            let map: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&bytes)?;
            Ok(map
                .into_iter()
                .filter_map(|(name, place)| Some((name, place.as_str()?.to_owned())))
                .collect())
        };
        read().unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "the index of stickers cannot be read");
            Index::new()
        })
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        self.policy
            .read(path)
            .map_err(|denied| io::Error::other(denied.to_string()))?
            .open()
    }

    /// Resolves a location to a file inside the folder.
    fn locate(&self, location: &str) -> Option<ResolvedPath> {
        let folder = self.folder.canonicalize().ok()?;
        let inside = |path: &Path| {
            let file = self.policy.read(path).ok()?;
            (file.path().starts_with(&folder) && file.open().is_ok()).then_some(file)
        };
        // People write paths relative to the folder or to the workspace.
        inside(&folder.join(location)).or_else(|| inside(&folder.parent()?.join(location)))
    }

    /// Returns the copy of a picture; `copies` caches those of the same message.
    fn copy_once(
        &self,
        file: &ResolvedPath,
        copies: &mut BTreeMap<PathBuf, MediaRef>,
    ) -> Option<MediaRef> {
        if let Some(copy) = copies.get(file.path()) {
            return Some(copy.clone());
        }
        match self.copy(file) {
            Ok(copy) => Some(
                copies
                    .entry(file.path().to_owned())
                    .or_insert(MediaRef::new(copy.to_string_lossy()))
                    .clone(),
            ),
            Err(error) => {
                tracing::warn!(path = %file.path().display(), %error, "a sticker cannot be copied");
                None
            }
        }
    }

    /// Copies a picture to a path derived from its content.
    fn copy(&self, file: &ResolvedPath) -> io::Result<PathBuf> {
        let mut bytes = Vec::new();
        file.open()?
            .take(PICTURE_LIMIT + 1)
            .read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > PICTURE_LIMIT {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it is larger than 16 MB",
            ));
        }
        let digest = Sha1::digest(&bytes)
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        let folder_of_copy = self.copies.join(format!("sticker-{digest}"));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&folder_of_copy)?;
        let copy = folder_of_copy.join(file.path().file_name().ok_or(io::ErrorKind::InvalidInput)?);
        // Always rewritten: the new timestamp keeps the copy for as long as the message needs it.
        replace_file(&LocalDisk, &copy, &bytes, FileDraft::Random, Durability::Os)?;
        Ok(copy)
    }
}

fn is_address(location: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
}

fn add(media: &mut Vec<MediaRef>, found: MediaRef) {
    if !media.contains(&found) {
        media.push(found);
    }
}

fn is_tag(text: &str) -> bool {
    tag_name(text).is_some()
}

/// Returns the name if the text is a single tag and nothing else.
fn tag_name(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix(OPENING)?.strip_suffix(']')?;
    is_name(name).then(|| name.trim())
}

fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= NAME_LIMIT && !name.contains(['[', ']', '\n'])
}

/// Removes the known tags from a line, and returns their pictures. A tag after a backtick is code
/// and stays.
fn without_tags(
    line: &str,
    mut picture: impl FnMut(&str) -> Option<MediaRef>,
) -> (String, Vec<MediaRef>) {
    let mut rest = line;
    let mut output = String::new();
    let mut found = Vec::new();
    while let Some((before, after)) = rest.split_once(OPENING) {
        output.push_str(before);
        let tag = after
            .split_once(']')
            .filter(|(name, _)| is_name(name) && !output.ends_with('`'));
        match tag.and_then(|(name, after)| Some((picture(name.trim())?, after))) {
            Some((shown, after)) => {
                found.push(shown);
                // Drops one of the two blanks around the tag, and the blank before punctuation.
                if after.starts_with([',', '.', ';', ':', '!', '?']) {
                    output.truncate(output.trim_end().len());
                }
                let is_apart = output.is_empty() || output.ends_with(' ');
                rest = if is_apart {
                    after.strip_prefix(' ').unwrap_or(after)
                } else {
                    after
                };
            }
            None => {
                output.push_str(OPENING);
                rest = after;
            }
        }
    }
    output.push_str(rest);
    if !found.is_empty() {
        output.truncate(output.trim_end().len());
    }
    (output, found)
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{InboundMessage, OutboundKey, OutboundKind};

    use super::*;

    fn message(content: &str, media: &[&str]) -> OutboundMessage {
        let key = OutboundKey {
            turn: "turn".into(),
            position: 0,
        };
        let inbound = InboundMessage::text("chat", "ann", "1", "");
        let message =
            OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, content.to_owned());
        OutboundMessage {
            media: media.iter().map(|place| MediaRef::new(*place)).collect(),
            ..message
        }
    }

    async fn resolved(stickers: &Stickers, content: &str, media: &[&str]) -> (String, Vec<String>) {
        let resolved = stickers.resolve(&message(content, media)).await;
        (
            resolved.content,
            resolved
                .media
                .into_iter()
                .map(|media| media.location)
                .collect(),
        )
    }

    #[tokio::test]
    async fn known_stickers_become_pictures_and_unknown_ones_stay() {
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path().canonicalize().unwrap();
        let folder = root.join("stickers");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("wave.png"), "png").unwrap();
        std::fs::write(root.join("secret.txt"), "canary").unwrap();
        let secret = root.join("secret.txt").display().to_string();
        let absolute = folder.join("wave.png").display().to_string();
        let index = serde_json::json!({
            "wave": "wave.png", "short": "stickers/wave.png", "absolute": absolute, "开心": "https://x.test/happy.gif",
            "out": "../secret.txt", "far": secret, "gone": "gone.png", "folder": ".", "number": 5,
        });
        std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
        let copies = tempfile::tempdir().unwrap();
        let stickers = Stickers::in_folder(&folder, copies.path());
        let copy = |content: &[u8], name: &str| {
            let digest = Sha1::digest(content)
                .iter()
                .take(8)
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>();
            copies
                .path()
                .join(format!("sticker-{digest}/{name}"))
                .display()
                .to_string()
        };
        let (wave, happy) = (copy(b"png", "wave.png"), "https://x.test/happy.gif");
        let wave = wave.as_str();
        let table: [(&str, &[&str], &str, &[&str]); 16] = [
            ("Hello [sticker:wave] there", &[], "Hello there", &[wave]),
            ("[sticker:wave] Hello", &[], "Hello", &[wave]),
            ("Hello [sticker:wave], you", &[], "Hello, you", &[wave]),
            ("Hello [sticker:开心]", &[], "Hello", &[happy]),
            ("你好[sticker:开心]呀", &[], "你好呀", &[happy]),
            ("[sticker:wave]", &[], "", &[wave]),
            (
                "One\n[sticker:wave] [sticker: 开心 ]\nTwo",
                &[],
                "One\nTwo",
                &[wave, happy],
            ),
            (
                "[sticker:wave][sticker:short][sticker:absolute]",
                &[],
                "",
                &[wave],
            ),
            ("Hi [sticker:nobody]!", &[], "Hi [sticker:nobody]!", &[]),
            (
                "[sticker:out] [sticker:far]",
                &[],
                "[sticker:out] [sticker:far]",
                &[],
            ),
            (
                "[sticker:gone][sticker:folder][sticker:number]",
                &[],
                "[sticker:gone][sticker:folder][sticker:number]",
                &[],
            ),
            (
                "write `[sticker:wave]` for it",
                &[],
                "write `[sticker:wave]` for it",
                &[],
            ),
            (
                "[sticker:] [sticker:wave",
                &[],
                "[sticker:] [sticker:wave",
                &[],
            ),
            ("a [sticker:x [sticker:wave]", &[], "a [sticker:x", &[wave]),
            (
                "Look",
                &["/a.txt", "[sticker:wave]"],
                "Look",
                &["/a.txt", wave],
            ),
            ("Look", &["[sticker:nobody]"], "Look\n[sticker:nobody]", &[]),
        ];
        for (content, media, text, pictures) in table {
            let pictures = pictures.iter().map(|place| (*place).to_owned()).collect();
            assert_eq!(
                resolved(&stickers, content, media).await,
                (text.to_owned(), pictures),
                "{content:?}"
            );
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn opened_picture_is_copied_and_links_are_refused() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().canonicalize().unwrap().join("workspace");
        let folder = workspace.join("stickers");
        std::fs::create_dir_all(&folder).unwrap();
        let secret = workspace.parent().unwrap().join("config.json");
        std::fs::write(&secret, "canary").unwrap();
        std::fs::write(folder.join("wave.png"), "png").unwrap();
        symlink(&secret, folder.join("link.png")).unwrap();
        std::fs::hard_link(&secret, folder.join("second-name.png")).unwrap();
        let index = r#"{"wave": "wave.png", "link": "link.png", "hard": "second-name.png"}"#;
        std::fs::write(folder.join("index.json"), index).unwrap();
        let rules = PathRules {
            secret_paths: vec![secret.clone()],
            ..PathRules::new(&workspace)
        };
        let copies = root.path().join("outbox");
        let stickers =
            Stickers::in_folder(&folder, &copies).within(Arc::new(PathPolicy::new(rules)));
        let (text, media) =
            resolved(&stickers, "[sticker:wave][sticker:link][sticker:hard]", &[]).await;
        assert_eq!(
            (text.as_str(), media.len()),
            ("[sticker:link][sticker:hard]", 1)
        );
        // The file changes before the retry.
        let again = resolved(&stickers, "[sticker:wave]", &[]).await.1;
        assert_eq!(
            (&again, std::fs::read_dir(&copies).unwrap().count()),
            (&media, 1)
        );
        std::fs::remove_file(folder.join("wave.png")).unwrap();
        symlink(&secret, folder.join("wave.png")).unwrap();
        assert_eq!(std::fs::read(&media[0]).unwrap(), b"png");
        assert_eq!(
            std::fs::metadata(&media[0]).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(
            resolved(&stickers, "[sticker:wave]", &[])
                .await
                .1
                .is_empty()
        );
    }

    #[tokio::test]
    async fn missing_index_leaves_text_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let stickers = Stickers::in_folder(folder.path(), folder.path().join("copies"));
        for index in [None, Some("{"), Some("[]")] {
            if let Some(index) = index {
                std::fs::write(folder.path().join("index.json"), index).unwrap();
            }
            assert_eq!(
                resolved(&stickers, "a [sticker:x]", &[]).await,
                ("a [sticker:x]".to_owned(), Vec::new())
            );
        }
    }
}
