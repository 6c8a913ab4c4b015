//! Files on their way out.

use bytes::Bytes;
use nanobot_channel::{MediaRef, Value};
use nanobot_channel_kit::upload;
use reqwest::Method;
use serde_json::json;

use crate::api::Path;
use crate::encrypted_file::FileKey;
use crate::error::{CallError, Refusal};
use crate::outgoing::Outgoing;
use crate::wire::member;

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

/// Media types by the ending of a name.
const TYPES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("m4a", "audio/mp4"),
    ("wav", "audio/wav"),
    ("flac", "audio/flac"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("mov", "video/quicktime"),
    ("pdf", "application/pdf"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("json", "application/json"),
    ("zip", "application/zip"),
];

impl Outgoing {
    /// Uploads a file for a room, encrypted if the room is. Returns the content of its message.
    pub(crate) async fn upload_file(
        &self,
        room: &str,
        media: &MediaRef,
        own_limit: u64,
    ) -> Result<Value, UploadError> {
        let is_encrypted = self.encryption_of(room).await?.is_some();
        if is_encrypted && let Err(error) = self.encryption.process().await {
            self.encryption.report(&error);
            return Err(CallError::from(error).into());
        }
        let limit = self.upload_limit().await.unwrap_or(own_limit);
        let limit = limit.min(own_limit);
        let mut bytes = upload::read(media, limit, "the homeserver").await?;
        let name = upload::file_name(media);
        let mime = media.mime.as_deref().unwrap_or_else(|| type_of(name));
        let mut content = json!({
            "msgtype": message_type(mime), "body": name, "filename": name, "m.mentions": {},
            "info": {"mimetype": mime, "size": bytes.len()},
        });
        let (key, place) = if is_encrypted {
            let key = FileKey::encrypt(&mut bytes);
            let url = self
                .api
                .upload(None, "application/octet-stream", bytes.into());
            ("file", key.to_file(&url.await?))
        } else {
            let url = self.api.upload(Some(name), mime, Bytes::from(bytes));
            ("url", Value::from(url.await?))
        };
        if let Some(members) = content.as_object_mut() {
            members.insert(key.to_owned(), place);
        }
        Ok(content)
    }

    /// Asks for the largest file that the homeserver takes.
    async fn upload_limit(&self) -> Option<u64> {
        let newer = ["_matrix", "client", "v1", "media", "config"];
        let older = ["_matrix", "media", "v3", "config"];
        for path in [&newer[..], &older[..]] {
            match self.api.call(Method::GET, Path::new(path), None).await {
                Ok(config) => return member(&config, "m.upload.size").as_u64(),
                Err(error) if error.is(Refusal::is_missing) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

fn type_of(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    let known = TYPES.iter().find(|(known, _)| *known == ending);
    known.map_or("application/octet-stream", |(_, mime)| mime)
}

fn message_type(mime: &str) -> &'static str {
    match mime.split('/').next().unwrap_or_default() {
        // A client may run the scripts of other pictures.
        "image" if mime != "image/svg+xml" => "m.image",
        "audio" => "m.audio",
        "video" => "m.video",
        _ => "m.file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_type_follows_the_name() {
        for (name, expected) in [
            ("a.PNG", "m.image"),
            ("a.svg", "m.file"),
            ("a.ogg", "m.audio"),
            ("a.mp4", "m.video"),
            ("a.pdf", "m.file"),
            ("a", "m.file"),
        ] {
            assert_eq!(message_type(type_of(name)), expected, "{name}");
        }
    }
}
