//! Files that came with messages, as a request shows them.
//!
//! What a file was found to be is remembered, so that a request shows what the one before it
//! showed, also when the file has changed or gone meanwhile. The memory is bounded; after it has
//! been lost, what is on disk decides again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_types::MediaRef;

use crate::read::read_bytes;

/// The largest image that is sent, in bytes; the strictest vendor takes no more.
const IMAGE_LIMIT: usize = 5 * 1024 * 1024;

/// What a file is to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Picture {
    /// An image, as a `data:` URL.
    Image(Arc<str>),
    /// An image that is too large to send.
    TooLarge,
    /// An image that is not there (any more).
    Gone,
    /// Something else: the model learns where it is.
    File,
}

/// Finds out what a file is. Waits for the disk.
pub(crate) fn inspect(media: &MediaRef) -> Picture {
    let missing = if is_image_by_name(media) {
        Picture::Gone
    } else {
        Picture::File
    };
    if is_address(&media.location) {
        return Picture::File;
    }
    match read_bytes(Path::new(&media.location), IMAGE_LIMIT) {
        Ok(Some(bytes)) => match image_type(&bytes) {
            None => Picture::File,
            Some(_) if bytes.len() > IMAGE_LIMIT => Picture::TooLarge,
            Some(mime) => {
                Picture::Image(format!("data:{mime};base64,{}", STANDARD.encode(&bytes)).into())
            }
        },
        Ok(None) => missing,
        Err(error) => {
            tracing::warn!(path = media.location, %error, "a file of a message cannot be read");
            missing
        }
    }
}

/// The media type of an image, by its first bytes; names and platforms lie.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = || bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    match bytes {
        _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if bytes.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some("image/gif"),
        _ if is_webp() => Some("image/webp"),
        _ => None,
    }
}

/// Whether a file that is not there was an image, as far as its name tells.
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

/// What files were found to be, the lately used ones.
#[derive(Debug)]
pub(crate) struct PictureCache {
    limit: usize,
    bytes: usize,
    clock: u64,
    entries: HashMap<String, (Picture, u64)>,
}

impl PictureCache {
    /// A memory of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            clock: 0,
            entries: HashMap::new(),
        }
    }

    pub(crate) fn get(&mut self, location: &str) -> Option<Picture> {
        self.clock += 1;
        let (picture, used) = self.entries.get_mut(location)?;
        *used = self.clock;
        Some(picture.clone())
    }

    pub(crate) fn insert(&mut self, location: &str, picture: Picture) {
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

/// What an entry takes, about.
fn cost(location: &str, picture: &Picture) -> usize {
    let content = if let Picture::Image(url) = picture {
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
    fn images_are_known_by_their_first_bytes() {
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
            assert_eq!(image_type(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_memory_is_bounded_and_forgets_the_oldest() {
        let image = |size: usize| Picture::Image("x".repeat(size).into());
        let mut cache = PictureCache::new(1000);
        cache.insert("a", image(300));
        cache.insert("b", image(300));
        assert_eq!(cache.get("a"), Some(image(300)));
        cache.insert("c", image(300));
        assert_eq!(
            ["a", "b", "c"].map(|name| cache.get(name).is_some()),
            [true, false, true]
        );
        cache.insert("a", Picture::Gone);
        cache.insert("d", image(5000));
        assert_eq!(
            (cache.bytes, cache.entries.len()),
            (0, 0),
            "an entry larger than all is not kept"
        );
    }
}
