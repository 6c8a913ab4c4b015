//! Files that come with messages: an `mxc://` address, and in encrypted rooms a key.

use nanobot_channel::Value;
use nanobot_channel_kit::attachment::{self, Attachment};
use reqwest::Response;

use crate::api::{Api, Path};
use crate::encrypted_file::FileKey;
use crate::error::Refusal;
use crate::wire::{cut, member, text};

pub(crate) type FetchError = attachment::FetchError<Refusal>;

/// Limit of a file's name in a text, in code points.
const NAME_LIMIT: usize = 100;
/// Longest name that is used, in bytes.
const MAX_NAME_LENGTH: usize = 1024;
const NO_ADDRESS: &str = "the message has no usable address for it";
const WRONG_HASH: &str = "it is not the file that was sent: its hash is another one";

/// The source of a file, as [`Attachment::source`] holds it.
#[derive(Debug, PartialEq)]
struct Source {
    server: String,
    media: String,
    key: Option<FileKey>,
}

/// Reads the file of a message or a sticker. `None` if it has none.
pub(crate) fn file_of(kind: &str, content: &Value) -> Option<Attachment> {
    let info = member(content, "info");
    let mime = Some(cut(text(info, "mimetype"), 255)).filter(|mime| mime.contains('/'));
    let is_voice =
        content.get("org.matrix.msc3245.voice").is_some() || content.get("m.voice").is_some();
    let (kind, usual) = match kind {
        "m.image" => ("image", "image.jpg"),
        "m.sticker" => ("sticker", "sticker.png"),
        "m.audio" if is_voice => ("voice", "voice.ogg"),
        "m.audio" => ("audio", "audio.ogg"),
        "m.video" => ("video", "video.mp4"),
        "m.file" => ("file", "file"),
        _ => return None,
    };
    let name = [text(content, "filename"), text(content, "body")];
    let name = name.into_iter().find(|name| !name.trim().is_empty());
    let name = name.map_or(usual, |name| cut(name.trim(), MAX_NAME_LENGTH));
    let name = match kind {
        "sticker" => usual,
        _ => name,
    };
    let file = member(content, "file");
    let source = if file.is_object() {
        file.to_string()
    } else {
        text(content, "url").to_owned()
    };
    if source.is_empty() {
        return None;
    }
    Some(Attachment {
        kind,
        id: address(&source).map_or_else(String::new, |source| source.media),
        name: name.to_owned(),
        mime: mime.map(str::to_ascii_lowercase),
        size: member(info, "size").as_u64(),
        source: Some(source),
        is_image: matches!(kind, "image" | "sticker"),
        is_speech: matches!(kind, "voice" | "audio"),
    })
}

/// Returns the caption of a file: its text, if the file has a name besides.
pub(crate) fn caption(content: &Value) -> Option<&str> {
    let (body, name) = (text(content, "body"), text(content, "filename"));
    let is_caption = !name.is_empty() && !body.trim().is_empty() && body != name;
    is_caption.then_some(body)
}

/// Returns the marker of a file that could not be stored.
pub(crate) fn failure_marker(file: &Attachment, error: &FetchError) -> String {
    let why = if error.is_about_size() {
        "too large"
    } else {
        "download failed"
    };
    let name = file.name.replace(|c: char| c.is_control() || c == ']', " ");
    let name: String = name.chars().take(NAME_LIMIT).collect();
    format!("[{}: {name} - {why}]", file.kind)
}

/// Downloads a file of at most `limit` bytes, and decrypts it if it has a key.
pub(crate) async fn fetch(api: &Api, file: &Attachment, limit: u64) -> Result<Vec<u8>, FetchError> {
    let source = file.source.as_deref().and_then(address);
    let source = source.ok_or(FetchError::NoAddress(NO_ADDRESS))?;
    let response = download(api, &source).await?;
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let length = response.content_length();
    if length.is_some_and(|length| length > limit) {
        return Err(FetchError::TooLarge { limit });
    }
    let bytes = api.rest.body_within(response, limit).await?;
    let bytes = bytes.ok_or(FetchError::TooLarge { limit })?;
    match source.key {
        Some(key) => key.decrypt(bytes).ok_or(FetchError::NoAddress(WRONG_HASH)),
        None => Ok(bytes),
    }
}

/// Begins a download, with the calls of newer and of older homeservers.
async fn download(api: &Api, source: &Source) -> Result<Response, FetchError> {
    let (server, media) = (source.server.as_str(), source.media.as_str());
    let newer = [
        "_matrix", "client", "v1", "media", "download", server, media,
    ];
    let response = api.download(Path::new(&newer)).await?;
    if response.status().as_u16() != 404 {
        return Ok(response);
    }
    let older = Path {
        segments: &["_matrix", "media", "v3", "download", server, media],
        query: &[("allow_remote", "true")],
    };
    Ok(api.download(older).await?)
}

/// Reads a source: the address of a file, or the `file` of an encrypted one.
fn address(source: &str) -> Option<Source> {
    let (url, key) = if source.starts_with('{') {
        let file: Value = nanobot_channel::json::from_str(source).ok()?;
        let key = FileKey::read(&file)?;
        (text(&file, "url").to_owned(), Some(key))
    } else {
        (source.to_owned(), None)
    };
    let (server, media) = url.strip_prefix("mxc://")?.split_once('/')?;
    let is_server = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    let is_media = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_usable = (1..=255).contains(&server.len())
        && (1..=255).contains(&media.len())
        && server.chars().all(is_server)
        && server.chars().any(|c| c.is_ascii_alphanumeric())
        && media.chars().all(is_media);
    is_usable.then(|| Source {
        server: server.to_owned(),
        media: media.to_owned(),
        key,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kind_and_name_follow_the_message() {
        let table = [
            (
                "m.image",
                json!({"body": "a cat", "filename": "../A.png", "url": "mxc://x.test/abc",
                    "info": {"mimetype": "image/PNG", "size": 9}}),
                Some(("image", "../A.png", Some("image/png"), Some(9), true, false)),
            ),
            (
                "m.audio",
                json!({"body": "", "url": "mxc://x.test/abc", "org.matrix.msc3245.voice": {}}),
                Some(("voice", "voice.ogg", None, None, false, true)),
            ),
            (
                "m.sticker",
                json!({"body": "hello there", "url": "mxc://x.test/abc"}),
                Some(("sticker", "sticker.png", None, None, true, false)),
            ),
            (
                "m.file",
                json!({"body": "a.pdf", "url": "x", "info": {"mimetype": 5, "size": -1}}),
                Some(("file", "a.pdf", None, None, false, false)),
            ),
            ("m.file", json!({"body": "a.pdf", "url": 5}), None),
            ("m.text", json!({"body": "x"}), None),
        ];
        for (kind, content, expected) in table {
            let file = file_of(kind, &content);
            let found = file.as_ref().map(|file| {
                (
                    file.kind,
                    file.name.as_str(),
                    file.mime.as_deref(),
                    file.size,
                    file.is_image,
                    file.is_speech,
                )
            });
            assert_eq!(found, expected, "{content}");
        }
    }

    #[test]
    fn caption_is_the_text_next_to_a_name() {
        let caption = |content: Value| caption(&content).map(str::to_owned);
        assert_eq!(
            caption(json!({"body": "look", "filename": "a.png"})),
            Some("look".to_owned())
        );
        assert_eq!(caption(json!({"body": "a.png", "filename": "a.png"})), None);
        assert_eq!(caption(json!({"body": "a.png"})), None);
    }

    #[test]
    fn only_media_addresses_are_fetched() {
        for (source, is_usable) in [
            ("mxc://x.test/aB-_9", true),
            ("mxc://[::1]:80/a", true),
            ("mxc://x.test/..", false),
            ("mxc://../a", false),
            ("mxc://x.test/a/b", false),
            ("mxc://x.test/a?b", false),
            ("https://x.test/a", false),
            ("{\"url\":\"mxc://x.test/a\"}", false),
            ("{", false),
            ("", false),
        ] {
            assert_eq!(address(source).is_some(), is_usable, "{source}");
        }
        let file = FileKey::encrypt(&mut [1]).to_file("mxc://x.test/a");
        assert!(address(&file.to_string()).unwrap().key.is_some());
    }

    #[test]
    fn failed_download_is_marked_in_one_line() {
        let content = json!({"body": "a]\nb", "url": "mxc://x.test/a"});
        let file = file_of("m.file", &content).unwrap();
        let error = FetchError::Status(404);
        assert_eq!(
            failure_marker(&file, &error),
            "[file: a  b - download failed]"
        );
        let error = FetchError::TooLarge { limit: 5 };
        assert_eq!(failure_marker(&file, &error), "[file: a  b - too large]");
    }
}
