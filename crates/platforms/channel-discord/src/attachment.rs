//! Files that come with messages.

use nanobot_channel::{ChannelContext, MediaError, MediaRef, TranscribeError};
use serenity::model::channel::{Attachment, Message, MessageFlags};

use crate::api::Api;
use crate::error::{CallError, Refusal};

/// What became of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// What stands for it in the text.
    pub(crate) marker: String,
    /// The file, when it is an image that was kept.
    pub(crate) image: Option<MediaRef>,
}

/// Fetches and keeps a file, for somebody who may talk. What fails is said in the text.
pub(crate) async fn keep(
    attachment: &Attachment,
    message: &Message,
    api: &Api,
    context: &ChannelContext,
) -> Kept {
    let media = match fetch(attachment, api, context).await {
        Ok(media) => media,
        Err(error) => {
            tracing::warn!(%error, "a file of a message could not be kept");
            let why = if error.is_about_size() {
                "too large"
            } else {
                "download failed"
            };
            let name: String = attachment
                .filename
                .chars()
                .filter(|letter| !letter.is_control())
                .collect();
            return Kept {
                marker: format!("[attachment: {name} - {why}]"),
                image: None,
            };
        }
    };
    if message
        .flags
        .is_some_and(|flags| flags.contains(MessageFlags::IS_VOICE_MESSAGE))
        && let Some(transcriber) = &context.transcriber
    {
        match transcriber.transcribe(&media).await {
            // An empty one says nothing, so the recording stays a file.
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                return Kept {
                    marker: format!("[transcription: {text}]"),
                    image: None,
                };
            }
            Err(error @ (TranscribeError::TooLong(_) | TranscribeError::Failed(_))) => {
                tracing::warn!(%error, "a voice message could not be transcribed");
            }
        }
    }
    let is_image = attachment
        .content_type
        .as_deref()
        .is_some_and(|kind| kind.starts_with("image/"));
    Kept {
        marker: format!("[attachment: {}]", media.location),
        image: Some(media).filter(|_| is_image),
    }
}

async fn fetch(
    attachment: &Attachment,
    api: &Api,
    context: &ChannelContext,
) -> Result<MediaRef, FetchError> {
    let limit = context.media.limit();
    if u64::from(attachment.size) > limit {
        return Err(FetchError::TooLarge { limit });
    }
    let bytes = api.download(&attachment.url, limit).await?;
    let mime = attachment.content_type.as_deref();
    Ok(context
        .media
        .keep(
            &attachment.id.to_string(),
            &attachment.filename,
            mime,
            &bytes,
        )
        .await?)
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("it is larger than the {limit} bytes that are allowed")]
    TooLarge { limit: u64 },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl FetchError {
    fn is_about_size(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::Media(MediaError::TooLarge { .. })
                | Self::Call(CallError::Refused(Refusal { status: 413, .. }))
        )
    }
}
