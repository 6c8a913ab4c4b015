//! Files that come with messages: an address, a key, and the encrypted file.
//!
//! WeCom's addresses are valid for five minutes and need no token. Redirects are not followed.
//! Files are fetched from public addresses only, and from the host and port of `wsUrl`. If `wsUrl`
//! is on this machine, all its ports are allowed, because the whole platform is local then. The
//! length and the name of a file are known from the headers of its download only.

use std::sync::Arc;

use nanobot_channel::Value;
use nanobot_channel_kit::attachment::{self, Attachment};
use reqwest::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use reqwest::{Response, Url};

use crate::crypto::{PADDING_BLOCK, decrypt, md5_hex};
use crate::disposition::file_name;
use crate::error::Refusal;
use crate::file_names::FileNames;
use crate::gateway::Gateway;
use crate::wire::given;

const NO_ADDRESS: &str = "WeCom gives no usable address for it";
const NO_FILE: &str = "WeCom gave a page in place of the file";
const WRONG_KEY: &str = "it cannot be decrypted: its key or its padding is wrong";

type FetchError = attachment::FetchError<Refusal>;

/// Reads the file of a message or of one of its items. `None` without an address.
pub(crate) fn file_of(kind: &str, content: &Value) -> Option<Attachment> {
    let (kind, usual) = match kind {
        "image" => ("image", "image.jpg"),
        "voice" => ("voice", "voice.amr"),
        "video" => ("video", "video.mp4"),
        "file" => ("file", "file"),
        _ => return None,
    };
    let address = given(content, "url")?;
    let key = given(content, "aeskey").unwrap_or_default();
    let name = given(content, "name").or_else(|| given(content, "filename"));
    Some(Attachment {
        kind,
        id: md5_hex(address.as_bytes()),
        name: name.unwrap_or(usual).to_owned(),
        // An address has no spaces.
        source: Some(format!("{} {}", key.trim(), address.trim())),
        is_image: kind == "image",
        is_speech: kind == "voice",
        ..Attachment::default()
    })
}

/// Downloads and decrypts a file of at most `limit` bytes, and keeps its name.
pub(crate) async fn fetch(
    gateway: &Gateway,
    names: &Arc<FileNames>,
    file: &Attachment,
    limit: u64,
) -> Result<Vec<u8>, FetchError> {
    let source = file
        .source
        .as_deref()
        .and_then(|source| source.split_once(' '));
    let (key, address) = source.ok_or(FetchError::NoAddress(NO_ADDRESS))?;
    let address = usable(address).ok_or(FetchError::NoAddress(NO_ADDRESS))?;
    let response = gateway.download(address).await?;
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    if is_page(&response) {
        return Err(FetchError::NoAddress(NO_FILE));
    }
    let padded_limit = limit.saturating_add(PADDING_BLOCK as u64);
    let length = response.content_length();
    if length.is_some_and(|length| length > padded_limit) {
        return Err(FetchError::TooLarge { limit });
    }
    let header = response.headers().get(CONTENT_DISPOSITION);
    let name = header.and_then(|header| file_name(&String::from_utf8_lossy(header.as_bytes())));
    let bytes = gateway.body_within(response, padded_limit).await?;
    let bytes = bytes.ok_or(FetchError::TooLarge { limit })?;
    let bytes = if key.is_empty() {
        bytes
    } else {
        let key = key.to_owned();
        let decrypted = tokio::task::spawn_blocking(move || decrypt(bytes, &key)).await;
        let decrypted = decrypted.ok().flatten();
        decrypted.ok_or(FetchError::NoAddress(WRONG_KEY))?
    };
    if let Some(name) = name {
        names.keep(&file.id, name);
    }
    Ok(bytes)
}

fn usable(address: &str) -> Option<Url> {
    let address = Url::parse(address).ok()?;
    matches!(address.scheme(), "http" | "https").then_some(address)
}

/// `true` if a response is a message for programs or people, such as an error of the storage.
fn is_page(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.trim_start().to_ascii_lowercase();
    ["text/html", "application/xml", "text/xml"]
        .iter()
        .any(|page| kind.starts_with(page))
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::check_downloads;
    use serde_json::json;

    use super::*;
    use crate::{Secret, WeComConfig};

    #[test]
    fn file_is_found_by_its_address() {
        let content = json!({"url": "https://x.test/a?b=c", "aeskey": "k", "name": "../x.pdf"});
        let file = file_of("file", &content).unwrap();
        assert_eq!(file.source.as_deref(), Some("k https://x.test/a?b=c"));
        assert_eq!(
            (file.kind, file.name.as_str(), file.id.len()),
            ("file", "../x.pdf", 32)
        );
        let image = file_of("image", &json!({"url": "https://x.test/a"})).unwrap();
        assert_eq!((image.name.as_str(), image.is_image), ("image.jpg", true));
        for (kind, content) in [
            ("file", json!({"aeskey": "k"})),
            ("file", json!({"url": 5})),
            ("text", json!({"url": "https://x.test/a"})),
            ("image", json!([])),
        ] {
            assert_eq!(file_of(kind, &content), None, "{kind} {content}");
        }
    }

    #[test]
    fn only_web_addresses_are_usable() {
        for (address, is_usable) in [
            ("https://x.test/a?b=c", true),
            ("http://x.test", true),
            ("file:///etc/passwd", false),
            ("data:text/plain,x", false),
            ("", false),
        ] {
            assert_eq!(usable(address).is_some(), is_usable, "{address}");
        }
    }

    #[tokio::test]
    async fn no_denied_address_of_the_corpus_is_fetched() {
        let fetch = async |proxy: &str, address: &str| {
            let config = WeComConfig {
                proxy: Some(Secret::new(proxy)),
                ..WeComConfig::default()
            };
            let gateway = Gateway::new(&config, None, &[]).unwrap();
            match file_of("image", &json!({"url": address})) {
                Some(file) => fetch(&gateway, &Arc::default(), &file, 100).await.is_ok(),
                None => false,
            }
        };
        check_downloads(fetch).await.unwrap();
    }
}
