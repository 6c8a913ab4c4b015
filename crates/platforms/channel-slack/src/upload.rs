//! Files on their way out: an address to send it to, the bytes, and then the message.

use nanobot_channel::MediaRef;
use nanobot_channel_kit::rest::FILE_TIMEOUT;
use nanobot_channel_kit::upload;
use reqwest::Body;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde::Deserialize;
use slack_morphism::SlackFileId;
use slack_morphism::api::{SlackApiFilesComplete, SlackApiFilesCompleteUploadExternalRequest};

use crate::api::{Api, NoContent};
use crate::error::{CallError, Refusal};
use crate::target::SendTarget;

/// The largest file that Slack takes, in bytes.
const MAX_FILE_SIZE: u64 = 1 << 30;

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

/// Returns the address of a file that is elsewhere; Slack shows what it finds there.
pub(crate) fn address_of(media: &MediaRef) -> Option<&str> {
    upload::is_url(media).then_some(media.location.as_str())
}

/// Sends a local file as a message of its own.
pub(crate) async fn send_file(
    api: &Api,
    target: &SendTarget,
    media: &MediaRef,
) -> Result<(), UploadError> {
    #[derive(Deserialize)]
    struct Ticket {
        upload_url: String,
        file_id: String,
    }
    let length = upload::file_size(media, MAX_FILE_SIZE, "Slack").await?;
    if length == 0 {
        return Err(UploadError::Empty);
    }
    let name = upload::file_name(media);
    let query = [("filename", name), ("length", &length.to_string())];
    // The file is not visible before the last step, so the others can be repeated.
    let ticket: Ticket = api
        .query("files.getUploadURLExternal", &query)
        .await
        .map_err(without_effect)?;
    let file = tokio::fs::File::open(&media.location)
        .await
        .map_err(UploadError::Unreadable)?;
    let request = api
        .rest
        .client()?
        .post(&ticket.upload_url)
        .timeout(api.rest.timeout() + FILE_TIMEOUT);
    let request = request
        .header(CONTENT_TYPE, "application/octet-stream")
        .header(CONTENT_LENGTH, length)
        .body(Body::from(file));
    let response = api.rest.send(request).await.map_err(without_effect)?;
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
        .with_channel_id(target.channel_id())
        .opt_thread_ts(target.thread_ts());
    api.call::<_, NoContent>("files.completeUploadExternal", &request)
        .await?;
    Ok(())
}

/// Converts the failure of a step without an effect.
fn without_effect(error: CallError) -> UploadError {
    UploadError::Call(error.unambiguous())
}
