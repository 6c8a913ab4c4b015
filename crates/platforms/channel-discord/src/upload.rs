//! Files on their way out.

use nanobot_channel::MediaRef;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::error::CallError;

/// The largest file that is tried, in bytes. Servers with fewer boosts take less, and say so.
const LARGEST: u64 = 25 << 20;

/// Why a file did not go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// It cannot be read here.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// It is larger than Discord takes.
    #[error("it is larger than the {LARGEST} bytes that Discord takes")]
    TooLarge,
    /// The server did not take it.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// What people call a file: the last piece of its path or address.
pub(crate) fn name_of(media: &MediaRef) -> &str {
    let location = if is_address(media) {
        media.location.split(['?', '#']).next().unwrap_or_default()
    } else {
        media.location.as_str()
    };
    location
        .rsplit(['/', '\\'])
        .find(|piece| !piece.is_empty())
        .unwrap_or("file")
}

/// Whether a file is somewhere else: Discord shows it by its address, and nothing is fetched here.
pub(crate) fn is_address(media: &MediaRef) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| media.location.starts_with(scheme))
}

/// A message with a file, as the body of a request.
pub(crate) async fn form(media: &MediaRef, mut message: Value) -> Result<Form, UploadError> {
    if tokio::fs::metadata(&media.location)
        .await
        .map_err(UploadError::Unreadable)?
        .len()
        > LARGEST
    {
        return Err(UploadError::TooLarge);
    }
    let bytes = tokio::fs::read(&media.location)
        .await
        .map_err(UploadError::Unreadable)?;
    let name = name_of(media);
    if let Some(message) = message.as_object_mut() {
        message.insert(
            "attachments".to_owned(),
            json!([{"id": 0, "filename": name}]),
        );
    }
    let file = Part::bytes(bytes).file_name(name.to_owned());
    Ok(Form::new()
        .text("payload_json", message.to_string())
        .part("files[0]", file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_called_by_the_end_of_its_place() {
        let table = [
            ("/a/b/Cat.JPG", "Cat.JPG", false),
            ("https://x.test/a/cat.png?size=1#top", "cat.png", true),
            ("C:\\films\\film.mp4", "film.mp4", false),
            ("/a/what?.pdf", "what?.pdf", false),
            ("", "file", false),
        ];
        for (location, name, elsewhere) in table {
            let media = MediaRef::new(location);
            assert_eq!(
                (name_of(&media), is_address(&media)),
                (name, elsewhere),
                "{location}"
            );
        }
    }
}
