//! Files on their way out.

use nanobot_channel::MediaRef;
use nanobot_channel_kit::upload;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::error::Refusal;

/// The largest file that is tried, in bytes. Servers with fewer boosts take less, and say so.
const LARGEST: u64 = 25 << 20;

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

/// Returns a message with a file, as the body of a request.
pub(crate) async fn form(media: &MediaRef, mut message: Value) -> Result<Form, UploadError> {
    let bytes = upload::read(media, LARGEST, "Discord").await?;
    let name = upload::file_name(media);
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
