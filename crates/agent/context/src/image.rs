//! Files attached to messages, as a request shows them.
//!
//! The result of inspecting a file is cached, so that a request shows what the previous one showed
//! even if the file has since changed or gone. The cache is bounded; after an entry is evicted, the
//! file on disk is inspected again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_types::{MediaRef, Picture, PictureFormat};

use crate::read::read_bytes;

/// Form in which a file appears in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InspectedFile {
    /// An image, as a `data:` URL.
    Image(Arc<str>),
    /// An image that is too large to send.
    TooLarge,
    /// An image that does not exist, or no longer does.
    Gone,
    /// Any other file; the model gets its location.
    File,
}

/// Inspects a file. Blocks on disk I/O.
pub(crate) fn inspect(media: &MediaRef) -> InspectedFile {
    let missing = if is_image_by_name(media) {
        InspectedFile::Gone
    } else {
        InspectedFile::File
    };
    if is_address(&media.location) {
        return InspectedFile::File;
    }
    match read_bytes(Path::new(&media.location), Picture::MAX_BYTES) {
        Ok(Some(bytes)) => match PictureFormat::of(&bytes) {
            None => InspectedFile::File,
            Some(_) if bytes.len() > Picture::MAX_BYTES => InspectedFile::TooLarge,
            Some(format) => InspectedFile::Image(
                format!("data:{};base64,{}", format.mime(), STANDARD.encode(&bytes)).into(),
            ),
        },
        Ok(None) => missing,
        Err(error) => {
            tracing::warn!(path = media.location, %error, "a file of a message cannot be read");
            missing
        }
    }
}

/// `true` if a missing file was an image, judging by its extension or its reported media type.
fn is_image_by_name(media: &MediaRef) -> bool {
    let extension = Path::new(&media.location)
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    let by_extension =
        ["png", "jpg", "jpeg", "gif", "webp"].contains(&extension.to_lowercase().as_str());
    by_extension
        || media
            .mime
            .as_deref()
            .is_some_and(|mime| mime.starts_with("image/"))
}

fn is_address(location: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
}

/// Least-recently-used cache of inspected files.
#[derive(Debug)]
pub(crate) struct InspectionCache {
    limit: usize,
    bytes: usize,
    clock: u64,
    entries: HashMap<String, (InspectedFile, u64)>,
}

impl InspectionCache {
    /// Creates a cache of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            clock: 0,
            entries: HashMap::new(),
        }
    }

    pub(crate) fn get(&mut self, location: &str) -> Option<InspectedFile> {
        self.clock += 1;
        let (picture, used) = self.entries.get_mut(location)?;
        *used = self.clock;
        Some(picture.clone())
    }

    pub(crate) fn insert(&mut self, location: &str, picture: InspectedFile) {
        self.clock += 1;
        self.bytes += cost(location, &picture);
        if let Some((replaced, _)) = self
            .entries
            .insert(location.to_owned(), (picture, self.clock))
        {
            self.bytes -= cost(location, &replaced);
        }
        while self.bytes > self.limit {
            let oldest = self
                .entries
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(location, _)| location.clone());
            let Some((location, (picture, _))) =
                oldest.and_then(|location| self.entries.remove_entry(&location))
            else {
                return;
            };
            self.bytes -= cost(&location, &picture);
        }
    }
}

/// Approximate size of an entry, in bytes.
fn cost(location: &str, picture: &InspectedFile) -> usize {
    let content = if let InspectedFile::Image(url) = picture {
        url.len()
    } else {
        0
    };
    location.len() + content + 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_images_by_magic_bytes() {
        let table: [(&[u8], Option<&str>); 8] = [
            (b"\x89PNG\r\n\x1a\nrest", Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF87a", Some("image/gif")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x00\x00\x00\x00WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x00\x00\x00\x00WAVE", None),
            (b"%PDF-1.7", None),
            (b"", None),
        ];
        for (bytes, expected) in table {
            let format = PictureFormat::of(bytes).map(PictureFormat::mime);
            assert_eq!(format, expected, "{bytes:?}");
        }
    }

    #[test]
    fn cache_is_bounded_and_evicts_the_least_recently_used() {
        let image = |size: usize| InspectedFile::Image("x".repeat(size).into());
        let mut cache = InspectionCache::new(1000);
        cache.insert("a", image(300));
        cache.insert("b", image(300));
        assert_eq!(cache.get("a"), Some(image(300)));
        cache.insert("c", image(300));
        assert_eq!(
            ["a", "b", "c"].map(|name| cache.get(name).is_some()),
            [true, false, true]
        );
        cache.insert("a", InspectedFile::Gone);
        cache.insert("d", image(5000));
        assert_eq!(
            (cache.bytes, cache.entries.len()),
            (0, 0),
            "an entry larger than the cache is not kept"
        );
    }
}
