//! Files on their way out: an upload in chunks, and then a message that names it.
//!
//! An upload is not visible, so it can be repeated.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nanobot_channel::MediaRef;
use nanobot_channel_kit::upload;
use serde_json::json;

use crate::crypto::md5_hex;
use crate::error::{CallError, Refusal};
use crate::gateway::Gateway;
use crate::outgoing::{Outgoing, answered_id};

/// The largest file that WeCom takes, in bytes.
const MAX_FILE_SIZE: u64 = 20 << 20;
/// The largest image and video, and the largest recording, in bytes.
const MAX_SHOWN_SIZE: usize = 10 << 20;
const MAX_VOICE_SIZE: usize = 2 << 20;
/// The smallest file, in bytes.
const MIN_FILE_SIZE: usize = 5;
/// Largest chunk in bytes, before its encoding.
const CHUNK_SIZE: usize = 512 << 10;
/// Longest name of a file, in bytes.
const NAME_LIMIT: usize = 256;
/// The type of every other file.
const FILE: &str = "file";

/// The failure of sending a file.
pub(crate) type UploadError = upload::UploadError<Refusal>;

/// Uploads a local file, and returns the message that shows it. One that is refused as an image, a
/// video or a recording is uploaded as a file. `None` if it is too small for WeCom.
pub(crate) async fn upload_file(
    gateway: &Gateway,
    media: &MediaRef,
) -> Result<Option<Outgoing>, UploadError> {
    let bytes = Bytes::from(upload::read(media, MAX_FILE_SIZE, "WeCom").await?);
    if bytes.len() < MIN_FILE_SIZE {
        return Ok(None);
    }
    let name = short_name(upload::file_name(media));
    let kind = kind_of(&name, &bytes);
    if kind != FILE {
        match upload_as(gateway, kind, &name, &bytes).await {
            Ok(id) => return Ok(Some(Outgoing::media(kind, &id))),
            Err(error) if error.is(Refusal::is_about_the_content) => {
                tracing::debug!(%error, kind, "an upload was refused; it is sent as a file");
            }
            Err(error) => return Err(UploadError::Call(error)),
        }
    }
    let id = upload_as(gateway, FILE, &name, &bytes).await?;
    Ok(Some(Outgoing::media(FILE, &id)))
}

async fn upload_as(
    gateway: &Gateway,
    kind: &str,
    name: &str,
    bytes: &Bytes,
) -> Result<String, CallError> {
    let uploaded = upload_chunks(gateway, kind, name, bytes).await;
    uploaded.map_err(CallError::unambiguous)
}

async fn upload_chunks(
    gateway: &Gateway,
    kind: &str,
    name: &str,
    bytes: &Bytes,
) -> Result<String, CallError> {
    let body = json!({
        "type": kind, "filename": name, "total_size": bytes.len(),
        "total_chunks": bytes.len().div_ceil(CHUNK_SIZE), "md5": md5_hex(bytes),
    });
    let begun = gateway.call("aibot_upload_media_init", body).await?;
    let upload = answered_id(&begun, "upload_id")?;
    for (index, chunk) in bytes.chunks(CHUNK_SIZE).enumerate() {
        let body = json!({
            "upload_id": upload, "chunk_index": index, "base64_data": STANDARD.encode(chunk),
        });
        gateway.call("aibot_upload_media_chunk", body).await?;
    }
    let body = json!({"upload_id": upload});
    let finished = gateway.call("aibot_upload_media_finish", body).await?;
    answered_id(&finished, "media_id")
}

/// Returns the type of an upload. Files that are too large for theirs are files of any kind.
fn kind_of(name: &str, bytes: &[u8]) -> &'static str {
    let (kind, limit) = match ending(name).as_str() {
        "png" | "jpg" | "jpeg" | "gif" => ("image", MAX_SHOWN_SIZE),
        "mp4" => ("video", MAX_SHOWN_SIZE),
        "amr" => ("voice", MAX_VOICE_SIZE),
        _ => return FILE,
    };
    if bytes.len() <= limit { kind } else { FILE }
}

/// Returns a name that WeCom takes, with its ending.
fn short_name(name: &str) -> String {
    if name.len() <= NAME_LIMIT {
        return name.to_owned();
    }
    let ending = ending(name);
    let ending = if ending.is_empty() || ending.len() > 16 {
        String::new()
    } else {
        format!(".{ending}")
    };
    let mut short = String::new();
    for c in name.chars() {
        if short.len() + c.len_utf8() + ending.len() > NAME_LIMIT {
            break;
        }
        short.push(c);
    }
    short + &ending
}

fn ending(name: &str) -> String {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    ending.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_of_an_upload_follows_ending_and_size() {
        let large = vec![0; MAX_SHOWN_SIZE + 1];
        let table: [(&str, &[u8], &str); 8] = [
            ("a.PNG", b"x", "image"),
            ("a.jpeg", b"x", "image"),
            ("a.mp4", b"x", "video"),
            ("a.amr", b"x", "voice"),
            ("a.webp", b"x", "file"),
            ("a", b"x", "file"),
            ("a.png", &large, "file"),
            ("a.amr", &large, "file"),
        ];
        for (name, bytes, kind) in table {
            assert_eq!(kind_of(name, bytes), kind, "{name} {}", bytes.len());
        }
    }

    #[test]
    fn long_name_keeps_its_ending() {
        assert_eq!(short_name("a.txt"), "a.txt");
        let short = short_name(&format!("{}.TXT", "語".repeat(100)));
        assert_eq!(short, format!("{}.txt", "語".repeat(84)));
        let odd = short_name(&format!("a.{}", "x".repeat(300)));
        assert_eq!(odd.len(), NAME_LIMIT);
    }
}
