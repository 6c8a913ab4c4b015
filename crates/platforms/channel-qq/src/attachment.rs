//! Files that come with messages: an address in the message, and the file.
//!
//! QQ's addresses are valid for a short time and need no token, so none goes along, and a redirect
//! is not followed. An event may name any host; files are fetched from public addresses only, and
//! from the host and port of `apiBase`.

use nanobot_channel_kit::attachment::{self, Attachment};
use reqwest::Url;

use crate::api::Api;
use crate::error::Refusal;
use crate::wire::FileEntry;

/// Limit of a file's name in a text, in code points.
const NAME_LIMIT: usize = 100;
const NO_ADDRESS: &str = "QQ gives no usable address for it";

type FetchError = attachment::FetchError<Refusal>;

/// Reads a file of a message. `None` without an address.
pub(crate) fn file_of(entry: &FileEntry) -> Option<Attachment> {
    let mime = entry.content_type.trim().to_ascii_lowercase();
    let kind = match mime.split('/').next().unwrap_or_default() {
        "image" => "image",
        "voice" | "audio" => "voice",
        "video" => "video",
        _ => "file",
    };
    let is_recording = kind == "voice";
    let common = is_recording.then_some(entry.voice_wav_url.trim());
    let common = common.filter(|url| !url.is_empty());
    let source = common.unwrap_or(entry.url.trim());
    if source.is_empty() {
        return None;
    }
    let usual = match kind {
        "image" => "image.jpg",
        "voice" if common.is_some() => "voice.wav",
        "voice" => "voice.silk",
        "video" => "video.mp4",
        _ => "file",
    };
    let name = match entry.filename.trim() {
        name if name.is_empty() || common.is_some() => usual,
        name => name,
    };
    Some(Attachment {
        kind,
        id: source.to_owned(),
        name: name.to_owned(),
        mime: mime.contains('/').then_some(mime.clone()),
        // The length of the common format is another one.
        size: Some(entry.size).filter(|size| *size > 0 && common.is_none()),
        source: Some(source.to_owned()),
        is_image: kind == "image",
        is_speech: is_recording,
    })
}

/// Returns the marker of a file that could not be stored.
pub(crate) fn failure_marker(file: &Attachment) -> String {
    let name = file.name.replace(|c: char| c.is_control() || c == ']', " ");
    let name: String = name.chars().take(NAME_LIMIT).collect();
    match file.kind {
        "file" => format!("[file: {name}: download failed]"),
        kind => format!("[{kind}: download failed]"),
    }
}

/// Downloads a file of at most `limit` bytes.
pub(crate) async fn fetch(api: &Api, file: &Attachment, limit: u64) -> Result<Vec<u8>, FetchError> {
    let address = file.source.as_deref().and_then(usable);
    let address = address.ok_or(FetchError::NoAddress(NO_ADDRESS))?;
    let response = api.download(address).await?;
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let length = response.content_length();
    if length.is_some_and(|length| length > limit) {
        return Err(FetchError::TooLarge { limit });
    }
    let bytes = api.rest.body_within(response, limit).await?;
    bytes.ok_or(FetchError::TooLarge { limit })
}

/// Returns an address, which may lack its scheme.
fn usable(address: &str) -> Option<Url> {
    let address = match address.strip_prefix("//") {
        Some(rest) => Url::parse(&format!("https://{rest}")),
        None if address.contains("://") => Url::parse(address),
        None => Url::parse(&format!("https://{address}")),
    };
    let address = address.ok()?;
    matches!(address.scheme(), "http" | "https").then_some(address)
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::check_downloads;
    use serde_json::json;

    use super::*;
    use crate::{QqConfig, Secret};

    #[test]
    fn kind_and_name_follow_the_type() {
        let table = [
            (
                json!({"url": "//x.test/a", "content_type": "image/jpeg", "filename": "A.jpg", "size": 9}),
                Some(("image", "A.jpg", Some(9))),
            ),
            (
                json!({"url": "u", "content_type": "voice", "voice_wav_url": "w", "filename": "x.amr", "size": 9}),
                Some(("voice", "voice.wav", None)),
            ),
            (
                json!({"url": "u", "content_type": "voice"}),
                Some(("voice", "voice.silk", None)),
            ),
            (
                json!({"url": "u", "content_type": "video/mp4", "filename": " "}),
                Some(("video", "video.mp4", None)),
            ),
            (
                json!({"url": "u", "content_type": "file", "filename": "../x"}),
                Some(("file", "../x", None)),
            ),
            (json!({"url": "u"}), Some(("file", "file", None))),
            (json!({"content_type": "image/png"}), None),
        ];
        for (entry, expected) in table {
            let file = file_of(&serde_json::from_value(entry.clone()).unwrap());
            let found = file
                .as_ref()
                .map(|file| (file.kind, file.name.as_str(), file.size));
            assert_eq!(found, expected, "{entry}");
        }
    }

    #[test]
    fn failed_download_is_marked_in_one_line() {
        let entry = json!({"url": "u", "filename": "a]\nb"});
        let file = file_of(&serde_json::from_value(entry).unwrap()).unwrap();
        assert_eq!(failure_marker(&file), "[file: a  b: download failed]");
    }

    #[test]
    fn addresses_may_lack_their_scheme() {
        let table = [
            ("https://x.test/a?b=c", Some("https://x.test/a?b=c")),
            ("//x.test/a", Some("https://x.test/a")),
            ("x.test/a", Some("https://x.test/a")),
            ("http://x.test/", Some("http://x.test/")),
            ("file:///etc/passwd", None),
            ("", None),
        ];
        for (address, expected) in table {
            let found = usable(address).map(String::from);
            assert_eq!(found.as_deref(), expected, "{address}");
        }
    }

    #[tokio::test]
    async fn no_denied_address_of_the_corpus_is_fetched() {
        let fetch = async |proxy: &str, address: &str| {
            let config = QqConfig {
                proxy: Some(Secret::new(proxy)),
                ..QqConfig::default()
            };
            let api = Api::new(&config, None, &[]).unwrap();
            let entry = json!({"url": address, "content_type": "image/png"});
            match file_of(&serde_json::from_value(entry).unwrap()) {
                Some(file) => fetch(&api, &file, 100).await.is_ok(),
                None => false,
            }
        };
        check_downloads(fetch).await.unwrap();
    }
}
