//! Files that come with messages: the bridge downloads and decrypts them when they are asked for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_channel::Value;
use nanobot_channel_kit::attachment::{self, Attachment};
use serde_json::json;

use crate::client::Client;
use crate::error::{CallError, Refusal};
use crate::wire::{flag, given, number, text};

/// Longest name of a file in the protocol, in bytes.
const REF_LIMIT: usize = 256;
/// Beginning of the sources of version 1: the path of a file follows.
pub(crate) const LOCAL: &str = "path ";

pub(crate) type FetchError = attachment::FetchError<Refusal>;

/// Reads a file of a message. `None` if the bridge does not name it.
pub(crate) fn file_of(media: &Value) -> Option<Attachment> {
    let source = given(media, "ref").filter(|name| name.len() <= REF_LIMIT)?;
    let (kind, usual) = match text(media, "kind") {
        "image" => ("image", "image.jpg"),
        "video" => ("video", "video.mp4"),
        "audio" => ("audio", "audio.mp3"),
        "voice" => ("voice", "voice.ogg"),
        "sticker" => ("sticker", "sticker.webp"),
        _ => ("file", "file"),
    };
    Some(Attachment {
        kind,
        id: source.to_owned(),
        name: given(media, "name").unwrap_or(usual).to_owned(),
        mime: given(media, "mime").map(str::to_owned),
        size: number(media, "size"),
        source: Some(source.to_owned()),
        is_image: matches!(kind, "image" | "sticker"),
        is_speech: kind == "voice",
    })
}

/// Reads the path of a file, as version 1 gives it.
pub(crate) fn local_file_of(media: &Value) -> Option<Attachment> {
    let path = media.as_str().filter(|path| !path.trim().is_empty())?;
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let ending = ending.to_ascii_lowercase();
    let is_image = ["jpg", "jpeg", "png", "gif", "webp"].contains(&ending.as_str());
    Some(Attachment {
        kind: if is_image { "image" } else { "file" },
        id: name.to_owned(),
        name: name.to_owned(),
        source: Some(format!("{LOCAL}{path}")),
        is_image,
        ..Attachment::default()
    })
}

/// Fetches a file of at most `limit` bytes, piece by piece.
pub(crate) async fn fetch(
    client: &Client,
    source: &str,
    limit: u64,
) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len();
        let request = json!({"type": "fetch", "ref": source, "offset": offset});
        let chunk = client.call(request).await?;
        let is_too_large = number(&chunk, "size").is_some_and(|size| size > limit);
        if is_too_large {
            return Err(FetchError::TooLarge { limit });
        }
        let piece = decoded(&chunk, offset).map_err(CallError::Misunderstood)?;
        let is_last = flag(&chunk, "last");
        if piece.is_empty() && !is_last {
            let why = "a piece of a file is empty".to_owned();
            return Err(CallError::Misunderstood(why).into());
        }
        bytes.extend(piece);
        if bytes.len() as u64 > limit {
            return Err(FetchError::TooLarge { limit });
        }
        if is_last {
            return Ok(bytes);
        }
    }
}

fn decoded(chunk: &Value, offset: usize) -> Result<Vec<u8>, String> {
    if number(chunk, "offset") != u64::try_from(offset).ok() {
        return Err("a piece of a file is another one".to_owned());
    }
    let data = STANDARD.decode(text(chunk, "data"));
    data.map_err(|_unreadable| "a piece of a file is not in base64".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_by_its_kind() {
        let read = |media: Value| {
            let file = file_of(&media)?;
            Some((
                file.kind,
                file.name,
                file.size,
                file.is_image,
                file.is_speech,
            ))
        };
        let is = |kind, name: &str, size, is_image, is_speech| {
            Some((kind, name.to_owned(), size, is_image, is_speech))
        };
        let image = json!({"ref": "m1-0", "kind": "image", "name": "", "size": 5});
        assert_eq!(read(image), is("image", "image.jpg", Some(5), true, false));
        let voice = json!({"ref": "m1-0", "kind": "voice", "size": "5"});
        assert_eq!(read(voice), is("voice", "voice.ogg", None, false, true));
        let file = json!({"ref": "m1-0", "kind": "of_tomorrow", "name": "../a.pdf"});
        assert_eq!(read(file), is("file", "../a.pdf", None, false, false));
        for media in [json!({}), json!({"ref": "x".repeat(257)}), json!("x")] {
            assert_eq!(read(media), None);
        }
    }

    #[test]
    fn pieces_have_to_follow_each_other() {
        let chunk = |offset: Value, data: &str| json!({"offset": offset, "data": data});
        assert_eq!(decoded(&chunk(json!(3), "aGk="), 3), Ok(b"hi".to_vec()));
        assert_eq!(decoded(&chunk(json!(0), ""), 0), Ok(Vec::new()));
        for (offset, data) in [(json!(2), "aGk="), (json!(null), "aGk="), (json!(3), "***")] {
            assert!(decoded(&chunk(offset, data), 3).is_err(), "{data}");
        }
    }
}
