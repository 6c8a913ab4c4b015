//! Files on their way out.

use std::path::Path;

use nanobot_channel::{Map, MediaRef, Value};
use reqwest::multipart::{Form, Part};
use teloxide::types::MessageId;

use crate::api::Api;
use crate::error::CallError;
use crate::place::Place;

/// The largest file a bot may send, in bytes.
const LARGEST: u64 = 50 << 20;

/// How Telegram shows a file, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Photo,
    Voice,
    Audio,
    Video,
    Document,
}

impl FileKind {
    fn of(name: &str) -> Self {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "jpg" | "jpeg" | "png" | "gif" | "webp" => Self::Photo,
            "ogg" => Self::Voice,
            "mp3" | "m4a" | "wav" | "aac" => Self::Audio,
            "mp4" | "mov" | "avi" | "mkv" | "webm" | "3gp" => Self::Video,
            _ => Self::Document,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Photo => "sendPhoto",
            Self::Voice => "sendVoice",
            Self::Audio => "sendAudio",
            Self::Video => "sendVideo",
            Self::Document => "sendDocument",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::Voice => "voice",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Document => "document",
        }
    }
}

/// Why a file did not go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// It cannot be read here.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// It is larger than Telegram takes.
    #[error("it is larger than the {LARGEST} bytes that Telegram takes")]
    TooLarge,
    /// The server did not take it.
    #[error(transparent)]
    Call(CallError),
}

/// What people call a file: the last piece of its path or address.
pub(crate) fn name_of(media: &MediaRef) -> &str {
    let location = without_query(&media.location);
    location.rsplit(['/', '\\']).find(|piece| !piece.is_empty()).unwrap_or("file")
}

fn is_address(media: &MediaRef) -> bool {
    ["http://", "https://"].iter().any(|scheme| media.location.starts_with(scheme))
}

fn without_query(location: &str) -> &str {
    if location.starts_with("http:") || location.starts_with("https:") {
        location.split(['?', '#']).next().unwrap_or_default()
    } else {
        location
    }
}

/// Sends a file: an address is fetched by Telegram, a local file is uploaded.
pub(crate) async fn send_file(api: &Api, place: &Place, media: &MediaRef) -> Result<Option<MessageId>, UploadError> {
    let name = name_of(media);
    let kind = FileKind::of(name);
    let mut fields = Map::new();
    fields.insert("chat_id".to_owned(), place.chat().into());
    if let Some(thread) = place.thread() {
        fields.insert("message_thread_id".to_owned(), thread.0.0.into());
    }
    if let Some(reply) = place.reply_parameters() {
        fields.insert("reply_parameters".to_owned(), serde_json::to_value(reply).unwrap_or_default());
    }
    if is_address(media) {
        fields.insert(kind.field().to_owned(), media.location.as_str().into());
        return api.call_by_name(kind.method(), &fields).await.map(Some).map_err(UploadError::Call);
    }
    if tokio::fs::metadata(&media.location).await.map_err(UploadError::Unreadable)?.len() > LARGEST {
        return Err(UploadError::TooLarge);
    }
    let bytes = tokio::fs::read(&media.location).await.map_err(UploadError::Unreadable)?;
    let mut form = Form::new();
    for (field, value) in fields {
        let text = if let Value::String(text) = value { text } else { value.to_string() };
        form = form.text(field, text);
    }
    let form = form.part(kind.field(), Part::bytes(bytes).file_name(name.to_owned()));
    api.upload(kind.method(), form).await.map(Some).map_err(UploadError::Call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_how_a_file_is_shown() {
        let table = [
            ("/a/b/Cat.JPG", "Cat.JPG", "sendPhoto"),
            ("https://x.test/a/cat.png?size=1#top", "cat.png", "sendPhoto"),
            ("/a/hi.ogg", "hi.ogg", "sendVoice"),
            ("/a/song.m4a", "song.m4a", "sendAudio"),
            ("C:\\films\\film.mp4", "film.mp4", "sendVideo"),
            ("/a/what?.pdf", "what?.pdf", "sendDocument"),
            ("/a/none", "none", "sendDocument"),
            ("", "file", "sendDocument"),
        ];
        for (location, name, method) in table {
            let media = MediaRef::new(location);
            assert_eq!((name_of(&media), FileKind::of(name_of(&media)).method()), (name, method), "{location}");
        }
    }
}
