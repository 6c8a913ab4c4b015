//! Files on their way out: an upload, and then a message that names it.
//!
//! An upload is not visible, so it can be repeated. Guilds take pictures only, with the message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nanobot_channel::{MediaRef, Value};
use nanobot_channel_kit::upload::{self, file_name, is_url};
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::api::{Api, Body};
use crate::error::{CallError, Refusal};
use crate::outgoing::Outgoing;
use crate::target::Place;
use crate::wire::text;

/// The largest file that is sent, in bytes: QQ's limit for pictures, and what one request holds.
const MAX_FILE_SIZE: u64 = 20 << 20;

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

/// QQ's number for a type of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Picture = 1,
    Film = 2,
    Recording = 3,
    Other = 4,
}

impl FileKind {
    /// Returns the kind by the ending of the name.
    fn of(media: &MediaRef) -> Self {
        let name = file_name(media);
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        match ending.to_ascii_lowercase().as_str() {
            "png" | "jpg" | "jpeg" | "gif" => Self::Picture,
            "mp4" => Self::Film,
            "silk" => Self::Recording,
            _ if is_url(media) => {
                let is_declared = |mime: &str| mime.starts_with("image/");
                let is_picture = media.mime.as_deref().is_some_and(is_declared);
                if is_picture {
                    Self::Picture
                } else {
                    Self::Other
                }
            }
            _ => Self::Other,
        }
    }
}

/// Returns the message of a file, which is uploaded unless it goes with the message.
pub(crate) async fn file_message(
    api: &Api,
    place: &Place,
    media: &MediaRef,
) -> Result<Outgoing, UploadError> {
    let (name, kind) = (file_name(media), FileKind::of(media));
    if let Place::Guild(_) = place {
        if kind != FileKind::Picture {
            return Err(UploadError::Call(CallError::Refused(
                Refusal::of_file_in_guild(),
            )));
        }
        if is_url(media) {
            return Ok(Outgoing::PictureAt(media.location.clone()));
        }
        return Ok(Outgoing::Picture(read(media).await?, name.to_owned()));
    }
    let (key, value) = if is_url(media) {
        ("url", media.location.clone())
    } else {
        ("file_data", STANDARD.encode(read(media).await?))
    };
    let body = |kind: FileKind| {
        json!({
            "file_type": kind as u8, key: value, "srv_send_msg": false, "file_name": name,
        })
    };
    match upload_file(api, place, &body(kind)).await {
        Err(error) if kind != FileKind::Other && error.is(Refusal::is_about_the_content) => {
            tracing::debug!(%error, "a picture or film was refused; it is sent as a file");
            Ok(upload_file(api, place, &body(FileKind::Other)).await?)
        }
        outcome => Ok(outcome?),
    }
}

async fn upload_file(api: &Api, place: &Place, body: &Value) -> Result<Outgoing, CallError> {
    #[derive(Deserialize)]
    struct Uploaded {
        #[serde(default, deserialize_with = "text")]
        file_info: String,
    }
    let path = format!("{}/files", place.path());
    let uploaded = api.call(Method::POST, &path, Body::File(body)).await;
    let uploaded: Uploaded = uploaded.map_err(CallError::unambiguous)?;
    match uploaded.file_info {
        info if info.is_empty() => {
            let why = "QQ gave an upload no name".to_owned();
            Err(CallError::Unreachable(why))
        }
        info => Ok(Outgoing::Media(info)),
    }
}

async fn read(media: &MediaRef) -> Result<Bytes, UploadError> {
    let bytes = upload::read(media, MAX_FILE_SIZE, "QQ").await?;
    if bytes.is_empty() {
        return Err(UploadError::Empty);
    }
    Ok(Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_follows_the_ending() {
        let table = [
            ("/a/cat.PNG", None, FileKind::Picture),
            ("/a/cat.webp", Some("image/webp"), FileKind::Other),
            ("/a/film.mp4", None, FileKind::Film),
            ("/a/film.mov", None, FileKind::Other),
            ("/a/talk.silk", None, FileKind::Recording),
            ("/a/talk.mp3", None, FileKind::Other),
            (
                "https://x.test/cat?a=1",
                Some("image/png"),
                FileKind::Picture,
            ),
            ("https://x.test/cat.jpg?a=1", None, FileKind::Picture),
            ("https://x.test/cat", None, FileKind::Other),
        ];
        for (location, mime, kind) in table {
            let media = MediaRef {
                mime: mime.map(str::to_owned),
                ..MediaRef::new(location)
            };
            assert_eq!(FileKind::of(&media), kind, "{location}");
        }
    }
}
