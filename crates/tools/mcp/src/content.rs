//! The answer of a server as a tool result.
//!
//! Decision: text is sanitized and labelled, because a server returns what others wrote. Pictures
//! of a supported format are passed on; other data is named with its size.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_escape::{EXTERNAL_BANNER, sanitize};
use nanobot_types::{Picture, PictureFormat, ToolResult};
use rmcp::model::{CallToolResult, ContentBlock, PromptMessage, ResourceContents, Role};

/// Maximum number of pictures of a result.
const MAX_PICTURES: usize = 4;

/// An answer before it is labelled.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    parts: Vec<String>,
    pictures: Vec<Picture>,
    is_error: bool,
}

impl Answer {
    /// Returns the result for the model.
    pub(crate) fn into_result(self) -> ToolResult {
        let text = sanitize(&self.parts.join("\n"));
        let text = match text.trim().is_empty() {
            true => "(no output)".to_owned(),
            false => format!("{EXTERNAL_BANNER}\n{text}"),
        };
        let result = match self.is_error {
            true => ToolResult::error(text),
            false => ToolResult::ok(text),
        };
        let pictures = self.pictures.into_iter();
        pictures.fold(result, ToolResult::with_picture)
    }

    fn add(&mut self, block: &ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.parts.push(text.text.clone()),
            ContentBlock::Image(image) => self.add_picture(&image.mime_type, &image.data),
            ContentBlock::Audio(audio) => {
                let size = decoded_size(&audio.data);
                self.parts
                    .push(format!("[{}, {size} bytes]", audio.mime_type));
            }
            ContentBlock::Resource(resource) => self.add_resource(&resource.resource),
            ContentBlock::ResourceLink(link) => {
                self.parts.push(format!("[{}: {}]", link.name, link.uri));
            }
            other => {
                let text = serde_json::to_string(other).unwrap_or_default();
                self.parts.push(text);
            }
        }
    }

    fn add_picture(&mut self, kind: &str, data: &str) {
        let bytes = STANDARD.decode(data).unwrap_or_default();
        self.parts.push(format!("[{kind}, {} bytes]", bytes.len()));
        let is_usable = bytes.len() <= Picture::MAX_BYTES && self.pictures.len() < MAX_PICTURES;
        if let Some(format) = PictureFormat::of(&bytes).filter(|_| is_usable) {
            self.pictures.push(Picture { format, bytes });
        }
    }

    fn add_resource(&mut self, resource: &ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { text, .. } => self.parts.push(text.clone()),
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => match mime_type.as_deref() {
                Some(kind) if kind.starts_with("image/") => self.add_picture(kind, blob),
                _ => {
                    let size = decoded_size(blob);
                    self.parts.push(format!("[{uri}, {size} bytes]"));
                }
            },
            other => {
                let text = serde_json::to_string(other).unwrap_or_default();
                self.parts.push(text);
            }
        }
    }
}

/// Returns the size of base64 data after decoding, in bytes.
fn decoded_size(data: &str) -> usize {
    data.trim_end_matches('=').len() / 4 * 3
}

/// Reads the result of a tool.
pub(crate) fn tool_answer(result: CallToolResult) -> Answer {
    let mut answer = Answer {
        is_error: result.is_error.unwrap_or_default(),
        ..Answer::default()
    };
    for block in &result.content {
        answer.add(block);
    }
    if result.content.is_empty()
        && let Some(value) = result.structured_content
    {
        answer.parts.push(value.to_string());
    }
    answer
}

/// Reads the contents of a resource.
pub(crate) fn resource_answer(contents: &[ResourceContents]) -> Answer {
    let mut answer = Answer::default();
    for content in contents {
        answer.add_resource(content);
    }
    answer
}

/// Reads the messages of a prompt.
pub(crate) fn prompt_answer(messages: &[PromptMessage]) -> Answer {
    let mut answer = Answer::default();
    for message in messages {
        let role = match message.role {
            Role::User => "user:",
            Role::Assistant => "assistant:",
        };
        answer.parts.push(role.to_owned());
        answer.add(&message.content);
    }
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn result(value: Value) -> ToolResult {
        tool_answer(serde_json::from_value(value).unwrap()).into_result()
    }

    #[test]
    fn text_is_joined_sanitized_and_labelled() {
        let labelled = |text: &str| format!("{EXTERNAL_BANNER}\n{text}");
        for (value, expected) in [
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
                labelled("a\nb"),
            ),
            (
                json!({"content": [{"type": "text", "text": "\u{1b}[31mx\u{202e}y"}]}),
                labelled("[31mx\\u{202e}y"),
            ),
            (json!({"content": []}), "(no output)".to_owned()),
            (
                json!({"content": [], "structuredContent": {"n": 1}}),
                labelled("{\"n\":1}"),
            ),
            (
                json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}),
                labelled("[image/png, 3 bytes]"),
            ),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "x://y", "blob": "AAAA"}}]}),
                labelled("[x://y, 3 bytes]"),
            ),
        ] {
            assert_eq!(result(value.clone()), ToolResult::ok(expected), "{value}");
        }
        let failed = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
        assert_eq!(result(failed), ToolResult::error(labelled("no")));
    }

    #[test]
    fn pictures_of_known_formats_are_passed_on() {
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\nrest");
        let image = json!({"type": "image", "mimeType": "image/png", "data": png});
        let many = vec![image; 6];
        let result = result(json!({"content": many}));
        assert_eq!(result.pictures.len(), MAX_PICTURES);
        assert_eq!(result.pictures[0].format, PictureFormat::Png);
    }
}
