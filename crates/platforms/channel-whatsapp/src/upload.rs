//! Files on their way out: an upload piece by piece, and then a message that names it.
//!
//! An upload is not visible, so it can be repeated.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_channel::{MediaRef, Value};
use nanobot_channel_kit::upload;
use serde_json::json;

use crate::client::Client;
use crate::error::{CallError, Refusal};
use crate::wire::number;

/// The largest file, in bytes.
const MAX_FILE_SIZE: u64 = 100 << 20;
/// The largest image, and the largest video or recording, in bytes.
const MAX_IMAGE_SIZE: usize = 16 << 20;
const MAX_FILM_SIZE: usize = 64 << 20;
/// Largest piece in bytes, before its encoding.
const PIECE_SIZE: usize = 512 << 10;
/// Longest name of a file, in characters.
const NAME_LIMIT: usize = 255;
/// The kind of every other file.
const DOCUMENT: &str = "document";
/// Endings, kinds and media types.
const TYPES: &[(&str, &str, &str)] = &[
    ("jpg", "image", "image/jpeg"),
    ("jpeg", "image", "image/jpeg"),
    ("png", "image", "image/png"),
    ("webp", "image", "image/webp"),
    ("mp4", "video", "video/mp4"),
    ("3gp", "video", "video/3gpp"),
    ("mp3", "audio", "audio/mpeg"),
    ("m4a", "audio", "audio/mp4"),
    ("aac", "audio", "audio/aac"),
    ("amr", "audio", "audio/amr"),
    ("ogg", "audio", "audio/ogg; codecs=opus"),
    ("opus", "audio", "audio/ogg; codecs=opus"),
    ("gif", DOCUMENT, "image/gif"),
    ("pdf", DOCUMENT, "application/pdf"),
    ("txt", DOCUMENT, "text/plain"),
    ("md", DOCUMENT, "text/markdown"),
    ("csv", DOCUMENT, "text/csv"),
    ("json", DOCUMENT, "application/json"),
    ("zip", DOCUMENT, "application/zip"),
];
const OTHER_TYPE: &str = "application/octet-stream";

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

/// A file that the bridge has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadedFile {
    name_in_bridge: String,
    kind: &'static str,
    mime: String,
    name: String,
}

impl UploadedFile {
    /// Returns the content of a message that shows the file.
    pub(crate) fn content(&self) -> Value {
        json!({"media": {
            "ref": self.name_in_bridge, "kind": self.kind, "mime": self.mime, "name": self.name,
        }})
    }

    /// `true` if clients show more of it than its name.
    pub(crate) fn is_shown(&self) -> bool {
        self.kind != DOCUMENT
    }

    pub(crate) fn into_document(self) -> Self {
        Self {
            kind: DOCUMENT,
            ..self
        }
    }
}

/// Uploads a local file.
pub(crate) async fn upload_file(
    client: &Client,
    media: &MediaRef,
) -> Result<UploadedFile, UploadError> {
    if client.is_version_1() {
        return Err(CallError::Refused(Refusal::of_version_1()).into());
    }
    let bytes = upload::read(media, MAX_FILE_SIZE, "WhatsApp").await?;
    if bytes.is_empty() {
        return Err(UploadError::Empty);
    }
    let name_in_bridge = format!("u{}", client.new_id());
    for (index, piece) in bytes.chunks(PIECE_SIZE).enumerate() {
        let offset = index * PIECE_SIZE;
        let request = json!({
            "type": "upload", "ref": name_in_bridge, "offset": offset,
            "data": STANDARD.encode(piece),
        });
        let uploaded = client.call(request).await.map_err(CallError::unambiguous)?;
        if number(&uploaded, "size") != u64::try_from(offset + piece.len()).ok() {
            let why = "the bridge has another part of an upload".to_owned();
            return Err(CallError::Unreachable(why).into());
        }
    }
    let name = upload::file_name(media);
    let (kind, mime) = kind_of(name, media.mime.as_deref(), bytes.len());
    Ok(UploadedFile {
        name_in_bridge,
        kind,
        mime,
        name: short_name(name),
    })
}

/// Returns the kind and the media type of a file. One that is too large for its kind is a document.
fn kind_of(name: &str, mime: Option<&str>, size: usize) -> (&'static str, String) {
    let ending = ending(name);
    let known = TYPES.iter().find(|(known, _, _)| *known == ending);
    let Some((_, kind, mime)) = known else {
        let mime = mime.filter(|mime| mime.is_ascii() && mime.len() <= NAME_LIMIT);
        return (DOCUMENT, mime.unwrap_or(OTHER_TYPE).to_owned());
    };
    let limit = match *kind {
        "image" => MAX_IMAGE_SIZE,
        DOCUMENT => usize::MAX,
        _ => MAX_FILM_SIZE,
    };
    let kind = if size <= limit { kind } else { DOCUMENT };
    (kind, (*mime).to_owned())
}

/// Returns a name that is not too long, with its ending.
fn short_name(name: &str) -> String {
    let length = name.chars().count();
    if length <= NAME_LIMIT {
        return name.to_owned();
    }
    let ending = match ending(name) {
        ending if ending.is_empty() || ending.chars().count() > 16 => String::new(),
        ending => format!(".{ending}"),
    };
    let room = NAME_LIMIT - ending.chars().count();
    name.chars().take(room).collect::<String>() + &ending
}

fn ending(name: &str) -> String {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_follows_ending_and_size() {
        let table = [
            ("a.PNG", None, 1, "image", "image/png"),
            ("a.jpeg", None, MAX_IMAGE_SIZE + 1, DOCUMENT, "image/jpeg"),
            ("a.mp4", None, MAX_FILM_SIZE, "video", "video/mp4"),
            ("a.mp4", None, MAX_FILM_SIZE + 1, DOCUMENT, "video/mp4"),
            ("a.ogg", None, 1, "audio", "audio/ogg; codecs=opus"),
            ("a.gif", None, 1, DOCUMENT, "image/gif"),
            ("a", Some("text/x"), 1, DOCUMENT, "text/x"),
            ("a.bin", Some("語"), 1, DOCUMENT, OTHER_TYPE),
        ];
        for (name, mime, size, kind, expected) in table {
            let found = kind_of(name, mime, size);
            assert_eq!(found, (kind, expected.to_owned()), "{name} {size}");
        }
    }

    #[test]
    fn long_name_keeps_its_ending() {
        assert_eq!(short_name("a.txt"), "a.txt");
        let short = short_name(&format!("{}.TXT", "語".repeat(300)));
        assert_eq!(short, format!("{}.txt", "語".repeat(251)));
        assert_eq!(short_name(&"x".repeat(300)).len(), NAME_LIMIT);
    }
}
