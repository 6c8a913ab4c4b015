//! Files that come with messages: read from the content, fetched as a resource of their message.

use nanobot_channel::Value;
use nanobot_channel_kit::attachment::{self, Attachment};
use reqwest::Method;

use crate::api::{Api, Endpoint};
use crate::error::Refusal;

/// Limit of a file's name in a text, in code points.
const NAME_LIMIT: usize = 100;

type FetchError = attachment::FetchError<Refusal>;

/// Reads the file of a message. `None` if the message is of another type, or names no file.
pub(crate) fn message_file(kind: &str, content: &Value, message: &str) -> Option<Attachment> {
    let given = |key: &str| text(content, key);
    match kind {
        "image" => Some(file("image", given("image_key")?, None, message)),
        "audio" => Some(file("audio", given("file_key")?, None, message)),
        "media" => Some(file(
            "video",
            given("file_key")?,
            given("file_name"),
            message,
        )),
        "file" => Some(file(
            "file",
            given("file_key")?,
            given("file_name"),
            message,
        )),
        _ => None,
    }
}

/// Reads the file of an element of a post.
pub(crate) fn post_file(element: &Value, message: &str) -> Option<Attachment> {
    match text(element, "tag")? {
        "img" => Some(file("image", text(element, "image_key")?, None, message)),
        "media" => Some(file("video", text(element, "file_key")?, None, message)),
        _ => None,
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value
        .get(key)
        .and_then(Value::as_str)
        .filter(|text| !text.trim().is_empty())
}

fn file(kind: &'static str, key: &str, name: Option<&str>, message: &str) -> Attachment {
    let usual = match kind {
        "image" => "image.jpg",
        "audio" => "audio.opus",
        "video" => "video.mp4",
        _ => "file",
    };
    Attachment {
        kind,
        id: key.to_owned(),
        name: name.unwrap_or(usual).to_owned(),
        source: Some(message.to_owned()),
        is_image: kind == "image",
        is_speech: kind == "audio",
        ..Attachment::default()
    }
}

/// Returns the marker of a file that could not be stored.
pub(crate) fn failure_marker(file: &Attachment) -> String {
    let name: String = file
        .name
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(NAME_LIMIT)
        .collect();
    match file.kind {
        "file" => format!("[file: {name}: download failed]"),
        kind => format!("[{kind}: download failed]"),
    }
}

/// Downloads a file of at most `limit` bytes. Its length is known from the headers of the answer,
/// not from the event.
pub(crate) async fn fetch(api: &Api, file: &Attachment, limit: u64) -> Result<Vec<u8>, FetchError> {
    let message = file.source.as_deref().filter(|message| !message.is_empty());
    let message = message.ok_or(FetchError::NoAddress("its message is not known"))?;
    let path = ["im", "v1", "messages", message, "resources", &file.id];
    let kind = if file.kind == "image" {
        "image"
    } else {
        "file"
    };
    let endpoint = Endpoint::new(Method::GET, path).with("type", kind);
    let response = api.download(&endpoint).await?;
    if response
        .content_length()
        .is_some_and(|length| length > limit)
    {
        return Err(FetchError::TooLarge { limit });
    }
    let bytes = api.rest.body_within(response, limit).await?;
    bytes.ok_or(FetchError::TooLarge { limit })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn file_is_read_from_the_content() {
        let table = [
            (
                "image",
                json!({"image_key": "img_1"}),
                Some(("image", "img_1", "image.jpg")),
            ),
            (
                "audio",
                json!({"file_key": "f", "duration": 5}),
                Some(("audio", "f", "audio.opus")),
            ),
            (
                "media",
                json!({"file_key": "f", "file_name": "a.mov", "image_key": "i"}),
                Some(("video", "f", "a.mov")),
            ),
            (
                "file",
                json!({"file_key": "f", "file_name": "../x"}),
                Some(("file", "f", "../x")),
            ),
            ("file", json!({"file_name": "x"}), None),
            ("file", json!("odd"), None),
            ("text", json!({"file_key": "f"}), None),
        ];
        for (kind, content, expected) in table {
            let file = message_file(kind, &content, "om_1");
            let found = file
                .as_ref()
                .map(|file| (file.kind, file.id.as_str(), file.name.as_str()));
            assert_eq!(found, expected, "{kind} {content}");
        }
        let odd = message_file(
            "file",
            &json!({"file_key": "f", "file_name": "a\nb"}),
            "om_1",
        );
        assert_eq!(
            failure_marker(&odd.unwrap()),
            "[file: a b: download failed]"
        );
    }
}
