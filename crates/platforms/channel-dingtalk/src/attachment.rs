//! Files that come with messages: a code in the content, an address for the code, and the file.
//!
//! DingTalk's addresses are valid for a short time and need no token, so none goes along, and a
//! redirect is not followed. Files are fetched from public addresses only, and from the hosts and
//! ports of `apiBase` and `oapiBase`. The length is known from the headers of the download only.

use nanobot_channel::Value;
use nanobot_channel_kit::attachment::{self, Attachment};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response, Url};
use serde::Deserialize;
use serde_json::json;

use crate::api::Api;
use crate::error::Refusal;
use crate::wire::given;

/// Limit of a file's name in a text, in code points.
const NAME_LIMIT: usize = 100;
const NO_ADDRESS: &str = "DingTalk gives no usable address for it";
const NO_PICTURE: &str = "DingTalk gave a page in place of the picture";

type FetchError = attachment::FetchError<Refusal>;

/// Reads the file of a message or of an item of rich text. `None` without a code.
pub(crate) fn file_of(kind: &str, content: &Value) -> Option<Attachment> {
    let name = given(content, "fileName");
    match kind {
        "picture" => {
            let code =
                given(content, "downloadCode").or_else(|| given(content, "pictureDownloadCode"))?;
            Some(named_file("image", code, "image.jpg"))
        }
        "audio" => Some(named_file(
            "audio",
            given(content, "downloadCode")?,
            "audio.amr",
        )),
        "video" => {
            let format = given(content, "videoType").unwrap_or_default();
            let is_format = (1..=5).contains(&format.len())
                && format.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let usual = format!("video.{}", if is_format { format } else { "mp4" });
            Some(named_file(
                "video",
                given(content, "downloadCode")?,
                name.unwrap_or(&usual),
            ))
        }
        "file" => Some(named_file(
            "file",
            given(content, "downloadCode")?,
            name.unwrap_or("file"),
        )),
        _ => None,
    }
}

/// Returns a file by its code.
pub(crate) fn named_file(kind: &'static str, code: &str, name: &str) -> Attachment {
    Attachment {
        kind,
        id: code.to_owned(),
        name: name.to_owned(),
        source: Some(code.to_owned()),
        is_image: kind == "image",
        is_speech: kind == "audio",
        ..Attachment::default()
    }
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
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Located {
        download_url: Option<String>,
    }
    let body = json!({"downloadCode": file.source, "robotCode": api.client_id});
    let path = "v1.0/robot/messageFiles/download";
    let Located { download_url } = api.call(Method::POST, path, &body).await?;
    let address = download_url.as_deref().and_then(usable);
    let address = address.ok_or(FetchError::NoAddress(NO_ADDRESS))?;
    let response = api.download(address).await?;
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    if file.is_image && is_page(&response) {
        return Err(FetchError::NoAddress(NO_PICTURE));
    }
    let length = response.content_length();
    if length.is_some_and(|length| length > limit) {
        return Err(FetchError::TooLarge { limit });
    }
    let bytes = api.rest.body_within(response, limit).await?;
    bytes.ok_or(FetchError::TooLarge { limit })
}

fn usable(address: &str) -> Option<Url> {
    let address = Url::parse(address).ok()?;
    matches!(address.scheme(), "http" | "https").then_some(address)
}

/// `true` if a response is a message for programs or people, such as an error of the storage.
fn is_page(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    [
        "text/html",
        "application/json",
        "application/xml",
        "text/xml",
    ]
    .iter()
    .any(|page| kind.starts_with(page))
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::check_downloads;

    use super::*;
    use crate::{DingTalkConfig, Secret};

    #[test]
    fn failed_download_is_marked_in_one_line() {
        let file = named_file("file", "d", "a]\nb");
        assert_eq!(failure_marker(&file), "[file: a  b: download failed]");
        let image = named_file("image", "d", "image.jpg");
        assert_eq!(failure_marker(&image), "[image: download failed]");
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
            let config = DingTalkConfig {
                proxy: Some(Secret::new(proxy)),
                ..DingTalkConfig::default()
            };
            let api = Api::new(&config, None, &[]).unwrap();
            match usable(address) {
                Some(address) => api.download(address).await.is_ok(),
                None => false,
            }
        };
        check_downloads(fetch).await.unwrap();
    }
}
