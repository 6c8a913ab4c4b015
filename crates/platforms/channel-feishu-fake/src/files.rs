//! Files and images in both directions.

use nanobot_testkit::http::Response;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::api::{ApiError, ApiResult};
use crate::handler::Outcome;
use crate::model::{Resource, SentFile};
use crate::params::Params;
use crate::state::FeishuState;

/// Maximum size of an image, in bytes.
const IMAGE_LIMIT: usize = 10 << 20;
/// Maximum size of a file, in bytes.
const FILE_LIMIT: usize = 30 << 20;
/// Maximum side of a GIF, in pixels.
const GIF_SIDE: u16 = 2000;
/// Maximum side of another image, in pixels.
const IMAGE_SIDE: u32 = 12000;
/// First bytes of the image formats that Feishu takes.
const IMAGE_FORMATS: &[(usize, &[u8])] = &[
    (0, b"\x89PNG\r\n\x1a\n"),
    (0, b"\xff\xd8\xff"),
    (0, b"GIF8"),
    (0, b"BM"),
    (0, b"\0\0\x01\0"),
    (0, b"II*\0"),
    (0, b"MM\0*"),
    (8, b"WEBP"),
    (4, b"ftypheic"),
];

impl FeishuState {
    /// Returns a file or image of a message.
    pub(crate) fn download(&self, params: &Params) -> Result<Outcome, ApiError> {
        let message = self.message(params.id(0))?;
        let (key, kind) = (params.id(1), params.asked("type"));
        if !matches!(kind, "image" | "file") {
            return Err(ApiError::because(234001, "type is neither image nor file"));
        }
        if self
            .chats
            .get(&message.chat)
            .is_none_or(|chat| !chat.has_bot)
        {
            return Err(ApiError::new(234004));
        }
        let resource = self.resources.get(key).filter(|resource| {
            let is_own = keys_in(&message.body).contains(&key);
            is_own || resource.message.as_deref() == Some(message.id.as_str())
        });
        let Some(resource) = resource else {
            return Err(ApiError::new(234003));
        };
        if (kind == "image") != (resource.kind == "image") {
            return Err(ApiError::because(
                234001,
                "type does not match the resource",
            ));
        }
        let mime = resource.mime.replace(char::is_control, "");
        let name: String = form_urlencoded::byte_serialize(resource.name.as_bytes()).collect();
        let name = name.replace('+', "%20");
        let offer = format!("attachment; filename=\"{name}\"; filename*=UTF-8''{name}");
        let response = Response::bytes(200, &mime, resource.bytes.clone());
        Ok(Outcome::File(
            response.with_header("Content-Disposition", offer),
        ))
    }

    pub(crate) fn upload_image(&mut self, params: &Params) -> ApiResult {
        if !matches!(params.text("image_type"), "message" | "avatar") {
            return Err(ApiError::because(234001, "image_type"));
        }
        let (_, bytes) = params.file.clone().unwrap_or_default();
        check_size(bytes.len(), IMAGE_LIMIT)?;
        let begins = |(offset, magic): &(usize, &[u8])| {
            bytes
                .get(*offset..)
                .is_some_and(|rest| rest.starts_with(magic))
        };
        if !IMAGE_FORMATS.iter().any(begins) {
            return Err(ApiError::new(234011));
        }
        if is_too_large(&bytes) {
            return Err(ApiError::new(234039));
        }
        let key = self.next_id("img_v3_");
        let image = Resource {
            name: "image".to_owned(),
            kind: "image".to_owned(),
            mime: "image/png".to_owned(),
            bytes,
            message: None,
        };
        self.resources.insert(key.clone(), image);
        Ok(json!({"image_key": key}))
    }

    pub(crate) fn upload_file(&mut self, params: &Params) -> ApiResult {
        let kind = params.text("file_type");
        if !matches!(
            kind,
            "opus" | "mp4" | "pdf" | "doc" | "xls" | "ppt" | "stream"
        ) {
            return Err(ApiError::because(234001, "file_type"));
        }
        let Some(name) = params.given("file_name") else {
            return Err(ApiError::because(234001, "file_name"));
        };
        let (_, bytes) = params.file.clone().unwrap_or_default();
        check_size(bytes.len(), FILE_LIMIT)?;
        let key = self.next_id("file_v3_");
        let file = Resource {
            name: name.to_owned(),
            kind: kind.to_owned(),
            mime: "application/octet-stream".to_owned(),
            bytes,
            message: None,
        };
        self.resources.insert(key.clone(), file);
        Ok(json!({"file_key": key}))
    }

    /// Returns the files that a content names by their keys.
    pub(crate) fn files_in(&self, content: &Value) -> Vec<SentFile> {
        let sent = |resource: &Resource| SentFile {
            name: resource.name.clone(),
            kind: resource.kind.clone(),
            bytes: resource.bytes.clone(),
        };
        let keys = keys_in(content).into_iter();
        keys.filter_map(|key| self.resources.get(key).map(sent))
            .collect()
    }
}

/// Returns the keys of files and images in a content, in order.
fn keys_in(content: &Value) -> Vec<&str> {
    match content {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| match (name.as_str(), value) {
                ("file_key" | "image_key" | "img_key", Value::String(key)) => vec![key.as_str()],
                _ => keys_in(value),
            })
            .collect(),
        Value::Array(parts) => parts.iter().flat_map(keys_in).collect(),
        _ => Vec::new(),
    }
}

/// Returns `true` if a side of a GIF or PNG image is too long. Other formats are not read.
fn is_too_large(image: &[u8]) -> bool {
    if image.starts_with(b"GIF") {
        let side = |at: usize| image.get(at..)?.first_chunk().copied();
        let sides = [6, 8].into_iter().filter_map(side);
        return sides.map(u16::from_le_bytes).any(|side| side > GIF_SIDE);
    }
    let side = |at: usize| image.get(at..)?.first_chunk().copied();
    let sides = [16, 20].into_iter().filter_map(side);
    image.starts_with(b"\x89PNG") && sides.map(u32::from_be_bytes).any(|side| side > IMAGE_SIDE)
}

fn check_size(size: usize, limit: usize) -> Result<(), ApiError> {
    match size {
        0 => Err(ApiError::new(234010)),
        size if size > limit => Err(ApiError::new(234006)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_images_are_limited() {
        let gif = |side: u16| [b"GIF89a\x01\x00".as_slice(), &side.to_le_bytes()].concat();
        let png = |side: u32| [b"\x89PNG".as_slice(), &[0; 12], &side.to_be_bytes()].concat();
        assert!(!is_too_large(&gif(2000)) && is_too_large(&gif(2001)));
        assert!(!is_too_large(&png(12000)) && is_too_large(&png(12001)));
        assert!(!is_too_large(b"GIF") && !is_too_large(b""));
    }
}
