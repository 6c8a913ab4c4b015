//! Files on their way out: an upload, and then a message that names it.
//!
//! An upload is not visible, so it can be repeated.

use bytes::Bytes;
use nanobot_channel::{MediaRef, Value};
use nanobot_channel_kit::upload;
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Method};
use serde::Deserialize;
use serde_json::json;

use crate::api::{Api, Endpoint};
use crate::error::{CallError, Refusal};

/// The largest image and the largest file that Feishu takes, in bytes.
const MAX_IMAGE_SIZE: usize = 10 << 20;
const MAX_FILE_SIZE: u64 = 30 << 20;

/// Endings of files that are sent as images.
const IMAGES: &[&str] = &[
    "png", "jpg", "jpeg", "gif", "bmp", "webp", "ico", "tiff", "tif",
];

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

/// An uploaded file, as the type and the content of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UploadedFile {
    pub(crate) kind: &'static str,
    pub(crate) content: Value,
}

/// Uploads a local file. An image that is refused as one is uploaded as a file.
pub(crate) async fn upload_file(api: &Api, media: &MediaRef) -> Result<UploadedFile, UploadError> {
    let bytes = Bytes::from(upload::read(media, MAX_FILE_SIZE, "Feishu").await?);
    if bytes.is_empty() {
        return Err(UploadError::Empty);
    }
    let name = upload::file_name(media);
    if IMAGES.contains(&ending(name).as_str()) && bytes.len() <= MAX_IMAGE_SIZE {
        match upload_image(api, name, &bytes).await {
            Err(error) if error.is(Refusal::is_about_the_image) => {
                tracing::debug!(%error, "an image was refused; it is sent as a file");
            }
            outcome => return outcome.map_err(without_effect),
        }
    }
    upload_other(api, name, &bytes)
        .await
        .map_err(without_effect)
}

async fn upload_image(api: &Api, name: &str, bytes: &Bytes) -> Result<UploadedFile, CallError> {
    #[derive(Deserialize)]
    struct Image {
        image_key: String,
    }
    let endpoint = Endpoint::new(Method::POST, ["im", "v1", "images"]);
    let form = || {
        Form::new()
            .text("image_type", "message")
            .part("image", part(name, bytes))
    };
    let Image { image_key } = api.upload(&endpoint, form).await?;
    Ok(UploadedFile {
        kind: "image",
        content: json!({"image_key": image_key}),
    })
}

async fn upload_other(api: &Api, name: &str, bytes: &Bytes) -> Result<UploadedFile, CallError> {
    #[derive(Deserialize)]
    struct File {
        file_key: String,
    }
    let (file_type, kind) = types(name);
    let endpoint = Endpoint::new(Method::POST, ["im", "v1", "files"]);
    let form = || {
        Form::new()
            .text("file_type", file_type)
            .text("file_name", name.to_owned())
            .part("file", part(name, bytes))
    };
    let File { file_key } = api.upload(&endpoint, form).await?;
    Ok(UploadedFile {
        kind,
        content: json!({"file_key": file_key}),
    })
}

fn part(name: &str, bytes: &Bytes) -> Part {
    let length = bytes.len() as u64;
    Part::stream_with_length(Body::from(bytes.clone()), length).file_name(name.to_owned())
}

/// Returns Feishu's type of a file, and the type of its message. Feishu plays videos of one type
/// only.
fn types(name: &str) -> (&'static str, &'static str) {
    match ending(name).as_str() {
        "opus" => ("opus", "audio"),
        "mp4" => ("mp4", "media"),
        "pdf" => ("pdf", "file"),
        "doc" | "docx" => ("doc", "file"),
        "xls" | "xlsx" => ("xls", "file"),
        "ppt" | "pptx" => ("ppt", "file"),
        _ => ("stream", "file"),
    }
}

fn ending(name: &str) -> String {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.to_ascii_lowercase()
}

/// Converts the failure of a step without an effect.
fn without_effect(error: CallError) -> UploadError {
    UploadError::Call(error.unambiguous())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_ending() {
        let table = [
            ("talk.OPUS", ("opus", "audio")),
            ("film.mp4", ("mp4", "media")),
            ("film.mov", ("stream", "file")),
            ("a.b.docx", ("doc", "file")),
            ("sheet.xls", ("xls", "file")),
            ("slides.pptx", ("ppt", "file")),
            ("page.pdf", ("pdf", "file")),
            ("mp4", ("stream", "file")),
        ];
        for (name, expected) in table {
            assert_eq!(types(name), expected, "{name}");
        }
    }
}
