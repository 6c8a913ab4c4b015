//! Files that come with messages.

use nanobot_channel_kit::attachment::{self, Attachment};
use serenity::model::channel::{Attachment as Described, Message, MessageFlags};

use crate::api::Api;
use crate::error::{CallError, Refusal};

pub(crate) type FetchError = attachment::FetchError<Refusal>;

/// Reads a file as its message describes it.
pub(crate) fn parse(file: &Described, message: &Message) -> Attachment {
    let mime = file.content_type.clone();
    let is_voice = |flags: MessageFlags| flags.contains(MessageFlags::IS_VOICE_MESSAGE);
    Attachment {
        kind: "attachment",
        id: file.id.to_string(),
        name: file.filename.clone(),
        size: Some(file.size.into()),
        source: Some(file.url.clone()),
        is_image: mime
            .as_deref()
            .is_some_and(|mime| mime.starts_with("image/")),
        is_speech: message.flags.is_some_and(is_voice),
        mime,
    }
}

/// Returns the marker of a file that could not be stored.
pub(crate) fn failure_marker(file: &Attachment, error: &FetchError) -> String {
    let is_too_large = error.is_about_size()
        || matches!(
            error,
            FetchError::Call(CallError::Refused(Refusal { status: 413, .. }))
        );
    let why = if is_too_large {
        "too large"
    } else {
        "download failed"
    };
    let name: String = file
        .name
        .chars()
        .filter(|letter| !letter.is_control())
        .collect();
    format!("[attachment: {name} - {why}]")
}

/// Downloads a file of at most `limit` bytes.
pub(crate) async fn fetch(api: &Api, file: &Attachment, limit: u64) -> Result<Vec<u8>, FetchError> {
    let address = file.source.as_deref().unwrap_or_default();
    Ok(api.download(address, limit).await?)
}
