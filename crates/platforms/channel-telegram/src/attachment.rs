//! Files that come with messages.

use std::path::Path;
use std::time::Duration;

use nanobot_channel::{ChannelContext, MediaRef};
use serde::Deserialize;
use teloxide::payloads::GetFile;
use teloxide::types::{FileId, FileMeta, Message, Sticker};

use crate::api::Api;
use crate::error::{CallError, is_transient};

/// Endings by media type, for files that come without a name.
const ENDINGS: &[(&str, &str)] = &[
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("audio/ogg", "ogg"),
    ("audio/mpeg", "mp3"),
    ("audio/mp4", "m4a"),
    ("video/mp4", "mp4"),
];

/// Pauses before a file is asked for again.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// The longest pause that the server may ask for while a message waits.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// A file of a message, not fetched yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// What people call it: `image`, `voice`.
    kind: &'static str,
    id: FileId,
    unique_id: String,
    /// In bytes, as the server says; more than there can be when it does not.
    size: u32,
    name: String,
    mime: Option<String>,
}

/// What became of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// What stands for it in the text.
    pub(crate) marker: String,
    /// The file, when it is an image that was kept.
    pub(crate) image: Option<MediaRef>,
}

impl Attachment {
    /// The file of a message, the largest form of a photo.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        if let Some(photo) = message
            .photo()
            .and_then(|sizes| sizes.iter().max_by_key(|size| size.width * size.height))
        {
            return Some(Self::new("image", &photo.file, None, Some("image/jpeg")));
        }
        if let Some(voice) = message.voice() {
            let mime = voice
                .mime_type
                .as_ref()
                .map_or("audio/ogg", |mime| mime.essence_str());
            return Some(Self::new("voice", &voice.file, None, Some(mime)));
        }
        if let Some(audio) = message.audio() {
            let mime = audio
                .mime_type
                .as_ref()
                .map_or("audio/mpeg", |mime| mime.essence_str());
            return Some(Self::new(
                "audio",
                &audio.file,
                audio.file_name.as_deref(),
                Some(mime),
            ));
        }
        if let Some(video) = message.video() {
            let mime = video
                .mime_type
                .as_ref()
                .map_or("video/mp4", |mime| mime.essence_str());
            return Some(Self::new(
                "video",
                &video.file,
                video.file_name.as_deref(),
                Some(mime),
            ));
        }
        if let Some(note) = message.video_note() {
            return Some(Self::new("video", &note.file, None, Some("video/mp4")));
        }
        // An animation comes as a document too, so it is looked for first.
        if let Some(animation) = message.animation() {
            let mime = animation
                .mime_type
                .as_ref()
                .map_or("video/mp4", |mime| mime.essence_str());
            return Some(Self::new(
                "animation",
                &animation.file,
                animation.file_name.as_deref(),
                Some(mime),
            ));
        }
        if let Some(sticker) = message.sticker().filter(|sticker| is_picture(sticker)) {
            return Some(Self::new(
                "image",
                &sticker.file,
                Some("sticker.webp"),
                Some("image/webp"),
            ));
        }
        let document = message.document()?;
        let mime = document.mime_type.as_ref().map(|mime| mime.essence_str());
        let kind = if mime.is_some_and(|mime| mime.starts_with("image/")) {
            "image"
        } else {
            "file"
        };
        Some(Self::new(
            kind,
            &document.file,
            document.file_name.as_deref(),
            mime,
        ))
    }

    fn new(kind: &'static str, file: &FileMeta, name: Option<&str>, mime: Option<&str>) -> Self {
        let ending = ENDINGS
            .iter()
            .find(|(known, _)| Some(*known) == mime)
            .map(|(_, ending)| *ending);
        let name = match (name, ending) {
            (Some(name), _) if Path::new(name).extension().is_some() => name.to_owned(),
            (name, Some(ending)) => format!("{}.{ending}", name.unwrap_or(kind)),
            (name, None) => name.unwrap_or(kind).to_owned(),
        };
        Self {
            kind,
            id: file.id.clone(),
            unique_id: file.unique_id.0.clone(),
            size: file.size,
            name,
            mime: mime.map(str::to_owned),
        }
    }

    /// Fetches and keeps it, for somebody who may talk. What fails is said in the text.
    pub(crate) async fn keep(&self, api: &Api, context: &ChannelContext) -> Kept {
        match self.fetch(api, context).await {
            Ok(media) => {
                let words = self.transcribe(&media, context).await;
                let file = || format!("[{}: {}]", self.kind, media.location);
                let marker = words.map_or_else(file, |words| format!("[transcription: {words}]"));
                Kept {
                    marker,
                    image: Some(media).filter(|_| self.kind == "image"),
                }
            }
            Err(error) => {
                tracing::warn!(error = %error, kind = self.kind, "a file of a message could not be fetched");
                Kept {
                    marker: format!("[{}: download failed]", self.kind),
                    image: None,
                }
            }
        }
    }

    async fn fetch(&self, api: &Api, context: &ChannelContext) -> Result<MediaRef, FetchError> {
        let limit = context.media.limit();
        if self.size != u32::MAX && u64::from(self.size) > limit {
            return Err(FetchError::TooLarge { limit });
        }
        let bytes = self.download(api, limit, context).await?;
        Ok(context
            .media
            .keep(&self.unique_id, &self.name, self.mime.as_deref(), &bytes)
            .await?)
    }

    /// Downloads it. What the message waits for is tried a few times, because there is no other way
    /// to the file later.
    async fn download(
        &self,
        api: &Api,
        limit: u64,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let error = match self.download_once(api, limit, context).await {
                Err(FetchError::Call(error)) if is_transient(&error) => error,
                outcome => return outcome,
            };
            let Some(pause) = pauses.next() else {
                return Err(error.into());
            };
            let wanted = error.retry_after().unwrap_or(pause);
            if wanted > LONGEST_PAUSE {
                return Err(error.into());
            }
            tokio::time::sleep(wanted).await;
        }
    }

    async fn download_once(
        &self,
        api: &Api,
        limit: u64,
        context: &ChannelContext,
    ) -> Result<Vec<u8>, FetchError> {
        let file: RemoteFile = api.call(&GetFile::new(self.id.clone())).await?;
        // Files may take long: that they come is a sign of life.
        context.progress.alive();
        let path = file.file_path.ok_or(FetchError::NoPath)?;
        let bytes = api.download(&path, limit).await?;
        context.progress.alive();
        Ok(bytes)
    }

    /// What is said in it, if it is speech and somebody writes it down.
    async fn transcribe(&self, media: &MediaRef, context: &ChannelContext) -> Option<String> {
        let transcriber = context
            .transcriber
            .as_ref()
            .filter(|_| matches!(self.kind, "voice" | "audio"))?;
        let written = transcriber.transcribe(media).await;
        context.progress.alive();
        match written {
            Ok(words) => Some(words.trim().to_owned()).filter(|words| !words.is_empty()),
            Err(error) => {
                tracing::warn!(%error, "a recording has no text; it is shown as a file");
                None
            }
        }
    }
}

/// Stickers may also be animations.
fn is_picture(sticker: &Sticker) -> bool {
    !sticker.flags.is_animated && !sticker.flags.is_video
}

/// What is needed of the API's `File`.
#[derive(Debug, Deserialize)]
struct RemoteFile {
    file_path: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("it is larger than the {limit} bytes that are allowed")]
    TooLarge { limit: u64 },
    #[error("the server has no path for it")]
    NoPath,
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Media(#[from] nanobot_channel::MediaError),
}
