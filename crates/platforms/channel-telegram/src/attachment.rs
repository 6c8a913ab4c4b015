//! Files that come with messages.

use std::path::Path;
use std::time::Duration;

use nanobot_channel::ChannelContext;
use nanobot_channel_kit::attachment::{self, Attachment};
use serde::Deserialize;
use teloxide::payloads::GetFile;
use teloxide::types::{FileId, FileMeta, Message, Sticker};

use crate::api::Api;
use crate::error::{CallError, Refusal, is_transient};

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

pub(crate) type FetchError = attachment::FetchError<Refusal>;

/// Returns the file of a message, the largest form of a photo.
pub(crate) fn parse(message: &Message) -> Option<Attachment> {
    if let Some(photo) = message
        .photo()
        .and_then(|sizes| sizes.iter().max_by_key(|size| size.width * size.height))
    {
        return Some(file("image", &photo.file, None, Some("image/jpeg")));
    }
    if let Some(voice) = message.voice() {
        let mime = voice
            .mime_type
            .as_ref()
            .map_or("audio/ogg", |mime| mime.essence_str());
        return Some(file("voice", &voice.file, None, Some(mime)));
    }
    if let Some(audio) = message.audio() {
        let mime = audio
            .mime_type
            .as_ref()
            .map_or("audio/mpeg", |mime| mime.essence_str());
        return Some(file(
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
        return Some(file(
            "video",
            &video.file,
            video.file_name.as_deref(),
            Some(mime),
        ));
    }
    if let Some(note) = message.video_note() {
        return Some(file("video", &note.file, None, Some("video/mp4")));
    }
    // An animation comes as a document too, so it is looked for first.
    if let Some(animation) = message.animation() {
        let mime = animation
            .mime_type
            .as_ref()
            .map_or("video/mp4", |mime| mime.essence_str());
        return Some(file(
            "animation",
            &animation.file,
            animation.file_name.as_deref(),
            Some(mime),
        ));
    }
    if let Some(sticker) = message.sticker().filter(|sticker| is_picture(sticker)) {
        return Some(file(
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
    Some(file(
        kind,
        &document.file,
        document.file_name.as_deref(),
        mime,
    ))
}

fn file(kind: &'static str, file: &FileMeta, name: Option<&str>, mime: Option<&str>) -> Attachment {
    let ending = ENDINGS
        .iter()
        .find(|(known, _)| Some(*known) == mime)
        .map(|(_, ending)| *ending);
    let name = match (name, ending) {
        (Some(name), _) if Path::new(name).extension().is_some() => name.to_owned(),
        (name, Some(ending)) => format!("{}.{ending}", name.unwrap_or(kind)),
        (name, None) => name.unwrap_or(kind).to_owned(),
    };
    Attachment {
        kind,
        id: file.unique_id.0.clone(),
        name,
        mime: mime.map(str::to_owned),
        // The largest number means that the server does not say it.
        size: Some(file.size)
            .filter(|size| *size != u32::MAX)
            .map(u64::from),
        source: Some(file.id.0.clone()),
        is_image: kind == "image",
        is_speech: matches!(kind, "voice" | "audio"),
    }
}

/// Downloads a file. A message that waits for it tries a few times, because there is no other way
/// to the file later.
pub(crate) async fn fetch(
    api: &Api,
    file: &Attachment,
    context: &ChannelContext,
) -> Result<Vec<u8>, FetchError> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let error = match fetch_once(api, file, context).await {
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

async fn fetch_once(
    api: &Api,
    file: &Attachment,
    context: &ChannelContext,
) -> Result<Vec<u8>, FetchError> {
    let id = FileId(file.source.clone().unwrap_or_default());
    let file: Result<RemoteFile, CallError> = api.call(&GetFile::new(id)).await;
    let path = file?
        .file_path
        .ok_or(FetchError::NoAddress("the server has no path for it"))?;
    // Files may take long: that they come is a sign of life.
    context.progress.alive();
    let bytes = api.download(&path, context.media.limit()).await?;
    context.progress.alive();
    Ok(bytes)
}

/// Stickers may also be animations.
fn is_picture(sticker: &Sticker) -> bool {
    !sticker.flags.is_animated && !sticker.flags.is_video
}

/// The used fields of the API's `File`.
#[derive(Debug, Deserialize)]
struct RemoteFile {
    file_path: Option<String>,
}
