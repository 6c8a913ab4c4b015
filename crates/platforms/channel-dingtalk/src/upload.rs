//! Files on their way out: an upload, and then a message that names it.
//!
//! An upload is not visible, so it can be repeated.

use bytes::Bytes;
use nanobot_channel::MediaRef;
use nanobot_channel_kit::upload;
use reqwest::Body;
use reqwest::multipart::{Form, Part};
use serde::Deserialize;

use crate::api::Api;
use crate::error::{CallError, Refusal};
use crate::outgoing::Outgoing;

/// The largest file that DingTalk takes, in bytes.
const MAX_FILE_SIZE: u64 = 20 << 20;
/// Endings of files that are sent as pictures.
const PICTURES: &[&str] = &["png", "jpg", "jpeg", "gif", "bmp", "webp"];

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

/// Uploads a local file, and returns the message that shows it. A picture that is refused as one is
/// uploaded as a file.
pub(crate) async fn upload_file(api: &Api, media: &MediaRef) -> Result<Outgoing, UploadError> {
    let bytes = Bytes::from(upload::read(media, MAX_FILE_SIZE, "DingTalk").await?);
    if bytes.is_empty() {
        return Err(UploadError::Empty);
    }
    let name = upload::file_name(media);
    if is_picture(name) {
        match upload_as(api, "image", name, &bytes).await {
            Ok(media) => return Ok(Outgoing::picture(&media)),
            Err(error) if error.is(Refusal::is_about_the_content) => {
                tracing::debug!(%error, "a picture was refused; it is sent as a file");
            }
            Err(error) => return Err(UploadError::Call(error)),
        }
    }
    let media = upload_as(api, "file", name, &bytes).await?;
    Ok(Outgoing::file(&media, name, &file_type(name)))
}

/// Returns the message of a file at an address: DingTalk shows pictures from there.
pub(crate) fn remote_file(media: &MediaRef) -> Outgoing {
    let is_declared = |mime: &str| mime.starts_with("image/");
    let is_shown = media.mime.as_deref().is_some_and(is_declared);
    if is_shown || is_picture(upload::file_name(media)) {
        Outgoing::picture(&media.location)
    } else {
        Outgoing::plain(&media.location)
    }
}

async fn upload_as(api: &Api, kind: &str, name: &str, bytes: &Bytes) -> Result<String, CallError> {
    let form = || {
        let length = bytes.len() as u64;
        let part = Part::stream_with_length(Body::from(bytes.clone()), length);
        Form::new().part("media", part.file_name(name.to_owned()))
    };
    let uploaded: Uploaded = api
        .upload(kind, form)
        .await
        .map_err(CallError::unambiguous)?;
    let id = uploaded.id().map(str::to_owned);
    id.ok_or_else(|| CallError::Unreachable("DingTalk gave an upload no id".to_owned()))
}

/// The answer to an upload: the id is in one of several places.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Uploaded {
    media_id: Option<String>,
    #[serde(rename = "mediaId")]
    camel: Option<String>,
    result: Option<Box<Self>>,
}

impl Uploaded {
    fn id(&self) -> Option<&str> {
        let own = self.media_id.as_deref().or(self.camel.as_deref());
        own.filter(|id| !id.is_empty())
            .or_else(|| self.result.as_deref()?.id())
    }
}

fn is_picture(name: &str) -> bool {
    PICTURES.contains(&ending(name).as_str())
}

/// Returns the type of a file in DingTalk's terms: its ending.
fn file_type(name: &str) -> String {
    match ending(name) {
        ending if ending.is_empty() => "file".to_owned(),
        ending => ending,
    }
}

fn ending(name: &str) -> String {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pictures_elsewhere_are_shown_and_other_files_linked() {
        let (picture, link) = (Outgoing::picture, Outgoing::plain);
        let table = [
            (
                "https://x.test/a/cat.PNG?size=1#top",
                None,
                picture as fn(&str) -> _,
            ),
            ("https://x.test/cat", None, link),
            ("https://x.test/cat", Some("image/png"), picture),
            ("https://x.test/a.pdf", None, link),
        ];
        for (location, mime, form) in table {
            let media = MediaRef {
                mime: mime.map(str::to_owned),
                ..MediaRef::new(location)
            };
            assert_eq!(remote_file(&media), form(location), "{location}");
        }
    }

    #[test]
    fn id_of_an_upload_is_found_in_every_place() {
        let table = [
            (json!({"media_id": "@1"}), Some("@1")),
            (json!({"mediaId": "@1"}), Some("@1")),
            (json!({"result": {"media_id": "@1"}}), Some("@1")),
            (
                json!({"media_id": "", "result": {"mediaId": "@1"}}),
                Some("@1"),
            ),
            (json!({"result": {}}), None),
        ];
        for (answer, id) in table {
            let uploaded: Uploaded = serde_json::from_value(answer.clone()).unwrap();
            assert_eq!(uploaded.id(), id, "{answer}");
        }
    }

    #[test]
    fn type_of_a_file_is_its_ending() {
        assert_eq!(
            ["a.b.DOCX", "a", "a."].map(file_type),
            ["docx", "file", "file"]
        );
    }
}
