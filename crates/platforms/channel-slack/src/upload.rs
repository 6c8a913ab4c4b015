//! Files on their way out: an address to send it to, the bytes, and then the message.

use std::path::Path;

use nanobot_channel::MediaRef;
use reqwest::Body;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde::Deserialize;
use slack_morphism::SlackFileId;
use slack_morphism::api::{SlackApiFilesComplete, SlackApiFilesCompleteUploadExternalRequest};

use crate::api::{Api, Done, FILE_TIME};
use crate::error::CallError;
use crate::place::Place;

/// The largest file that Slack takes, in bytes.
const LARGEST: u64 = 1 << 30;

/// Why a file did not go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// It cannot be read here.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// There is nothing in it, which Slack does not take.
    #[error("it is empty")]
    Empty,
    /// It is larger than Slack takes.
    #[error("it is larger than the {LARGEST} bytes that Slack takes")]
    TooLarge,
    /// Slack did not take it.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Where an `http(s)` file is; Slack shows what it finds there.
pub(crate) fn address_of(media: &MediaRef) -> Option<&str> {
    let location = media.location.as_str();
    ["http://", "https://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
        .then_some(location)
}

/// What people call a local file.
pub(crate) fn name_of(media: &MediaRef) -> &str {
    media
        .location
        .rsplit(['/', '\\'])
        .find(|piece| !piece.is_empty())
        .unwrap_or("file")
}

/// Sends a local file as a message of its own.
pub(crate) async fn send_file(
    api: &Api,
    place: &Place,
    media: &MediaRef,
) -> Result<(), UploadError> {
    #[derive(Deserialize)]
    struct Ticket {
        upload_url: String,
        file_id: String,
    }
    let path = Path::new(&media.location);
    let length = tokio::fs::metadata(path)
        .await
        .map_err(UploadError::Unreadable)?
        .len();
    match length {
        0 => return Err(UploadError::Empty),
        length if length > LARGEST => return Err(UploadError::TooLarge),
        _ => {}
    }
    let name = name_of(media);
    let query = [("filename", name), ("length", &length.to_string())];
    // Nobody sees anything of the file before the last step, so the others can be repeated.
    let ticket: Ticket = api
        .ask("files.getUploadURLExternal", &query)
        .await
        .map_err(closed)?;
    let file = tokio::fs::File::open(path)
        .await
        .map_err(UploadError::Unreadable)?;
    let request = api
        .client()?
        .post(&ticket.upload_url)
        .timeout(api.timeout + FILE_TIME);
    let request = request
        .header(CONTENT_TYPE, "application/octet-stream")
        .header(CONTENT_LENGTH, length)
        .body(Body::from(file));
    let response = api.send(request).await.map_err(closed)?;
    if !response.status().is_success() {
        return Err(CallError::Unreachable(format!(
            "Slack answered {} to the bytes of a file",
            response.status()
        ))
        .into());
    }
    let complete =
        SlackApiFilesComplete::new(SlackFileId::new(ticket.file_id)).with_title(name.to_owned());
    let request = SlackApiFilesCompleteUploadExternalRequest::new(vec![complete])
        .with_channel_id(place.channel_id())
        .opt_thread_ts(place.thread_ts());
    api.call::<_, Done>("files.completeUploadExternal", &request)
        .await?;
    Ok(())
}

/// The failure of a step that leaves nothing behind.
fn closed(error: CallError) -> UploadError {
    UploadError::Call(match error {
        CallError::Interrupted(why) => CallError::Unreachable(why),
        other => other,
    })
}
