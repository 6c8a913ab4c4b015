//! Files that come with messages: fetched, kept, named in the text, transcribed.

use std::future::Future;

use nanobot_channel::{ChannelContext, MediaError, MediaRef};

use crate::call::{CallError, Refusal};

/// The reason why a file was not kept.
#[derive(Debug, thiserror::Error)]
pub enum FetchError<R: Refusal> {
    /// It is larger than the limit.
    #[error("it is larger than the {limit} bytes that are allowed")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It cannot be fetched from where the platform says it is, or the platform does not say it.
    #[error("{0}")]
    NoAddress(&'static str),
    /// The platform answered with another HTTP status.
    #[error("the file cannot be fetched: status {0}")]
    Status(u16),
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError<R>),
    /// It could not be stored.
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl<R: Refusal> FetchError<R> {
    /// `true` if the file is too large, for us or for the platform.
    #[must_use]
    pub fn is_about_size(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. } | Self::Status(413) | Self::Media(MediaError::TooLarge { .. })
        )
    }
}

/// A file of a message, not fetched yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// The word for it in the text: `image`, `voice`, `file`.
    pub kind: &'static str,
    /// The platform's id of the file.
    pub id: String,
    /// The sender's name for it.
    pub name: String,
    /// Its media type, as the platform says.
    pub mime: Option<String>,
    /// Its length in bytes, where the platform says it.
    pub size: Option<u64>,
    /// By what the platform gives the file out: an address, or another id.
    pub source: Option<String>,
    /// `true` if a model may be shown it.
    pub is_image: bool,
    /// `true` for a recording to be transcribed.
    pub is_speech: bool,
}

/// An attachment that was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAttachment {
    /// Its place in the text.
    pub marker: String,
    /// The file, if it is an image that was kept.
    pub image: Option<MediaRef>,
}

impl Attachment {
    /// Fetches and keeps the file, for a sender who may talk. A recording becomes its text, where
    /// it can be transcribed. A failure is logged, and stated in the text by `failure_marker`.
    pub async fn store<R: Refusal>(
        &self,
        context: &ChannelContext,
        fetch: impl Future<Output = Result<Vec<u8>, FetchError<R>>>,
        failure_marker: impl FnOnce(&FetchError<R>) -> String,
    ) -> StoredAttachment {
        let media = match self.fetch_and_store(context, fetch).await {
            Ok(media) => media,
            Err(error) => {
                tracing::warn!(%error, kind = self.kind, "a file of a message could not be kept");
                return StoredAttachment {
                    marker: failure_marker(&error),
                    image: None,
                };
            }
        };
        let words = match self.is_speech {
            true => transcribe(&media, context).await,
            false => None,
        };
        let marker = match words {
            Some(words) => format!("[transcription: {words}]"),
            None => format!("[{}: {}]", self.kind, media.location),
        };
        StoredAttachment {
            marker,
            image: Some(media).filter(|_| self.is_image),
        }
    }

    async fn fetch_and_store<R: Refusal>(
        &self,
        context: &ChannelContext,
        fetch: impl Future<Output = Result<Vec<u8>, FetchError<R>>>,
    ) -> Result<MediaRef, FetchError<R>> {
        let limit = context.media.limit();
        if self.size.is_some_and(|size| size > limit) {
            return Err(FetchError::TooLarge { limit });
        }
        let bytes = fetch.await?;
        let mime = self.mime.as_deref();
        Ok(context
            .media
            .store(&self.id, &self.name, mime, &bytes)
            .await?)
    }
}

/// Returns the words of a recording; `None` without any, or if they cannot be recognised.
pub async fn transcribe(media: &MediaRef, context: &ChannelContext) -> Option<String> {
    match context.transcriber.as_ref()?.transcribe(media).await {
        Ok(words) => Some(words.trim().to_owned()).filter(|words| !words.is_empty()),
        Err(error) => {
            tracing::warn!(%error, "a recording has no text; it is shown as a file");
            None
        }
    }
}
